"""Requests to services that an operator has named: over TLS that is verified, and bounded."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from portico.outbound.fetching import LONGEST, Fetched, Fetcher, Unfetched
from receiving import Authority, Receiver, authority, receiving


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Whom both sides believe."""
    return authority(tmp_path_factory.mktemp("tls"), "localhost")


async def _answer(request: web.BaseRequest) -> web.StreamResponse:
    if request.path == "/redirect":
        return web.Response(status=302, headers={"location": "/"})
    if request.path == "/drips":
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.05)
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
    fetcher = Fetcher(trust.senders, seconds=5)
    async with _serving(trust) as at:
        assert await fetcher.post(f"{at}/echo", {}, {"a": "b c"}) == Fetched(200, b"a=b+c")
        assert await fetcher.get(f"{at}/", {}) == Fetched(200, b""), "no cookie is kept"
        assert (await fetcher.get(f"{at}/redirect", {})).status == 302
        assert len((await fetcher.get(f"{at}/longest", {})).body) == LONGEST
        with pytest.raises(Unfetched, match="too long"):
            await fetcher.get(f"{at}/longer", {})
    with pytest.raises(Unfetched, match="Connect"):
        await fetcher.get(f"{at}/", {})
    await fetcher.close()


async def test_a_certificate_of_nobody_who_is_believed_is_refused(trust: Authority) -> None:
    fetcher = Fetcher(seconds=5)
    async with _serving(trust) as at:
        with pytest.raises(Unfetched, match="Certificate"):
            await fetcher.get(f"{at}/", {})
    await fetcher.close()


async def test_a_body_that_never_ends_is_given_up(trust: Authority) -> None:
    fetcher = Fetcher(trust.senders, seconds=0.3)
    async with _serving(trust) as at:
        with pytest.raises(Unfetched, match="in time"):
            await fetcher.get(f"{at}/drips", {})
    await fetcher.close()


async def test_provisional_answers_without_end_are_given_up() -> None:
    async def provisional(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000)
            await writer.drain()

    fetcher = Fetcher(seconds=5)
    async with receiving(Receiver(provisional)) as there:
        with pytest.raises(Unfetched, match="too many answers"):
            await fetcher.post(f"http://127.0.0.1:{there.port}/", {}, {"a": "b"})
    await fetcher.close()


async def test_an_address_that_is_none_is_told() -> None:
    fetcher = Fetcher()
    for address in ("https://", "nothing", "https://[::1", "http://127.0.0.1:99999"):
        with pytest.raises(Unfetched):
            await fetcher.get(address, {})
    await fetcher.close()
