"""What stands before hosts and looks after their stores, and what a drill counts."""

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml  # type: ignore[import-untyped]
from cluster.hosts import Balancer, Host

from documents import ROOT
from portico.features.operations.certificates import Certificates, ensure
from servers import free_port


class Backend(ThreadingHTTPServer):
    """A host that is always ready, and for requests does what `dies` says."""

    def __init__(self, certificates: Certificates, *, dies: bool) -> None:
        super().__init__(("127.0.0.1", free_port()), Answering)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.certificate, certificates.key)
        self.socket = context.wrap_socket(
            self.socket, server_side=True, do_handshake_on_connect=False
        )
        self.dies = dies
        self.asked: list[str] = []


class Answering(BaseHTTPRequestHandler):
    """What a host answers."""

    server: Backend

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer()

    def _answer(self) -> None:
        ready = self.path == "/readyz"
        if not ready:
            self.server.asked.append(f"{self.command} for {self.headers['X-Forwarded-For']}")
        if ready or not self.server.dies:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    now = time.time_ns() // 1_000_000
    return ensure(tmp_path_factory.mktemp("balanced") / "tls", ["localhost"], now)


@pytest.fixture
def hosts(tls: Certificates) -> Iterator[list[Backend]]:
    """One that dies of every request, and two that answer."""
    backends = [Backend(tls, dies=number == 0) for number in range(3)]
    for one in backends:
        Thread(target=one.serve_forever, kwargs={"poll_interval": 0.01}).start()
    yield backends
    for one in backends:
        one.shutdown()
        one.server_close()


@pytest.fixture
def balancer(hosts: list[Backend], tls: Certificates, tmp_path: Path) -> Iterator[Balancer]:
    told = [Host(tmp_path / str(number), {}) for number in range(3)]
    for host, backend in zip(told, hosts, strict=True):
        host.port, host.authority = backend.server_port, tls.ca_certificate
    balancer = Balancer(tmp_path / "haproxy")
    balancer.stands_before(told)
    balancer.start()
    yield balancer
    balancer.stop()


def asks(
    balancer: Balancer, tls: Certificates, body: bytes | None = None, **headers: str
) -> tuple[int, Message, bytes]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"https://localhost:{balancer.port}/v1/x", body, sent)
    trusting = ssl.create_default_context(cafile=tls.ca_certificate)
    try:
        with urllib.request.urlopen(request, context=trusting) as answer:  # noqa: S310 - https
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.headers, refusal.read()


def test_what_is_safe_to_repeat_is_asked_of_another_host_where_one_dies(
    balancer: Balancer, hosts: list[Backend], tls: Certificates
) -> None:
    for _ in range(4):
        assert asks(balancer, tls, X_Forwarded_For="192.0.2.1")[0] == 200
    for _ in range(4):
        assert asks(balancer, tls, b"{}", Idempotency_Key="k")[0] == 200
    assert {*hosts[0].asked} == {"GET for 127.0.0.1", "POST for 127.0.0.1"}


def test_write_that_a_host_took_along_is_told_as_unknown_and_never_repeated(
    balancer: Balancer, hosts: list[Backend], tls: Certificates
) -> None:
    answers = [asks(balancer, tls, b"{}") for _ in range(6)]
    refused = [answer for answer in answers if answer[0] != 200]
    assert len(refused) == len(hosts[0].asked) > 0
    assert sum(len(host.asked) for host in hosts) == 6
    for status, headers, body in refused:
        assert (status, headers["Retry-After"]) == (503, "1")
        assert set(json.loads(body)["error"]) == {"code", "message", "details"}
        assert "unknown" in json.loads(body)["error"]["message"]


def test_patroni_acknowledges_nothing_that_a_standby_lacks() -> None:
    told = yaml.safe_load((ROOT / "deploy" / "patroni.yml").read_text())["bootstrap"]["dcs"]
    assert told["synchronous_mode"] is True
    assert told["ttl"] >= told["loop_wait"] + 2 * told["retry_timeout"], "Patroni refuses less"
