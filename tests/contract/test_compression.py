"""What is compressed, for whom, and what stands beside it (RFC 9110 §8.4, §8.8.3.3, §12.5.3)."""

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
    api: Api, caller: Caller, path: str, *accepted: str, method: str = "GET", **known: str
) -> httpx.Response:
    """An answer to a request with these codings, and the headers of `known`."""
    fields = [("authorization", caller.headers["authorization"])]
    fields += [("accept-encoding", text) for text in accepted]
    fields += [(name.replace("_", "-"), value) for name, value in known.items()]
    return await InProcess(api).exchange(method, f"/v1{path}", fields)


@pytest.mark.parametrize("path", [LONG, "/docs", "/openapi.json"])
async def test_long_answers_are_compressed_and_known_by_their_own_tag(
    api: Api, reader: Caller, path: str
) -> None:
    plain, coded = await asked(api, reader, path), await asked(api, reader, path, "gzip")
    assert "content-encoding" not in plain.headers
    assert coded.headers["content-encoding"] == "gzip"
    assert coded.content == plain.content
    assert int(coded.headers["content-length"]) * 3 < int(plain.headers["content-length"])
    assert plain.headers["vary"] == coded.headers["vary"] == "Accept-Encoding"
    assert plain.headers["etag"] != coded.headers["etag"]
    assert plain.headers["content-type"] == coded.headers["content-type"]
    head = await asked(api, reader, path, "gzip", method="HEAD")
    assert head.content == b""
    for name in ("content-encoding", "content-length", "etag", "vary"):
        assert head.headers[name] == coded.headers[name]
    for first, sent in ((plain, ()), (coded, ("gzip",))):
        again = await asked(api, reader, path, *sent, if_none_match=first.headers["etag"])
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
        assert again.headers["vary"] == "Accept-Encoding"
        assert "content-encoding" not in again.headers
    other = await asked(api, reader, path, "gzip", if_none_match=plain.headers["etag"])
    assert other.status_code == 200


QUALITIES = {
    **dict.fromkeys(("gzip", "GZIP;q=0.001", "x-gzip", "br, zstd ;q=1, gzip; q=0.5", "*"), "gzip"),
    "gzip;q=0.5, identity;q=0.2": "gzip",
    **dict.fromkeys(("gzip;q=0.2, identity;q=0.5", "gzip;q=0", "gzip;q=0, *", "gzip;q=nan")),
    **dict.fromkeys(("br, deflate", "identity", "", ",;, ;q")),
}


async def test_the_quality_decides(api: Api, reader: Caller) -> None:
    for accepted, coding in QUALITIES.items():
        answer = await asked(api, reader, LONG, accepted)
        assert answer.headers.get("content-encoding") == coding, accepted
    answer = await asked(api, reader, LONG, "br", "gzip")
    assert answer.headers["content-encoding"] == "gzip"


async def test_short_answers_and_errors_are_sent_as_they_are(api: Api, reader: Caller) -> None:
    for path in ("/users/me", f"/products?{'x' * LEAST}=1", "/nowhere"):
        answer = await asked(api, reader, path, "gzip")
        assert "content-encoding" not in answer.headers, path


async def test_the_tag_of_a_compressed_answer_passes_if_match(api: Api, reader: Caller) -> None:
    product = await api.product(description="A long word of praise. " * 200)
    where = f"/products/{product.id}"
    coded = await asked(api, reader, where, "gzip")
    assert coded.headers["content-encoding"] == "gzip"
    known = {"if-match": coded.headers["etag"]}
    assert (await reader.patch(where, json={"price": 2}, headers=known)).status_code == 200
    assert (await reader.patch(where, json={"price": 3}, headers=known)).status_code == 412
