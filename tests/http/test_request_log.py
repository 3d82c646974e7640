"""How lines about requests are written."""

import json
from types import SimpleNamespace

from operating import turns
from portico.http.measure import LINES_AT_ONCE, RequestLog


async def test_whatever_waits_has_its_turn_while_many_lines_are_written() -> None:
    written: list[bytes] = []
    log = RequestLog(written.append)
    count = 5 * LINES_AT_ONCE + 1
    for number in range(count):
        request = SimpleNamespace(
            now=0, id=str(number), method="GET", path="/", address="192.0.2.1", caller=None
        )
        log.add(request, 200, 0.001, "")  # type: ignore[arg-type]  # what it reads of one
    async with turns() as seen:
        await log.run()
    lines = b"".join(written).splitlines()
    assert [json.loads(line)["request_id"] for line in lines] == [str(n) for n in range(count)]
    assert seen.count >= 5
