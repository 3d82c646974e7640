"""A renewed certificate is served to new connections, without a restart and without a gap."""

import asyncio
import errno
import os
import random
import re
import signal
import ssl
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from granian.constants import HTTPModes, Interfaces

from multiplexed import Multiplexed
from operating import Installation, Service, eventually, free_port, read_answer, until
from portico.cli.connections import PATIENCE, Listener
from portico.cli.trial import Untried, require_accepted
from portico.features.operations.certificates import CertificateError, ensure
from portico.features.operations.commands.renewal import Pair, Renewal, Serving
from servers import family

IMPATIENT = (sys.executable, str(Path(__file__).with_name("impatient.py")), "30", "0.1", "1024")
NOT_TAKEN = "not what the server's TLS library takes"
BODY = b'{"name":"Lamp","category":"light","price":12.5}'
NOW = 1_773_576_000_000
DAY = 86_400_000


def served(service: Service) -> bytes:
    """The certificate that a new connection is shown."""
    with service.connect() as connection:
        return connection.getpeercert(binary_form=True) or b""


@contextmanager
def visitors(service: Service) -> Iterator[list[int]]:
    """Somebody who asks on ever new connections; fails if one is not answered."""
    over, statuses = threading.Event(), []
    failures: list[BaseException] = []

    def visit() -> None:
        try:
            while not over.wait(0.02):
                statuses.append(service.ask("/healthz").status)
        except BaseException as error:  # noqa: BLE001 - told in the test's own thread
            failures.append(error)

    visiting = threading.Thread(target=visit)
    visiting.start()
    try:
        yield statuses
    finally:
        over.set()
        visiting.join()
    assert not failures


class Pooled:
    """A client that keeps connections, and repeats no request. It leaves a connection once it is
    told to."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._kept: list[ssl.SSLSocket] = []

    def ask(self) -> None:
        """One request, on any of four connections."""
        if len(self._kept) < 4:
            self._kept.append(self._service.connect())
        connection = random.choice(self._kept)  # noqa: S311 - nothing secret
        answer = self._service.ask("/healthz", connection=connection)
        assert answer.status == 200
        if answer.headers.get("connection") == "close":
            self._kept.remove(connection)
            connection.close()
        time.sleep(random.uniform(0, 0.03))  # noqa: S311 - nothing secret

    def close(self) -> None:
        """Closes its connections."""
        for connection in self._kept:
            connection.close()


class PooledOverHttp2:
    """The same on one connection over HTTP/2, which it leaves after GOAWAY."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._connection = Multiplexed(service)
        self.left = 0
        """How many connections it has left."""

    def ask(self) -> None:
        """One request."""
        with suppress(TimeoutError):
            self._connection.hear(0.01)
        if self._connection.ended is not None:
            assert self._connection.ended == 0
            self.close()
            self._connection = Multiplexed(self._service)
            self.left += 1
        assert self._connection.ask("/healthz").status == 200

    def close(self) -> None:
        """Closes its connection."""
        self._connection.socket.close()


def test_renewals_cost_busy_pooled_clients_no_request(installation: Installation) -> None:
    tls = installation.data / "tls"
    with installation.serving(program=(*IMPATIENT, "4")) as service, ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(8 + 3))
        over = threading.Event()
        stack.callback(over.set)

        def drive(client: Pooled | PooledOverHttp2) -> None:
            with closing(client):
                while not over.is_set():
                    client.ask()

        def is_replaced(before: bytes) -> bool:
            return served(service) != before

        driven = [threads.submit(drive, Pooled(service)) for _ in range(8)]
        multiplexed = []
        for number in range(3):
            multiplexed.append(PooledOverHttp2(service))
            driven.append(threads.submit(drive, multiplexed[-1]))
            before = served(service)
            (tls / "server.pem").unlink()
            ensure(tls, ["localhost"], NOW + number * DAY)
            until(partial(is_replaced, before), "the renewed certificate")
        until(
            lambda: all(one.left for one in multiplexed) or any(one.done() for one in driven),
            "the end of the earlier listeners",
        )
        over.set()
        for one in driven:
            one.result()


