"""Requests to services that an operator has named: over TLS that is verified, and bounded."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from portico.outbound.client import MOST_PER_HOST
from portico.outbound.fetching import LONGEST, Fetched, Fetcher, Unfetched
from receiving import OK, Authority, Receiver, authority, receiving


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Whom both sides believe."""
    return authority(tmp_path_factory.mktemp("tls"), "localhost")


async def _answer(request: web.BaseRequest) -> web.StreamResponse:
    if request.path == "/redirect":
        return web.Response(status=302, headers={"location": "/"})
    if request.path == "/echo":
        return web.Response(body=await request.read(), headers={"set-cookie": "a=b"})
    length = {"/longest": LONGEST, "/longer": LONGEST + 1}.get(request.path, 0)
    return web.Response(body=request.headers.get("cookie", "").encode() + b" " * length)


@asynccontextmanager
async def _serving(trust: Authority) -> AsyncIterator[str]:
    # By 0 its end would wait for whoever hangs.
    runner = web.ServerRunner(web.Server(_answer), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=trust.receivers).start()
    try:
        yield f"https://localhost:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_answers_are_fetched_over_tls_and_bounded(trust: Authority) -> None:
    fetcher = Fetcher(trust.senders, seconds=20)
    async with _serving(trust) as at:
        assert await fetcher.post(f"{at}/echo", {}, {"a": "b c"}) == Fetched(200, b"a=b+c")
        assert await fetcher.get(f"{at}/", {}) == Fetched(200, b""), "no cookie is kept"
        assert (await fetcher.get(f"{at}/redirect", {})).status == 302
        assert len((await fetcher.get(f"{at}/longest", {})).body) == LONGEST
        with pytest.raises(Unfetched, match="too long"):
            await fetcher.get(f"{at}/longer", {})
    with pytest.raises(Unfetched, match="Connection refused"):
        await fetcher.get(f"{at}/", {})
    await fetcher.close()


async def test_certificate_of_nobody_who_is_believed_is_refused(trust: Authority) -> None:
    fetcher = Fetcher(seconds=20)
    async with _serving(trust) as at:
        with pytest.raises(Unfetched, match="its certificate cannot be verified"):
            await fetcher.get(f"{at}/", {})
    await fetcher.close()


async def test_host_that_hangs_holds_up_no_other_and_takes_no_more_than_its_connections() -> None:
    is_over = asyncio.Event()

    async def hang(writer: asyncio.StreamWriter) -> None:
        await is_over.wait()
        writer.write(OK)

    fetcher = Fetcher(seconds=60)
    async with receiving(Receiver(hang)) as one, receiving(Receiver()) as other:
        at = f"http://127.0.0.1:{one.port}/"
        asked = [
            asyncio.create_task(fetcher.post(at, {}, {"a": "b"})) for _ in range(MOST_PER_HOST + 20)
        ]
        await one.got(MOST_PER_HOST)
        to = f"http://127.0.0.1:{other.port}/"
        assert await fetcher.post(to, {}, {"a": "b"}) == Fetched(200, b"ok")
        is_over.set()
        assert await asyncio.gather(*asked) == [Fetched(200, b"ok")] * len(asked)
        assert one.most_open == MOST_PER_HOST
    await fetcher.close()


TOKEN = "ya29.secret"
NO_HTTP = "its answer is not valid HTTP"
HEAD = "HTTP/1.1 200 OK\r\n"
BROKEN = {
    "no status line": (f'{{"access_token": "{TOKEN}"}}\n', NO_HTTP),
    "a line that is no header": (f"{HEAD}_{TOKEN}\r\n\r\n", NO_HTTP),
    "a length that is none": (f"{HEAD}Content-Length: {TOKEN}\r\n\r\n", NO_HTTP),
    "a chunk that is none": (
        f"{HEAD}Transfer-Encoding: chunked\r\n\r\n{TOKEN}\r\n",
        "its answer is incomplete",
    ),
    "a head without end": (
        f"{HEAD}Set-Cookie: {TOKEN}\r\n",
        "it closed the connection without an answer",
    ),
    "a body that breaks off": (
        f"{HEAD}Content-Length: 99\r\n\r\n{TOKEN}",
        "its answer is incomplete",
    ),
}


@pytest.mark.parametrize(("raw", "told"), BROKEN.values(), ids=BROKEN)
async def test_what_is_told_of_an_answer_that_is_broken_holds_nothing_of_it(
    raw: str, told: str
) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(raw.encode())
        writer.close()

    fetcher = Fetcher(seconds=20)
    async with receiving(Receiver(answer)) as there:
        url = f"http://127.0.0.1:{there.port}/token"
        with pytest.raises(Unfetched) as caught:
            await fetcher.post(url, {}, {"a": "b"})
    await fetcher.close()
    assert str(caught.value) == f"{told}, at {url!r}"


async def test_address_that_is_none_is_told() -> None:
    fetcher = Fetcher()
    for address in ("https://", "nothing", "https://[::1", "http://127.0.0.1:99999"):
        with pytest.raises(Unfetched, match="InvalidUrlClientError, at "):
            await fetcher.get(address, {})
    await fetcher.close()
