"""Deliveries over HTTP: where they go, what comes back, and what receivers may do meanwhile."""

import asyncio
import gzip
import logging
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from answering import answering
from portico.core.networks import Destinations
from portico.outbound.sender import Outcome, Sender, look_up
from receiving import OK, Answer, Authority, Receiver, authority, receiving

NOON = 1_773_576_000_000
BODY = b'{"id": 17, "type": "product.updated"}'
HEADERS = {"content-type": "application/json", "webhook-id": "evt_17", "user-agent": "Portico/1"}
LOOPBACK = "127.0.0.0/8"


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority of the receivers, which senders believe."""
    return authority(tmp_path_factory.mktemp("trusted"), "hooks.test", "127.0.0.2")


@asynccontextmanager
async def sending(
    *allow: str,
    tls: ssl.SSLContext | None = None,
    names: Callable[[str], Sequence[str]] = look_up,
    seconds: float = 10,
) -> AsyncIterator[Sender]:
    """A sender that may reach these networks too."""
    destinations = Destinations(tuple(map(ip_network, allow)))
    sender = Sender(destinations, lambda: NOON, tls=tls, look_up=names, seconds=seconds)
    try:
        yield sender
    finally:
        await sender.close()


async def sent(
    receiver: Receiver, sender: Sender, host: str = "127.0.0.1", scheme: str = "https"
) -> Outcome:
    """What came of one delivery to a receiver."""
    return await sender.send(f"{scheme}://{host}:{receiver.port}/hook", HEADERS, BODY)


async def answered(answer: bytes | Answer, *, seconds: float = 10) -> Outcome:
    """What came of one delivery that is answered so, over plain HTTP."""
    async with sending(LOOPBACK, seconds=seconds) as sender, receiving(Receiver(answer)) as there:
        return await sent(there, sender, scheme="http")


def refused(outcome: Outcome) -> str:
    """Why no answer came."""
    assert (outcome.status, outcome.answer, outcome.retry_after) == (None, "", None)
    assert outcome.error is not None
    return outcome.error


# What is sent


async def test_a_delivery_arrives_whole_over_tls(trusted: Authority) -> None:
    async with (
        sending(LOOPBACK, tls=trusted.senders) as sender,
        receiving(Receiver(), trusted.receivers) as there,
    ):
        url = f"HTTPS://localhost:{there.port}/a%20b/../c?d=%2F&e"
        outcome = await sender.send(url, HEADERS, BODY)
    (request,) = there.requests
    assert request.line == "POST /a%20b/../c?d=%2F&e HTTP/1.1"
    assert request.body == BODY
    assert request.headers == {
        **HEADERS,
        "host": f"localhost:{there.port}",
        "accept": "*/*",
        "accept-encoding": "identity",
        "content-length": str(len(BODY)),
    }
    assert (outcome.status, outcome.error, outcome.answer) == (200, None, "ok")
    assert 0 <= outcome.milliseconds < 10_000
    assert outcome.retry_after is None


async def test_a_connection_is_kept_and_no_cookie_is(trusted: Authority) -> None:
    answer = OK.replace(b"\r\n", b"\r\nSet-Cookie: a=b; Path=/\r\n", 1)
    async with (
        sending(LOOPBACK, tls=trusted.senders) as sender,
        receiving(Receiver(answer), trusted.receivers) as there,
    ):
        for _ in range(3):
            # By a name, since no client keeps the cookies of addresses.
            assert (await sent(there, sender, "localhost")).status == 200
    assert [request.headers.get("cookie") for request in there.requests] == [None] * 3
    assert there.connections == 1


async def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        sending(LOOPBACK) as sender,
        receiving(Receiver()) as there,
        receiving(Receiver()) as proxy,
    ):
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
            monkeypatch.setenv(name.upper(), f"http://127.0.0.1:{proxy.port}")
        assert (await sent(there, sender, scheme="http")).status == 200
    assert (there.connections, proxy.connections) == (1, 0)


async def test_receivers_that_hang_take_no_connection_from_another() -> None:
    answered = asyncio.Event()

    async def late(writer: asyncio.StreamWriter) -> None:
        await answered.wait()
        writer.write(OK)

    async with (
        sending(LOOPBACK) as sender,
        receiving(Receiver(late)) as slow,
        receiving(Receiver()) as quick,
    ):
        held = [asyncio.ensure_future(sent(slow, sender, scheme="http")) for _ in range(200)]
        await slow.got(200)
        assert (await sent(quick, sender, scheme="http")).status == 200
        answered.set()
        assert {outcome.status for outcome in await asyncio.gather(*held)} == {200}


# Where it goes


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "127.1", "2130706433"]
)
async def test_nothing_connects_to_an_inner_address(host: str, trusted: Authority) -> None:
    async with (
        sending("192.0.2.0/24", tls=trusted.senders) as sender,
        receiving(Receiver(), host="127.0.0.1") as there,
        receiving(Receiver(), host="::1", port=there.port) as there_too,
    ):
        for scheme in ("https", "http"):
            assert refused(await sent(there, sender, host, scheme))
    assert there.connections == there_too.connections == 0


async def test_an_exception_covers_the_ipv6_form_that_leads_to_it() -> None:
    async with sending(LOOPBACK) as sender, receiving(Receiver()) as there:
        assert (await sent(there, sender, "[::ffff:127.0.0.1]", "http")).status == 200
    assert there.connections == 1


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "::1", "::", "fe80::1",  # noqa: S104 - refused
     "fe80::1%lo", "fd00::1", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1",
     "64:ff9b:1::7f00:1", "2002:7f00:1::1", "2001:0:808:808::80ff:fffe", "224.0.0.1", "ff02::1",
     "255.255.255.255"],
)  # fmt: skip
async def test_a_name_that_leads_inside_is_refused_with_the_address(address: str) -> None:
    async with sending(names=lambda _: [address]) as sender:
        reason = refused(await sender.send("https://hooks.test/", HEADERS, BODY))
    assert reason == f"its host leads to {ip_address(address)}, which is not a public address"


async def test_plain_http_to_a_public_address_is_refused() -> None:
    async with sending(LOOPBACK, names=lambda _: ["8.8.8.8"]) as sender:
        reason = refused(await sender.send("http://hooks.test/", HEADERS, BODY))
    assert reason == "its host leads to 8.8.8.8, which requires https"


async def test_a_name_that_is_bound_anew_is_judged_anew(trusted: Authority) -> None:
    addresses = iter(["127.0.0.1", "127.0.0.2", "127.0.0.1"])
    closing = OK.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
    async with (
        sending("127.0.0.1", tls=trusted.senders, names=lambda _: [next(addresses)]) as sender,
        receiving(Receiver(closing), trusted.receivers) as permitted,
        receiving(Receiver(), trusted.receivers, host="127.0.0.2", port=permitted.port) as inner,
    ):
        assert (await sent(permitted, sender, "hooks.test")).status == 200
        assert "127.0.0.2" in refused(await sent(permitted, sender, "hooks.test"))
        assert (await sent(permitted, sender, "hooks.test")).status == 200
    assert (permitted.connections, inner.connections) == (2, 0)


@pytest.mark.parametrize(
    ("addresses", "reason"),
    [
        (["127.0.0.1", "127.0.0.2"], "none of its addresses can be reached"),
        (["127.0.0.2", "127.0.0.1"], "Connection refused"),
    ],
)
async def test_of_a_names_addresses_only_the_permitted_are_tried(
    addresses: list[str], reason: str, trusted: Authority
) -> None:
    async with (
        sending("127.0.0.1", tls=trusted.senders, names=lambda _: addresses) as sender,
        receiving(Receiver(), trusted.receivers, host="127.0.0.2") as inner,
    ):
        async with receiving(Receiver(), trusted.receivers, port=inner.port) as permitted:
            assert (await sent(permitted, sender, "hooks.test")).status == 200
        assert refused(await sent(inner, sender, "hooks.test")) == reason
    assert inner.connections == 0


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_an_answer_and_is_not_followed(status: int) -> None:
    async with sending(LOOPBACK) as sender, receiving(Receiver()) as elsewhere:
        place = f"http://127.0.0.1:{elsewhere.port}/"
        answer = f"HTTP/1.1 {status} Moved\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n"
        async with receiving(Receiver(answer.encode())) as there:
            outcome = await sent(there, sender, scheme="http")
    assert (outcome.status, outcome.error) == (status, None)
    assert (len(there.requests), elsewhere.connections) == (1, 0)


# Who is there


async def test_a_certificate_of_an_unknown_authority_is_refused(
    trusted: Authority, tmp_path: Path
) -> None:
    stranger = authority(tmp_path)
    async with (
        sending(LOOPBACK, tls=trusted.senders) as sender,
        receiving(Receiver(), stranger.receivers) as there,
    ):
        assert refused(await sent(there, sender)).startswith("its certificate cannot be verified: ")
    assert there.requests == []


async def test_the_systems_authorities_are_believed_by_default(
    trusted: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    async with (
        sending(LOOPBACK) as sender,
        receiving(Receiver(), known.receivers) as there,
        receiving(Receiver(), trusted.receivers) as stranger,
    ):
        assert (await sent(there, sender)).status == 200
        assert "certificate" in refused(await sent(stranger, sender))


async def test_a_certificate_for_another_name_is_refused(trusted: Authority) -> None:
    async with (
        sending(LOOPBACK, tls=trusted.senders, names=lambda _: ["127.0.0.1"]) as sender,
        receiving(Receiver(), trusted.receivers) as there,
    ):
        assert (await sent(there, sender, "hooks.test")).status == 200
        assert "certificate" in refused(await sent(there, sender, "other.test"))
    assert len(there.requests) == 1


async def test_what_speaks_no_tls_is_refused(trusted: Authority) -> None:
    async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.com ESMTP\r\n")

    async with answering(talk) as port, sending(LOOPBACK, tls=trusted.senders) as sender:
        reason = refused(await sender.send(f"https://127.0.0.1:{port}/", HEADERS, BODY))
    assert reason == "the TLS handshake with it failed"


async def test_a_port_where_nobody_listens_is_told() -> None:
    async with sending(LOOPBACK) as sender:
        async with receiving(Receiver()) as there:
            pass
        reason = refused(await sent(there, sender, scheme="http"))
    assert reason == "Connection refused"


# What comes back


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [(b"HTTP/1.1 204 No Content\r\n\r\n", 204, ""),
     (b"HTTP/1.1 500 No\r\nContent-Length: 4\r\n\r\nno\0\xff", 500, "no\ufffd\ufffd"),
     (b"HTTP/1.1 410 Gone\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbye\r\n0\r\n\r\n", 410, "bye"),
     (b"HTTP/1.0 202 Accepted\r\n\r\n", 202, ""),
     (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 C\r\nContent-Length: 0\r\n\r\n", 201, "")],
    ids=["204", "500", "410", "HTTP/1.0", "100 before"],
)  # fmt: skip
async def test_an_answer_is_told_with_its_text(answer: bytes, status: int, text: str) -> None:
    async def once(writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        writer.close()

    outcome = await answered(once)
    assert (outcome.status, outcome.error, outcome.answer) == (status, None, text)


async def test_a_compressed_answer_is_left_as_it_is() -> None:
    packed = gzip.compress(bytes(10**6))
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
    outcome = await answered(head.encode() + packed)
    assert outcome.status == 200
    assert outcome.answer.startswith("\x1f\ufffd")  # as gzip begins


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("0", 0), ("120", 120), ("9999999999", 9_999_999_999),
     ("Sun, 15 Mar 2026 12:01:30 GMT", 90), ("Sunday, 15-Mar-26 12:01:30 GMT", 90),
     ("Sun Mar 15 12:01:30 2026", 90), ("Sun, 15 Mar 2026 11:59:00 GMT", 0),
     ("-1", None), ("soon", None), ("1.5", None), ("99999999999", None), ("", None),
     ("Sun, 99 Mar 2026 12:01:30 GMT", None)],
)  # fmt: skip
async def test_how_long_a_receiver_asks_to_wait(value: str, seconds: int | None) -> None:
    assert datetime.fromtimestamp(NOON / 1000, UTC).isoformat() == "2026-03-15T12:00:00+00:00"
    head = f"HTTP/1.1 503 Later\r\nRetry-After: {value}\r\nContent-Length: 0\r\n\r\n"
    outcome = await answered(head.encode())
    assert (outcome.status, outcome.retry_after) == (503, seconds)


# Receivers that take their time, or too much


async def test_an_answer_that_trickles_for_ever_counts_when_its_status_is_there() -> None:
    async def trickle(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    started = time.monotonic()
    outcome = await answered(trickle, seconds=2)
    assert time.monotonic() - started < 20
    assert (outcome.status, outcome.error) == (200, None)
    assert 0 < len(outcome.answer) < 1000
    assert outcome.milliseconds < 2_000


async def test_an_answer_of_100_mb_is_read_to_its_first_kib_and_dropped() -> None:
    written = 0

    async def flood(writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
        for _ in range(1000):
            writer.write(b"x" * 100_000)
            await writer.drain()
            written += 100_000

    async with sending(LOOPBACK) as sender, receiving(Receiver(flood)) as there:
        for _ in range(2):
            outcome = await sent(there, sender, scheme="http")
            assert (outcome.status, outcome.answer) == (200, "x" * 1024)
    assert there.connections == 2
    assert written < 20_000_000


def test_who_answers_without_end_is_cut_off_without_a_farewell(trusted: Authority) -> None:
    def flood(listener: socket.socket) -> None:
        accepted, _ = listener.accept()
        with trusted.receivers.wrap_socket(accepted, server_side=True) as writer:
            writer.recv(65_536)
            writer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n")
            with suppress(OSError):
                while True:  # whatever the other side says
                    writer.sendall(b"x" * 100_000)

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            flooding = asyncio.create_task(asyncio.to_thread(flood, listener))
            async with sending(LOOPBACK, tls=trusted.senders) as sender:
                url = f"https://127.0.0.1:{listener.getsockname()[1]}/"
                assert (await sender.send(url, HEADERS, BODY)).status == 200
                async with asyncio.timeout(15):  # a farewell would be waited for twice as long
                    await flooding

    uvloop.run(main())


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
async def test_nothing_more_goes_to_who_never_reads_once_the_time_is_over() -> None:
    body = b"x" * 20_000_000  # more than the kernel takes
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with sending(LOOPBACK, seconds=0.5) as sender:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
            assert refused(await sender.send(url, HEADERS, body)) == "no answer came in time"
            with listener.accept()[0] as accepted:
                accepted.setblocking(False)  # noqa: FBT003 - the library's
                assert await _read_to_its_end(accepted) < len(body)


async def _read_to_its_end(connection: socket.socket) -> int:
    """How many bytes come until the other side ends a connection."""
    count = 0
    with suppress(ConnectionError):
        async with asyncio.timeout(15):
            while part := await asyncio.get_running_loop().sock_recv(connection, 1 << 20):
                count += len(part)
    return count


@pytest.mark.parametrize("beginning", [b"", b"HTTP/1.1 2", b"HTTP/1.1 200 OK\r\nA: b\r\n"])
async def test_no_status_in_time_is_a_failure(beginning: bytes) -> None:
    async def silence(writer: asyncio.StreamWriter) -> None:
        writer.write(beginning)
        await asyncio.Event().wait()

    outcome = await answered(silence, seconds=0.3)
    assert refused(outcome) == "no answer came in time"
    assert 300 <= outcome.milliseconds < 5000


@pytest.mark.parametrize("at_once", [1, 10_000])
async def test_provisional_answers_without_end_end_the_connection(at_once: int) -> None:
    async def provisional(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"HTTP/1.1 102 Processing\r\n\r\n" * at_once)
            await writer.drain()
            await asyncio.sleep(0)

    reason = refused(await answered(provisional))
    assert reason == "its answer is not valid HTTP"


async def test_some_provisional_answers_may_come_before_each_one() -> None:
    each = b"HTTP/1.1 102 Processing\r\n\r\n" * 9 + OK
    async with sending(LOOPBACK) as sender, receiving(Receiver(each)) as there:
        outcomes = [await sent(there, sender, scheme="http") for _ in range(3)]
    assert [outcome.answer for outcome in outcomes] == ["ok"] * 3
    assert there.connections == 1


async def test_answers_that_nobody_asked_for_end_the_connection() -> None:
    async with sending(LOOPBACK) as sender, receiving(Receiver(OK * 10_000)) as there:
        for _ in range(2):
            assert (await sent(there, sender, scheme="http")).answer == "ok"
    assert there.connections == 2


async def test_a_handshake_that_is_never_finished_is_a_failure(trusted: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with sending(LOOPBACK, tls=trusted.senders, seconds=0.3) as sender:
            url = f"https://127.0.0.1:{listener.getsockname()[1]}/"
            assert refused(await sender.send(url, HEADERS, BODY)) == "no answer came in time"


async def test_whoever_stops_waiting_stops_the_delivery() -> None:
    arrived, ended = asyncio.Event(), asyncio.Event()

    async def talk(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await reader.read()  # to its end
        ended.set()

    async with answering(talk) as port, sending(LOOPBACK) as sender:
        url = f"http://127.0.0.1:{port}/"
        delivery = asyncio.create_task(sender.send(url, HEADERS, BODY))
        await asyncio.wait_for(arrived.wait(), 20)
        delivery.cancel()
        with pytest.raises(asyncio.CancelledError):
            await delivery
        await asyncio.wait_for(ended.wait(), 20)


# Receivers that break off, or answer nonsense


async def reset(writer: asyncio.StreamWriter) -> None:
    """Breaks the connection."""
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Ends the connection in good order."""
    writer.close()