def test_a_renewed_certificate_is_served_and_nobody_notices(installation: Installation) -> None:
    tls = installation.data / "tls"
    given = installation.having(tls_cert=str(tls / "server.pem"), tls_key=str(tls / "server.key"))
    with given.serving(program=IMPATIENT) as service:
        before = served(service)
        idle = service.connect()
        with idle, service.connect() as slow, visitors(service) as statuses:
            service.ask("/healthz", connection=idle)
            slow.sendall(
                b"POST /v1/products HTTP/1.1\r\nhost: localhost\r\n"
                b"content-type: application/json\r\ncontent-length: 47\r\n"
                b"authorization: Bearer " + given.key.encode() + b"\r\n\r\n" + BODY[:10]
            )
            until(lambda: len(statuses) > 3, "the first visits")
            (tls / "server.pem").unlink()
            ensure(tls, ["localhost"], NOW + DAY)
            until(lambda: served(service) != before, "the renewed certificate")
            last = service.ask("/healthz", connection=idle)
            assert last.headers["connection"] == "close"
            assert idle.recv(1) == b"", "it is closed in order"
            slow.sendall(BODY[10:])
            finished = read_answer(slow)
            assert (finished.status, finished.headers["connection"]) == (201, "close")
        assert set(statuses) == {200}
        after = served(service)
        told = "is not the private key of"
        earlier = service.text.count(told)  # where it was looked at between the two files
        (tls / "server.key").write_bytes((tls / "ca.key").read_bytes())
        until(lambda: service.text.count(told) > earlier, "the log's line")
        assert served(service) == after
        until(lambda: service.ask("/healthz").status == 200)
        marked, key = pair(critical=True)
        (tls / "server.pem").write_bytes(marked)
        (tls / "server.key").write_bytes(key)
        until(lambda: NOT_TAKEN in service.text, "the log's line")
        old, key = pair(ends_in=timedelta(days=-30))
        (tls / "server.key").write_bytes(key)
        (tls / "server.pem").write_bytes(old)
        until(lambda: "has expired" in service.text, "the log's line")
        assert served(service) == after
        assert service.stop()[0] == 0
        assert service.text.count(told) <= earlier + 3  # again between two files, perhaps
        assert service.text.count(NOT_TAKEN) == 1


def test_a_certificate_is_served_once_its_time_has_come(installation: Installation) -> None:
    certificate, key = installation.data / "tls" / "server.pem", installation.data / "renewed.key"
    key.write_bytes((installation.data / "tls" / "server.key").read_bytes())
    given = installation.having(tls_cert=str(certificate), tls_key=str(key))
    with given.serving(program=IMPATIENT) as service:
        before = served(service)
        much_later, its_key = pair(starts_in=timedelta(hours=1))
        certificate.write_bytes(much_later)
        key.write_bytes(its_key)
        until(lambda: "is not valid before" in service.text, "the log's line")
        assert served(service) == before
        soon, its_key = pair(starts_in=timedelta(seconds=5))
        certificate.write_bytes(soon)
        key.write_bytes(its_key)
        address = ("127.0.0.1", given.port)
        until(lambda: ssl.get_server_certificate(address) == soon.decode(), "its time")


