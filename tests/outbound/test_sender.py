"""Deliveries over HTTP: where they go, what comes back, and what receivers may do meanwhile."""

import asyncio
import logging
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portico.core.networks import Destinations
from portico.outbound.sender import DeliveryOutcome, Sender, look_up
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
) -> DeliveryOutcome:
    """What came of one delivery to a receiver."""
    return await sender.send(f"{scheme}://{host}:{receiver.port}/hook", HEADERS, BODY)


async def answered(answer: bytes | Answer, *, seconds: float = 10) -> DeliveryOutcome:
    """What came of one delivery that is answered so, over plain HTTP."""
    async with sending(LOOPBACK, seconds=seconds) as sender, receiving(Receiver(answer)) as there:
        return await sent(there, sender, scheme="http")


def refused(outcome: DeliveryOutcome) -> str:
    """Why no answer came."""
    assert (outcome.status, outcome.answer, outcome.retry_after) == (None, "", None)
    assert outcome.error is not None
    return outcome.error


# What is sent


async def test_delivery_arrives_whole_over_tls(trusted: Authority) -> None:
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


async def test_connection_is_kept_and_no_cookie_is(trusted: Authority) -> None:
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


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "169.254.169.254", "fe80::1%lo", "::ffff:127.0.0.1", "64:ff9b::7f00:1"],
)  # fmt: skip
async def test_name_that_leads_inside_is_refused_with_the_address(address: str) -> None:
    async with sending(names=lambda _: [address]) as sender:
        reason = refused(await sender.send("https://hooks.test/", HEADERS, BODY))
    assert reason == f"its host leads to {ip_address(address)}, which is not a public address"


async def test_plain_http_to_a_public_address_is_refused() -> None:
    async with sending(LOOPBACK, names=lambda _: ["8.8.8.8"]) as sender:
        reason = refused(await sender.send("http://hooks.test/", HEADERS, BODY))
    assert reason == "its host leads to 8.8.8.8, which requires https"


async def test_name_that_is_bound_anew_is_judged_anew(trusted: Authority) -> None:
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


async def test_redirect_is_an_answer_and_is_not_followed() -> None:
    async with sending(LOOPBACK) as sender, receiving(Receiver()) as elsewhere:
        place = f"http://127.0.0.1:{elsewhere.port}/"
        answer = f"HTTP/1.1 307 Moved\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n"
        async with receiving(Receiver(answer.encode())) as there:
            outcome = await sent(there, sender, scheme="http")
    assert (outcome.status, outcome.error) == (307, None)
    assert (len(there.requests), elsewhere.connections) == (1, 0)


# Who is there


async def test_certificate_of_an_unknown_authority_or_for_another_name_is_refused(
    trusted: Authority, tmp_path: Path
) -> None:
    stranger = authority(tmp_path)
    async with (
        sending(LOOPBACK, tls=trusted.senders, names=lambda _: ["127.0.0.1"]) as sender,
        receiving(Receiver(), trusted.receivers) as there,
        receiving(Receiver(), stranger.receivers) as unknown,
    ):
        assert (await sent(there, sender, "hooks.test")).status == 200
        for receiver, host in ((unknown, "hooks.test"), (there, "other.test")):
            reason = refused(await sent(receiver, sender, host))
            assert reason.startswith("its certificate cannot be verified: ")
    assert (len(there.requests), len(unknown.requests)) == (1, 0)


