"""How lines about requests are written."""

import json
from types import SimpleNamespace

from portico.web.measure import MOST_LINES, RequestLog


async def test_many_lines_are_written_in_batches_that_nobody_waits_long_for() -> None:
    written: list[bytes] = []
    log = RequestLog(written.append)
    count = 3 * MOST_LINES + 1
    for number in range(count):
        request = SimpleNamespace(
            now=0, id=str(number), method="GET", path="/", address="192.0.2.1", caller=None
        )
        log.add(request, 200, 0.001, "")  # type: ignore[arg-type]  # what it reads of one
    assert [len(lines.splitlines()) for lines in written] == [MOST_LINES] * 3
    await log.run()
    lines = b"".join(written).splitlines()
    assert [json.loads(line)["request_id"] for line in lines] == [str(n) for n in range(count)]
