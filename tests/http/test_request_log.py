"""How lines about requests are written, and what is kept out of them."""

import json
from types import SimpleNamespace

import pytest

from portico.web.measure import MOST_LINES, RequestLog, redact

TOKEN = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiIxNyJ9.c2lnbmF0dXJl"


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


@pytest.mark.parametrize(
    ("text", "logged"),
    [(f"/a/{TOKEN}/b", "/a/(redacted)/b"),
     (f"token%3D{TOKEN}, {TOKEN}.", "token%3D(redacted), (redacted)."),
     (f"/{TOKEN.rpartition('.')[0]}", "/(redacted)"),
     (f"/{TOKEN.partition('.')[0]}", "/(redacted)"),
     ("/sk_live_abc/oat_abc/ort_a-c", "/(redacted)/(redacted)/(redacted)"),
     ("postgres://ann:hunter2@db/portico", "postgres://(redacted)@db/portico"),
     ("/v1/whsec_aB3+/x_-==, whsec_a%2Fb", "/v1/(redacted), (redacted)"),
     ("smtp://u:p@ss@h and smtp://v:@@i/a@b", "smtp://(redacted)@h and smtp://(redacted)@i/a@b"),
     ("/v1/products/17", "/v1/products/17")],
)  # fmt: skip
def test_credentials_do_not_reach_the_log(text: str, logged: str) -> None:
    assert redact(text) == logged


@pytest.mark.parametrize("piece", ["eyJ", "eyJ.", "eyJa.a", "eyJ-"])
def test_path_of_repeated_token_beginnings_is_redacted(piece: str) -> None:
    """Else whoever looks gives up at its end, and begins again at each place in a long path."""
    assert "eyJ" not in redact(f"/{piece * 20_000}/")