# What comes back


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [(b"HTTP/1.1 204 No Content\r\n\r\n", 204, ""),
     (b"HTTP/1.1 500 No\r\nContent-Length: 4\r\n\r\nno\0\xff", 500, "no\ufffd\ufffd"),
     (b"HTTP/1.1 410 Gone\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbye\r\n0\r\n\r\n", 410, "bye"),
     (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 C\r\nContent-Length: 0\r\n\r\n", 201, "")],
    ids=["204", "500", "410", "100 before"],
)  # fmt: skip
async def test_answer_is_told_with_its_text(answer: bytes, status: int, text: str) -> None:
    async def once(writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        writer.close()

    outcome = await answered(once)
    assert (outcome.status, outcome.error, outcome.answer) == (status, None, text)


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


async def test_answer_that_trickles_for_ever_counts_when_its_status_is_there() -> None:
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


async def test_answer_of_100_mb_is_read_to_its_first_kib_and_dropped() -> None:
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


@pytest.mark.parametrize("beginning", [b"", b"HTTP/1.1 200 OK\r\nA: b\r\n"])
async def test_no_status_in_time_is_a_failure(beginning: bytes) -> None:
    async def silence(writer: asyncio.StreamWriter) -> None:
        writer.write(beginning)
        await asyncio.Event().wait()

    outcome = await answered(silence, seconds=0.3)
    assert refused(outcome) == "no answer came in time"
    assert 300 <= outcome.milliseconds < 5000


# Receivers that break off, or answer nonsense


async def reset(writer: asyncio.StreamWriter) -> None:
    """Breaks the connection."""
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Ends the connection in good order."""
    writer.close()


@pytest.mark.parametrize(("end", "kept"), [(reset, 1), (hang_up, 3)])
async def test_kept_connection_that_ends_is_replaced_and_nobody_notices(
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


async def provisional(writer: asyncio.StreamWriter) -> None:
    """Answers that something is being done, without end."""
    while True:
        writer.write(b"HTTP/1.1 102 Processing\r\n\r\n" * 10_000)
        await writer.drain()
        await asyncio.sleep(0)


CLOSED = "it closed the connection without an answer"
NO_HTTP = "its answer is not valid HTTP"


@pytest.mark.parametrize(
    ("answer", "why"),
    [(reset, CLOSED), (hang_up, CLOSED), (provisional, NO_HTTP),
     *((answer, NO_HTTP) for answer in (
         b"SSH-2.0-OpenSSH_9.2\r\n", b"\0" * 100, b"HTTP/1.1 banana\r\n\r\n",
         b"HTTP/9.9 200 OK\r\n\r\n",
         b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
         b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
         b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
         b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"))],
    ids=["reset", "closed", "provisional", "SSH", "NUL", "no status", "version", "long header",
         "many headers", "length", "lengths"],
)  # fmt: skip
async def test_delivery_fails_at_once_if_the_answer_is_no_http(
    answer: bytes | Answer, why: str
) -> None:
    assert refused(await answered(answer)) == why


@pytest.mark.parametrize(
    ("answer", "status"),
    [(b"200 OK\r\nContent-Length: 2\r\n\r\nok, and more", 200),
     (b"103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok, and more", 200),
     (b"204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 204),
     (b"200 OK\r\nTransfer-Encoding: chunked\r\n\r\nok", 200),
     (b"500 Oops\r\nContent-Length: 0\r\n\r\n<html>", 500)],
    ids=["too long", "behind early hints", "chunks after 204", "no chunks", "text after nothing"],
)  # fmt: skip
async def test_what_is_wrong_behind_its_head_takes_no_answer_along(
    answer: bytes, status: int
) -> None:
    started = time.monotonic()
    outcome = await answered(b"HTTP/1.1 " + answer, seconds=60)
    assert (outcome.status, outcome.error) == (status, None)
    assert time.monotonic() - started < 30


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


async def test_look_up_that_hangs_delays_no_other_and_is_not_begun_twice() -> None:
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


async def test_fault_of_our_own_is_logged_and_stops_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(_name: str) -> list[str]:
        raise RuntimeError("broken look-up")

    with caplog.at_level(logging.ERROR):
        async with sending(names=broken) as sender:
            reason = refused(await sender.send("https://hooks.test/", HEADERS, BODY))
    assert reason == "it could not be sent: see the log"
    assert "broken look-up" in caplog.text


# How it runs


def test_nothing_of_the_client_is_loaded_before_the_first_delivery() -> None:
    code = "import sys, portico.outbound.sender; sys.exit('aiohttp' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
