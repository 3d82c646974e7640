"""What is compressed, for whom, and what stands beside it (RFC 9110 §8.4, §8.8.3.3, §12.5.3)."""

from collections.abc import Sequence

import httpx
import pytest

from driving import Api, Caller, InProcess
from portico.web.content import LEAST

LONG = "/products?limit=100"


@pytest.fixture
def environ() -> dict[str, str]:
    """The one that is quickest: no row decides on a coding."""
    return {}


@pytest.fixture
async def reader(api: Api) -> Caller:
    """A reader of a list that is long enough to be compressed."""
    for number in range(20):
        await api.product(name=f"Lamp {number}", description="A lamp like any other. " * 4)
    return await api.caller("editor")


async def asked(
    api: Api, caller: Caller, path: str, *headers: tuple[str, str], method: str = "GET"
) -> httpx.Response:
    """An answer to a request with these headers alone."""
    fields = [("authorization", caller.headers["authorization"]), *headers]
    return await InProcess(api).exchange(method, f"/v1{path}", fields)


def taking(text: str) -> tuple[str, str]:
    return ("accept-encoding", text)


GZIP = taking("gzip")


@pytest.mark.parametrize("path", [LONG, "/docs", "/openapi.json"])
async def test_long_answers_are_compressed_for_whoever_takes_that(
    api: Api, reader: Caller, path: str
) -> None:
    plain = await asked(api, reader, path)
    coded = await asked(api, reader, path, GZIP)
    assert "content-encoding" not in plain.headers
    assert coded.headers["content-encoding"] == "gzip"
    assert coded.content == plain.content
    assert int(coded.headers["content-length"]) * 3 < int(plain.headers["content-length"])
    assert plain.headers["vary"] == coded.headers["vary"] == "Accept-Encoding"
    assert plain.headers["etag"] != coded.headers["etag"]
    assert plain.headers["content-type"] == coded.headers["content-type"]


@pytest.mark.parametrize(
    ("accepted", "coded"),
    [
        (["gzip"], True),
        (["GZIP;q=0.001"], True),
        (["x-gzip"], True),
        (["br, zstd ;q=1, gzip; q=0.5"], True),
        (["br", "gzip"], True),
        (["*"], True),
        (["gzip;q=0.5, identity;q=0.2"], True),
        (["gzip;q=0.2, identity;q=0.5"], False),
        (["gzip;q=0"], False),
        (["gzip;q=0, *"], False),
        (["gzip;q=x"], False),
        (["gzip;q=nan"], False),
        (["br, deflate"], False),
        (["identity"], False),
        ([""], False),
        ([",;, ;q"], False),
    ],
)
async def test_the_quality_decides(
    api: Api, reader: Caller, accepted: Sequence[str], *, coded: bool
) -> None:
    answer = await asked(api, reader, LONG, *map(taking, accepted))
    assert answer.headers.get("content-encoding") == ("gzip" if coded else None)


async def test_short_answers_and_errors_are_sent_as_they_are(api: Api, reader: Caller) -> None:
    for path in ("/users/me", f"/products?{'x' * LEAST}=1", "/nowhere"):
        answer = await asked(api, reader, path, GZIP)
        assert "content-encoding" not in answer.headers, path


@pytest.mark.parametrize("path", [LONG, "/docs"])
async def test_each_coding_is_known_by_its_own_tag(api: Api, reader: Caller, path: str) -> None:
    plain = await asked(api, reader, path)
    coded = await asked(api, reader, path, GZIP)
    for first, sent in ((plain, ()), (coded, (GZIP,))):
        known = ("if-none-match", first.headers["etag"])
        again = await asked(api, reader, path, known, *sent)
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
        assert again.headers["vary"] == "Accept-Encoding"
        assert "content-encoding" not in again.headers
    known = ("if-none-match", plain.headers["etag"])
    other = await asked(api, reader, path, known, GZIP)
    assert other.status_code == 200


async def test_head_has_the_headers_of_a_compressed_get(api: Api, reader: Caller) -> None:
    got = await asked(api, reader, LONG, GZIP)
    told = await asked(api, reader, LONG, GZIP, method="HEAD")
    assert told.content == b""
    for name in ("content-encoding", "content-length", "etag", "vary"):
        assert told.headers[name] == got.headers[name]


async def test_the_tag_of_a_compressed_answer_passes_if_match(api: Api, reader: Caller) -> None:
    product = await api.product(description="A long word of praise. " * 200)
    where = f"/products/{product.id}"
    coded = await asked(api, reader, where, GZIP)
    assert coded.headers["content-encoding"] == "gzip"
    known = {"if-match": coded.headers["etag"]}
    assert (await reader.patch(where, json={"price": 2}, headers=known)).status_code == 200
    assert (await reader.patch(where, json={"price": 3}, headers=known)).status_code == 412
