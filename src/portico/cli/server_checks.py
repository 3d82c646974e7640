"""The check of the running server for `portico doctor`."""

import http.client
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from portico.cli.findings import Finding, notice, ok, problem
from portico.cli.lock import holder, is_elsewhere
from portico.cli.ports import ANOTHER_PORT, port_fault
from portico.domain.health import BEHIND, FULL, OK
from portico.settings import Settings

ANSWER_SECONDS = 3.0
READINESS_BYTES = 4096
"""More than the size of any answer of `/readyz`."""


def server(settings: Settings) -> Iterator[Finding]:
    """Whether a server runs, answers, and serves the certificate that is on disk. If none runs,
    whether one could listen."""
    held = holder(settings.data)
    if held is None:
        yield from _vacant(settings)
        return
    if held.port:  # it may have been started with another port than the settings here say
        settings = replace(settings, port=held.port)
    where = f"{settings.host} port {settings.port}"
    try:
        status, served, body = _ask(settings, "/readyz")
    except (OSError, http.client.HTTPException) as error:
        yield _silent(settings, held.process, where, error)
        return
    readiness = _readiness(body)
    if readiness is None:
        yield problem("server", f"another program uses {where}", ANOTHER_PORT)
        return
    yield _state(readiness, where, status, held.process)
    path = settings.tls_cert or settings.data / "tls" / "server.pem"
    if served and (stored := _first(path)) and served != stored:
        advice = "it looks every 15 seconds; if this stays, its log says why"
        yield problem("certificate", "the server serves an older certificate", advice)


def _silent(settings: Settings, process: int, where: str, error: Exception) -> Finding:
    """Why a server that runs does not answer."""
    if is_elsewhere(settings.data):
        message = f"runs in another container, and {where} of this one does not lead to it"
        return notice("server", message, "run this in its container to examine it too")
    if isinstance(error, ConnectionRefusedError):
        advice = "wait, or read its log and restart it"
        return problem("server", f"process {process} does not listen on {where}", advice)
    advice = "read its log, and restart it"
    return problem("server", f"process {process} does not answer on {where}", advice)


def _vacant(settings: Settings) -> Iterator[Finding]:
    """Whether a server could listen, if none uses the data directory."""
    free = True
    for port in filter(None, (settings.port, settings.http_port)):
        if fault := port_fault(settings.host, port):
            free = False
            another = fault.is_used and _is_portico(replace(settings, port=port))
            which = ", a Portico with another data directory" if another else ""
            yield problem("server", fault.message + which, fault.advice)
    if free:
        yield ok("server", f"not running; {settings.host} port {settings.port} is free")


def _is_portico(settings: Settings) -> bool:
    try:
        return _readiness(_ask(settings, "/readyz")[2]) is not None
    except (OSError, http.client.HTTPException):
        return False


class _Readiness(msgspec.Struct):
    ready: bool
    stores: dict[str, str]


def _readiness(body: bytes) -> _Readiness | None:
    try:
        return msgspec.json.decode(body, type=_Readiness)
    except (ValueError, RecursionError):
        return None


def _state(readiness: _Readiness, where: str, status: int, process: int) -> Finding:
    """What the answer of a server's `/readyz` says."""
    stores = readiness.stores
    if stores.get("database") == BEHIND:
        return problem("server", f"{where}: waits for migrations", "run portico migrate")
    if status != 200:
        return problem("server", f"{where}: is stopping", "wait, or start it again")
    if away := ", ".join(f"{store} {state}" for store, state in stores.items() if state != OK):
        advice = "the other findings say why; the server recovers by itself"
        if FULL in stores.values():
            advice = "free some space there; the server then recovers by itself"
        return problem("server", f"{where}: its stores are not available: {away}", advice)
    return ok("server", f"answers on {where}, process {process}")


def _ask(settings: Settings, path: str) -> tuple[int, bytes | None, bytes]:
    """The status of one GET, the certificate that was served (DER), and the body."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104 - compared, not bound
    connection: http.client.HTTPConnection
    if settings.tls:
        # Another check says whether clients can trust the certificate.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(
            host, settings.port, timeout=ANSWER_SECONDS, context=context
        )
    else:
        connection = http.client.HTTPConnection(host, settings.port, timeout=ANSWER_SECONDS)
    try:
        connection.connect()
        served = (
            connection.sock.getpeercert(binary_form=True)
            if isinstance(connection.sock, ssl.SSLSocket)
            else None
        )
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, served, answer.read(READINESS_BYTES)
    finally:
        connection.close()


def _first(path: Path) -> bytes | None:
    """The first certificate of a file (DER), or None if it cannot be read, which the check of the
    certificate reports."""
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())[0].public_bytes(Encoding.DER)
    except (OSError, ValueError):
        return None
