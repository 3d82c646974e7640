"""A renewed certificate is served to new connections, without a restart and without a gap."""

import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from operating import Installation, Service, read_answer, until
from portico.certificates import ensure

IMPATIENT = (sys.executable, str(Path(__file__).with_name("impatient.py")), "30", "0.1", "1024")
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


def closed(connection: ssl.SSLSocket) -> bool:
    """Whether the server has ended it in order."""
    connection.settimeout(0.01)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False


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
            until(lambda: closed(idle), "the end of the earlier listener")
            slow.sendall(BODY[10:])
            assert read_answer(slow).status == 201
        assert set(statuses) == {200}
        after = served(service)
        told = "is not the private key of"
        earlier = service.text.count(told)  # where it was looked at between the two files
        (tls / "server.key").write_bytes((tls / "ca.key").read_bytes())
        until(lambda: service.text.count(told) > earlier, "the log's line")
        assert served(service) == after
        until(lambda: service.ask("/healthz").status == 200)
        assert service.stop()[0] == 0
        assert service.text.count(told) == earlier + 1


def test_the_local_certificate_is_renewed_while_it_serves(installation: Installation) -> None:
    with installation.serving(program=IMPATIENT) as service:
        before = served(service)
        (installation.data / "tls" / "server.pem").unlink()
        until(lambda: served(service) != before, "the renewed certificate")
