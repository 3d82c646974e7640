"""A renewed certificate is served to new connections, without a restart and without a gap."""

import random
import re
import ssl
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from cryptography import x509

from multiplexed import Multiplexed
from operating import Installation, Service, read_answer, until
from own_certificates import own_pair
from portico.features.operations.certificates import ensure

IMPATIENT = (sys.executable, str(Path(__file__).with_name("impatient.py")), "30", "0.1", "1024")
NOT_TAKEN = "not what the server's TLS library takes"
BODY = b'{"name":"Lamp","category":"light","price":12.5}'
NOW, DAY = 1_773_576_000_000, 86_400_000


def served(service: Service) -> bytes:
    """The certificate that a new connection is shown."""
    with service.connect() as connection:
        return connection.getpeercert(binary_form=True) or b""


def await_renewal(service: Service, renews: Callable[[], None]) -> None:
    """Waits until another certificate is served after `renews`."""
    before = served(service)
    renews()
    until(lambda: served(service) != before, "the renewed certificate")


def renew(installation: Installation, at: int) -> None:
    """Renews the certificate of the local authority."""
    (installation.data / "tls" / "server.pem").unlink()
    ensure(installation.data / "tls", ["localhost"], at)


class Pooled:
    """A client that keeps four connections, and repeats no request. It leaves a connection once it
    is told to."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._kept: list[ssl.SSLSocket] = []

    def ask(self) -> None:
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
        with suppress(TimeoutError):
            self._connection.hear(0.01)
        if self._connection.ended is not None:
            assert self._connection.ended == 0
            self.close()
            self._connection = Multiplexed(self._service)
            self.left += 1
        assert self._connection.ask("/healthz").status == 200

    def close(self) -> None:
        self._connection.socket.close()


def test_renewals_cost_busy_pooled_clients_no_request(installation: Installation) -> None:
    with installation.serving(program=(*IMPATIENT, "4")) as service, ExitStack() as stack:
        multiplexed = PooledOverHttp2(service)
        clients: list[Pooled | PooledOverHttp2] = [multiplexed, *(Pooled(service) for _ in "1234")]
        threads = stack.enter_context(ThreadPoolExecutor(len(clients)))
        over = threading.Event()
        stack.callback(over.set)

        def drive(client: Pooled | PooledOverHttp2) -> None:
            with closing(client):
                while not over.is_set():
                    client.ask()

        driven = [threads.submit(drive, client) for client in clients]
        for number in range(2):
            await_renewal(service, lambda: renew(installation, NOW + number * DAY))  # noqa: B023 - called at once
        until(
            lambda: multiplexed.left or any(one.done() for one in driven),
            "the end of the earlier listeners",
        )
        over.set()
        for one in driven:
            one.result()


def test_renewed_certificate_is_served_and_connections_end_in_order(
    installation: Installation,
) -> None:
    tls = installation.data / "tls"

    def told_end() -> bool:
        end = x509.load_pem_x509_certificate((tls / "server.pem").read_bytes())
        shown = re.search(r"(?m)^portico_certificate_\S+ (\S+)$", service.ask("/metrics").text)
        return float(shown[1] if shown else 0) == end.not_valid_after_utc.timestamp()

    with (
        installation.serving(program=IMPATIENT) as service,
        service.connect() as idle,
        service.connect() as slow,
    ):
        service.ask("/healthz", connection=idle)
        slow.sendall(
            b"POST /v1/products HTTP/1.1\r\nhost: localhost\r\n"
            b"content-type: application/json\r\ncontent-length: 47\r\n"
            b"authorization: Bearer " + installation.key.encode() + b"\r\n\r\n" + BODY[:10]
        )
        await_renewal(service, lambda: renew(installation, NOW + DAY))
        until(told_end, "the metric of its end")
        last = service.ask("/healthz", connection=idle)
        assert last.headers["connection"] == "close"
        assert idle.recv(1) == b"", "it is closed in order"
        slow.sendall(BODY[10:])
        finished = read_answer(slow)
        assert (finished.status, finished.headers["connection"]) == (201, "close")
        assert service.stop()[0] == 0


def with_key_of_another(tls: Path) -> None:
    (tls / "server.key").write_bytes((tls / "ca.key").read_bytes())


def with_pair(**options: Any) -> Callable[[Path], None]:
    def write(tls: Path) -> None:
        made = own_pair(**options)
        for name, content in zip(("server.key", "server.pem"), made[::-1], strict=True):
            (tls / name).write_bytes(content)

    return write


def test_certificate_that_cannot_serve_is_told_in_the_log_and_not_served(
    installation: Installation,
) -> None:
    tls = installation.data / "tls"
    given = installation.having(tls_cert=str(tls / "server.pem"), tls_key=str(tls / "server.key"))
    with given.serving(program=IMPATIENT) as service:
        before = served(service)
        for spoil, said in (
            (with_key_of_another, "is not the private key of"),
            (with_pair(critical=True), NOT_TAKEN),
            (with_pair(starts=-40, ends=-30), "has expired"),
            (with_pair(starts=3), "is not valid before"),
        ):
            spoil(tls)
            until(lambda: said in service.text, f"the log's line: {said}")  # noqa: B023 - called at once
            assert served(service) == before
        with_pair()(tls)

        renewed, address = (tls / "server.pem").read_text(), ("127.0.0.1", given.port)
        until(lambda: ssl.get_server_certificate(address) == renewed, "the renewed certificate")


def test_log_says_once_that_the_served_certificate_is_out_of_time(
    installation: Installation,
) -> None:
    tls = installation.directory
    with_pair(starts=-80, ends=9)(tls)
    given = installation.having(tls_cert=str(tls / "server.pem"), tls_key=str(tls / "server.key"))
    with given.serving(program=IMPATIENT) as service:
        until(lambda: "The certificate that is served expires in" in service.text, "the log's line")
        with_pair()(tls)
        renewed, address = (tls / "server.pem").read_text(), ("127.0.0.1", given.port)
        until(lambda: ssl.get_server_certificate(address) == renewed, "the renewed certificate")
        assert service.stop()[0] == 0
        assert service.text.count("The certificate that is served") == 1


def test_data_directory_that_is_moved_away_is_not_created_again(installation: Installation) -> None:
    with installation.serving(program=IMPATIENT) as service:
        trusting = service.trusting()
        installation.data.rename(installation.directory / "moved")
        until(lambda: "the certificate served before stays" in service.text, "the look")
        with service.connect(context=trusting) as connection:
            lamp = {"name": "Lamp", "category": "light", "price": 1}
            until(lambda: service.post("/v1/products", lamp, connection=connection).status == 503)
            stores = service.ask("/readyz", connection=connection).json["stores"]
        assert stores == {"database": "gone", "limiter": "ok"}
    assert not installation.data.exists()