@pytest.mark.parametrize("end", [reset, hang_up])
async def test_an_end_without_an_answer_is_a_failure_at_once(end: Answer) -> None:
    async with sending(LOOPBACK) as sender, receiving(Receiver(end)) as there:
        reason = refused(await sent(there, sender, scheme="http"))
    assert reason == "it closed the connection without an answer"
    assert len(there.requests) == 1


async def test_an_answer_that_breaks_off_in_its_body_counts() -> None:
    async def half(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
        await writer.drain()
        writer.close()

    outcome = await answered(half)
    assert (outcome.status, outcome.answer) == (200, "half")


@pytest.mark.parametrize("end", [reset, hang_up])
@pytest.mark.parametrize("kept", [1, 3])
async def test_a_kept_connection_that_ends_is_replaced_and_nobody_notices(
    end: Answer, kept: int, trusted: Authority
) -> None:
    turns = iter([*[None] * kept, *[end] * kept])
    all_there = asyncio.Event()

    async def answer(writer: asyncio.StreamWriter) -> None:
        if broken := next(turns, None):
            await broken(writer)
        else:
            await all_there.wait()  # so that each needs a connection of its own
            writer.write(OK)

    async with (
        sending(LOOPBACK, tls=trusted.senders) as sender,
        receiving(Receiver(answer), trusted.receivers) as there,
    ):
        first = [asyncio.create_task(sent(there, sender)) for _ in range(kept)]
        await there.got(kept)
        all_there.set()
        assert [(await one).status for one in first] == [200] * kept
        assert there.connections == kept
        assert (await sent(there, sender)).status == 200
    assert there.connections == kept + 1
    assert len(there.requests) == 2 * kept + 1


@pytest.mark.parametrize(
    "answer",
    [b"SSH-2.0-OpenSSH_9.2\r\n", b"\0" * 100, b"HTTP/1.1 banana\r\n\r\n",
     b"HTTP/9.9 200 OK\r\n\r\n",
     b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
     b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
     b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
     b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"],
    ids=["SSH", "NUL", "no status", "version", "long header", "many headers", "length", "lengths"],
)  # fmt: skip
async def test_what_is_no_http_is_a_failure(answer: bytes) -> None:
    assert refused(await answered(answer)) == "its answer is not valid HTTP"


@pytest.mark.parametrize(
    ("answer", "status"),
    [(b"200 OK\r\nContent-Length: 2\r\n\r\nok, and more", 200),
     (b"103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok, and more", 200),
     (b"200 OK\nContent-Length: 2\n\nok, and more", 200),
     (b"204 No Content\r\nContent-Length: 2\r\n\r\nok", 204),
     (b"204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 204),
     (b"200 OK\r\nTransfer-Encoding: chunked\r\n\r\nok", 200),
     (b"500 Oops\r\nContent-Length: 0\r\n\r\n<html>", 500)],
    ids=["too long", "behind early hints", "lines of LF", "text after 204", "chunks after 204",
         "no chunks", "text after nothing"],
)  # fmt: skip
async def test_what_is_wrong_behind_its_head_takes_no_answer_along(
    answer: bytes, status: int
) -> None:
    started = time.monotonic()
    outcome = await answered(b"HTTP/1.1 " + answer, seconds=60)
    assert (outcome.status, outcome.error) == (status, None)
    assert time.monotonic() - started < 30


@pytest.mark.parametrize(
    ("first", "rest"),
    [(b"\r\n", b"\r\n"), (b"\r", b"\n\r\n"), (b"", b"\r\n\r\n"), (b"", b"\n\n")],
    ids=["a line", "half a line end", "no line end", "no LF"],
)  # fmt: skip
async def test_the_end_of_a_head_that_comes_with_what_is_wrong_behind_it_ends_the_head(
    first: bytes, rest: bytes
) -> None:
    async def split(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2" + first)
        await asyncio.sleep(0.1)  # so that it comes by itself
        writer.write(rest + b"ok, and more")

    assert (await answered(split)).status == 200


async def test_what_is_left_of_an_answer_is_none_to_the_next_delivery() -> None:
    async def split(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n")
        await delivered.wait()
        writer.write(b"0\r\n\r\n")

    async with sending(LOOPBACK) as sender, receiving(Receiver(split)) as there:
        for connections in (1, 2):
            delivered = asyncio.Event()
            assert (await sent(there, sender, scheme="http")).status == 204
            assert there.connections == connections
            delivered.set()


async def test_who_answers_with_no_http_gets_a_delivery_no_more_than_twice() -> None:
    turns = iter([OK] * 3)

    async def answer(writer: asyncio.StreamWriter) -> None:
        text = next(turns, b"no HTTP\r\n\r\n")
        await all_there.wait()  # so that each needs a connection of its own
        writer.write(text)

    all_there = asyncio.Event()
    async with sending(LOOPBACK) as sender, receiving(Receiver(answer)) as there:
        first = [asyncio.create_task(sent(there, sender, scheme="http")) for _ in range(3)]
        await there.got(3)
        all_there.set()
        assert [(await one).status for one in first] == [200] * 3
        last = await sent(there, sender, scheme="http")
        assert refused(last) == "its answer is not valid HTTP"
        assert len(there.requests) == 3 + 2


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n", OK, OK.replace(b": 2", b": 9")]),
    st.binary(max_size=300),
)
def test_no_answer_raises(start: bytes, rest: bytes) -> None:
    async def anything(writer: asyncio.StreamWriter) -> None:
        writer.write(start + rest)
        writer.close()

    outcome = asyncio.run(answered(anything))
    assert (outcome.status is None) == (outcome.error is not None)
    if outcome.error:
        assert "see the log" not in outcome.error


# Names


async def test_a_name_that_cannot_be_looked_up_is_told() -> None:
    def nowhere(_name: str) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async with sending(names=nowhere) as sender:
        reason = refused(await sender.send("https://hooks.test/", HEADERS, BODY))
    assert reason == "its host name cannot be resolved: Name or service not known"


async def test_a_look_up_that_hangs_delays_no_other_and_is_not_begun_twice() -> None:
    hanging = threading.Event()
    asked: list[str] = []

    def names(name: str) -> list[str]:
        asked.append(name)
        if name == "slow.test":
            hanging.wait(30)
        return ["127.0.0.1"]

    try:
        async with (
            sending(LOOPBACK, names=names, seconds=2) as sender,
            receiving(Receiver()) as there,
        ):
            slow = [sent(there, sender, "slow.test", "http") for _ in range(50)]
            waiting = asyncio.gather(*slow)
            await asyncio.sleep(0)
            assert (await sent(there, sender, "quick.test", "http")).status == 200
            assert {refused(outcome) for outcome in await waiting} == {"no answer came in time"}
    finally:
        hanging.set()
    assert sorted(asked) == ["quick.test", "slow.test"]


async def test_a_fault_of_our_own_is_logged_and_stops_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(_name: str) -> list[str]:
        raise RuntimeError("broken look-up")

    with caplog.at_level(logging.ERROR):
        async with sending(names=broken) as sender:
            reason = refused(await sender.send("https://hooks.test/", HEADERS, BODY))
    assert reason == "it could not be sent: see the log"
    assert "broken look-up" in caplog.text


async def test_a_client_that_cannot_be_loaded_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken() -> None:
        raise ssl.SSLError("no authorities")

    async with sending(LOOPBACK) as sender, receiving(Receiver()) as there:
        with monkeypatch.context() as patched:
            patched.setattr(ssl, "create_default_context", broken)
            reason = refused(await sent(there, sender, scheme="http"))
            assert reason == "it could not be sent: see the log"
        assert (await sent(there, sender, scheme="http")).status == 200


# How it runs


def test_it_is_the_same_on_the_loop_that_serves(trusted: Authority) -> None:
    turns = iter([None, reset, None, hang_up, None])

    async def answer(writer: asyncio.StreamWriter) -> None:
        if end := next(turns):
            await end(writer)
        else:
            writer.write(OK)

    async def main() -> list[str | int | None]:
        async with (
            sending("127.0.0.1", tls=trusted.senders, seconds=20) as sender,
            receiving(Receiver(answer), trusted.receivers) as there,
            receiving(Receiver(), trusted.receivers, host="127.0.0.2", port=there.port) as inner,
        ):
            several = [(await sent(there, sender)).status for _ in range(3)]
            reason = refused(await sent(inner, sender, "127.0.0.2"))
            assert inner.connections == 0
        return [*several, there.connections, reason]

    assert uvloop.run(main()) == [
        *(200, 200, 200, 3),
        "its host leads to 127.0.0.2, which is not a public address",
    ]


def test_nothing_of_the_client_is_loaded_before_the_first_delivery() -> None:
    code = "import sys, portico.outbound.sender; sys.exit('aiohttp' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