@pytest.mark.parametrize(
    ("starts", "ends", "said"),
    [
        (timedelta(days=-60), timedelta(days=-3), "has expired"),
        (timedelta(days=-80), timedelta(days=9, hours=1), "expires in 9 days"),
        (timedelta(days=3), timedelta(days=90), "is not valid yet"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_log_tells_that_the_certificate_is_out_of_time_or_soon_will_be(
    installation: Installation, starts: timedelta, ends: timedelta, said: str
) -> None:
    told = f"The certificate that is served {said}"
    certificate, key = installation.directory / "own.pem", installation.directory / "own.key"

    def write(made: tuple[bytes, bytes]) -> None:
        certificate.write_bytes(made[0])
        key.write_bytes(made[1])

    write(pair(starts_in=starts, ends_in=ends))
    given = installation.having(tls_cert=str(certificate), tls_key=str(key))
    with given.serving(program=IMPATIENT) as service:
        until(lambda: told in service.text, "the log's line")
        made = pair()
        write(made)
        address, renewed = ("127.0.0.1", given.port), made[0].decode()
        until(lambda: ssl.get_server_certificate(address) == renewed, "the renewed certificate")
        assert service.stop()[0] == 0
        assert service.text.count("The certificate that is served") == 1


def test_the_metrics_tell_when_the_certificate_ends_that_is_served(
    installation: Installation,
) -> None:
    tls = installation.data / "tls"
    given = installation.having(tls_cert=str(tls / "server.pem"), tls_key=str(tls / "server.key"))

    def end() -> float:
        certificate = x509.load_pem_x509_certificate((tls / "server.pem").read_bytes())
        return certificate.not_valid_after_utc.timestamp()

    def is_told() -> bool:
        found = re.search(r"(?m)^portico_certificate_\S+ (\S+)$", service.ask("/metrics").text)
        return found is not None and float(found[1]) == end()

    with given.serving(program=IMPATIENT) as service:
        until(is_told, "the first one's end")
        first = end()
        (tls / "server.pem").unlink()
        ensure(tls, ["localhost"], NOW + DAY)
        assert end() != first
        until(is_told, "the second one's end")


def test_the_log_tells_of_a_local_certificate_of_a_time_to_come(installation: Installation) -> None:
    tls = installation.data / "tls"
    for file in tls.iterdir():
        file.unlink()
    ensure(tls, (), int(datetime.now(UTC).timestamp() * 1000) + 400 * DAY)
    with installation.serving(program=IMPATIENT) as service:
        told = "The certificate that is served is not valid yet"
        until(lambda: told in service.text, "the log's line")


def pair(
    *,
    critical: bool = False,
    exponent: int = 65_537,
    starts_in: timedelta = timedelta(days=-3_650),
    ends_in: timedelta = timedelta(days=3_650),
) -> tuple[bytes, bytes]:
    """A certificate and its key; `critical` has an extension that nobody knows."""
    key = rsa.generate_private_key(exponent, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    unknown = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00")
    made = (
        x509.CertificateBuilder(name, name, key.public_key())
        .serial_number(5)
        .not_valid_before(datetime.now(UTC) + starts_in)  # to make a key takes seconds at times
        .not_valid_after(datetime.now(UTC) + ends_in)
        .add_extension(unknown, critical=critical)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(Encoding.PEM), key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )


def test_what_the_tls_library_does_not_take_is_known_before_it_is_served(tmp_path: Path) -> None:
    certificate, key = tmp_path / "a certificate.pem", tmp_path / "a key.pem"

    def write(made: tuple[bytes, bytes]) -> None:
        certificate.write_bytes(made[0])
        key.write_bytes(made[1])

    write(pair())
    require_accepted(certificate, key)
    for refused in (pair(critical=True), pair(exponent=3)):
        write(refused)
        with pytest.raises(CertificateError, match=f"{NOT_TAKEN}: [A-Z]"):
            require_accepted(certificate, key)


def test_a_trial_that_a_signal_ends_says_nothing_of_the_certificate(tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_bytes(pair()[0])
    os.mkfifo(key)  # whoever reads it waits

    def trial() -> int:
        """The process that tries it, as soon as there is one."""
        for process in family(os.getpid()):
            with suppress(OSError):
                if str(key).encode() in Path(f"/proc/{process}/cmdline").read_bytes():
                    return process
        return 0

    with ThreadPoolExecutor(1) as threads:
        trying = threads.submit(require_accepted, certificate, key)
        os.kill(until(trial, "the trial"), signal.SIGKILL)
        with pytest.raises(Untried, match="could not be tried: signal 9"):
            trying.result()


def test_the_local_certificate_is_renewed_while_it_serves(installation: Installation) -> None:
    with installation.serving(program=IMPATIENT) as service:
        before = served(service)
        (installation.data / "tls" / "server.pem").unlink()
        until(lambda: served(service) != before, "the renewed certificate")


def test_a_data_directory_that_is_moved_away_is_not_made_anew(installation: Installation) -> None:
    with installation.serving(program=IMPATIENT) as service:
        trusting = service.trusting()
        installation.data.rename(installation.directory / "moved")
        until(lambda: "the certificate served before stays" in service.text, "the look")
        with service.connect(context=trusting) as connection:
            body = {"name": "Lamp", "category": "light", "price": 12.5}

            def refused() -> bool:
                answer = service.ask(
                    "/v1/products",
                    method="POST",
                    key=installation.key,
                    body=body,
                    connection=connection,
                )
                return answer.status == 503

            until(refused, "the refusal")
            stores = service.ask("/readyz", connection=connection).json["stores"]
        assert stores == {"database": "gone", "limiter": "ok"}
        service.connect(context=trusting).close()
    assert not installation.data.exists()


async def answer_nothing(_scope: Any, _proto: Any) -> None:
    """Answers nothing."""


class CannotBegin(Listener):
    """A listener for which no descriptor is left."""

    def _init_shared_socket(self) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


class CannotLeave(Listener):
    """A listener that cannot hand over once, since no descriptor is left."""

    lacks_descriptors = True

    def handover(self) -> Callable[[], None]:
        hand_over = super().handover()
        if not self.lacks_descriptors:
            return hand_over

        def fail() -> None:
            self.lacks_descriptors = False
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        return fail


class Renewing:
    """A listener of the first of two certificates, and the watch that then finds the second."""

    def __init__(self, directory: Path, first: type[Listener], kinds: list[type[Listener]]) -> None:
        """`kinds` are those of the listeners that follow the `first`."""
        self._kinds = kinds
        self._port = free_port()
        self.pair = directory / "certificate.pem", directory / "key.pem"
        self.faults: list[Exception] = []
        """What reading the files raises, one after the other."""
        self._write()
        self._first = first

    def _write(self) -> None:
        self.certificate, key = pair()
        self.pair[0].write_bytes(self.certificate)
        self.pair[1].write_bytes(key)

    def _listener(
        self, kind: type[Listener], listening: Callable[[], None], before: Listener | None
    ) -> Listener:
        return kind(
            answer_nothing,
            listening,
            address="127.0.0.1",
            port=self._port,
            interface=Interfaces.RSGI,
            websockets=False,
            log_enabled=False,
            http=HTTPModes.auto,
            ssl_cert=self.pair[0],
            ssl_key=self.pair[1],
            patience=PATIENCE,
            before=before,
        )

    def _read(self) -> Pair:
        if self.faults:
            raise self.faults.pop()
        return self.pair

    def _follow(self, _: Pair, before: Listener, listening: Callable[[], None]) -> Listener:
        return self._listener(self._kinds.pop(0), listening, before)

    async def shown(self) -> set[bytes]:
        """The certificates that new connections are shown."""
        address = ("127.0.0.1", self._port)
        asked = [asyncio.to_thread(ssl.get_server_certificate, address) for _ in range(8)]
        return {found.encode() for found in await asyncio.gather(*asked)}

    @asynccontextmanager
    async def running(self, *faults: Exception) -> AsyncIterator[Serving]:
        """Serves, then replaces the certificate and looks at it again and again."""
        begun = asyncio.Event()
        first = self._listener(self._first, begun.set, None)
        serving = Serving([first])
        await begun.wait()
        renewal = Renewal(
            self._read, self._follow, serving, first, local=False, idle=0.2, note=lambda _: None
        )
        await asyncio.to_thread(self._write)
        self.faults = [*faults]
        looking = asyncio.create_task(renewal.run(0.1))
        try:
            yield serving
        finally:
            looking.cancel()
            serving.stop()
            await asyncio.wait([looking, *serving.tasks])


@pytest.mark.parametrize(
    ("first", "then", "faults", "said"),
    [
        (Listener, [CannotBegin, Listener], [], "another listener could not begin: "),
        (CannotLeave, [Listener, Listener], [], os.strerror(errno.EMFILE)),
        (Listener, [Listener], [RuntimeError("can't start new thread")], "new thread"),
    ],
    ids=["no listener", "no hand-over", "no thread"],
)
async def test_a_renewal_that_the_system_has_no_room_for_is_tried_again(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    first: type[Listener],
    then: list[type[Listener]],
    faults: list[Exception],
    said: str,
) -> None:
    renewing = Renewing(tmp_path, first, [*then])
    async with renewing.running(*faults) as serving:
        told = "the certificate served before stays, since "
        await eventually(lambda: told in caplog.text, "the log's line")
        assert said in caplog.text

        async def is_renewed() -> bool:
            return await renewing.shown() == {renewing.certificate}

        await eventually(is_renewed, "the renewed certificate")
        await eventually(lambda: len(serving.tasks) == 1, "the end of the earlier listener")
        assert not serving.ended.done(), "the server ended"
