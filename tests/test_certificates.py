"""The local certificate authority: what clients accept, what is renewed and what must stay."""

import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from portico.features.operations.certificates import (
    CertificateError,
    Certificates,
    Inspection,
    check_pair,
    ensure,
    inspect,
    validity_fault,
)

DAY = 86_400_000
NOW = int(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()) * 1000
HOSTS = ("API.example.com", "192.0.2.7", "2001:DB8::7")
NAMES = {"api.example.com", "192.0.2.7", "2001:db8::7", "localhost", "127.0.0.1", "::1"}


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def shake_hands(files: Certificates, host: str, trusted: Path | None = None) -> str | None:
    """A whole TLS handshake in memory, as strict as Python can be; the version agreed upon."""
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(files.certificate, files.key)
    client_context = ssl.create_default_context(cafile=str(trusted or files.ca_certificate))
    client_context.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname=host)
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, server]
    for side in (client, server, client, server):
        if side in waiting and _finished(side.do_handshake):
            waiting.remove(side)
    assert not waiting
    return client.version()


def _finished(step: Callable[[], None]) -> bool:
    try:
        step()
    except ssl.SSLWantReadError:
        return False
    return True


def today() -> int:
    """The present, which OpenSSL goes by and no argument changes."""
    return int(datetime.now(UTC).timestamp()) * 1000


# What clients accept


def test_a_client_that_trusts_the_authority_reaches_every_host(tmp_path: Path) -> None:
    files = ensure(tmp_path, HOSTS, today())
    for host in NAMES:
        assert shake_hands(files, host) == "TLSv1.3"


def test_no_other_host_and_no_other_authority_is_accepted(tmp_path: Path) -> None:
    files = ensure(tmp_path / "one", HOSTS, today())
    other = ensure(tmp_path / "other", HOSTS, today())
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(files, "www.example.com")
    with pytest.raises(
        ssl.SSLCertVerificationError, match="self-signed certificate in certificate chain"
    ):
        shake_hands(files, "localhost", trusted=other.ca_certificate)


def test_the_server_certificate_lasts_397_days_and_the_authority_ten_years(tmp_path: Path) -> None:
    files = ensure(tmp_path, HOSTS, NOW)
    server, authority = inspect(files.certificate), inspect(files.ca_certificate)
    assert server.names == NAMES
    assert (server.expires_at, authority.expires_at) == (NOW + 397 * DAY, NOW + 3650 * DAY)
    assert max(server.starts_at, authority.starts_at) < NOW
    issued = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    authority_itself = x509.load_pem_x509_certificate(files.ca_certificate.read_bytes())
    assert issued.issuer == authority_itself.subject == authority_itself.issuer


# What is kept in files


def test_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    directory = tmp_path / "tls"
    before = os.umask(0)
    try:
        ensure(directory, (), NOW)
    finally:
        os.umask(before)
    assert mode(directory) == 0o700
    assert {mode(directory / name) for name in ("ca.key", "server.key")} == {0o600}
    assert sorted(contents(directory)) == ["ca.key", "ca.pem", "server.key", "server.pem"]


CUT_OFF = """
import os, signal, sys
from pathlib import Path
from portico.features.operations.certificates import ensure

def cut_off(event, about):
    if event == "os.rename" and os.path.basename(about[1]) == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(cut_off)
ensure(Path(sys.argv[1]), sys.argv[4:], int(sys.argv[3]))
"""
"""A start that is killed as a file is about to get its name."""


@pytest.mark.parametrize(
    ("before", "name"),
    [(None, "ca.pem"), *(((), name) for name in ("ca.key", "ca.pem", "server.key", "server.pem"))],
)
def test_a_start_that_was_cut_off_is_made_good_by_the_next(
    tmp_path: Path, before: tuple[str, ...] | None, name: str
) -> None:
    if before is not None:
        ensure(tmp_path, before, today())
    cut_off = [sys.executable, "-c", CUT_OFF, str(tmp_path), name, str(today()), *HOSTS]
    assert subprocess.run(cut_off).returncode == -signal.SIGKILL
    files = ensure(tmp_path, HOSTS, today())
    assert shake_hands(files, "api.example.com") == "TLSv1.3"
    check_pair(files.ca_certificate, tmp_path / "ca.key")


def test_many_starts_at_once_make_one_authority(tmp_path: Path) -> None:
    directory = tmp_path / "tls"
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: ensure(directory, HOSTS, NOW), range(16)))
    assert len(set(made)) == 1
    check_pair(made[0].ca_certificate, directory / "ca.key")
    before = contents(directory)
    ensure(directory, HOSTS, NOW)
    assert contents(directory) == before


# What is renewed


@pytest.mark.parametrize("content", [b"", b"junk", None])
def test_a_server_certificate_that_cannot_serve_is_renewed_by_the_same_authority(
    tmp_path: Path, content: bytes | None
) -> None:
    files = ensure(tmp_path, HOSTS, today())
    authority = files.ca_certificate.read_bytes()
    files.key.write_bytes((tmp_path / "ca.key").read_bytes() if content is None else content)
    ensure(tmp_path, HOSTS, today())
    assert files.ca_certificate.read_bytes() == authority
    assert shake_hands(files, "api.example.com") == "TLSv1.3"


def test_the_server_certificate_is_renewed_in_its_last_30_days(tmp_path: Path) -> None:
    files = ensure(tmp_path, (), NOW)
    authority = files.ca_certificate.read_bytes()
    ensure(tmp_path, (), NOW + 367 * DAY)
    assert inspect(files.certificate).expires_at == NOW + 397 * DAY
    later = NOW + 367 * DAY + 1000
    ensure(tmp_path, (), later)
    assert inspect(files.certificate).expires_at == later + 397 * DAY
    assert files.ca_certificate.read_bytes() == authority


def test_no_server_certificate_outlives_its_authority(tmp_path: Path) -> None:
    files = ensure(tmp_path, (), NOW)
    authority = files.ca_certificate.read_bytes()
    ensure(tmp_path, (), NOW + 3640 * DAY)
    assert inspect(files.certificate).expires_at == NOW + 3650 * DAY
    assert files.ca_certificate.read_bytes() == authority


def test_an_authority_is_replaced_once_it_has_expired_and_that_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = ensure(tmp_path, (), NOW)
    authority, later = files.ca_certificate.read_bytes(), NOW + 3650 * DAY
    ensure(tmp_path, (), later)
    assert f"has expired and is replaced: clients must trust {files.ca_certificate}" in caplog.text
    assert files.ca_certificate.read_bytes() != authority
    assert inspect(files.ca_certificate).expires_at == later + 3650 * DAY
    assert inspect(files.certificate).expires_at == later + 397 * DAY


def test_the_authority_may_sign_for_the_hosts_of_the_server_alone(tmp_path: Path) -> None:
    files = ensure(tmp_path, HOSTS, NOW)
    authority = x509.load_pem_x509_certificate(files.ca_certificate.read_bytes())
    found = authority.extensions.get_extension_for_class(x509.NameConstraints)
    assert found.critical
    assert {str(one.value) for one in found.value.permitted_subtrees or []} == {
        *("api.example.com", "localhost", "127.0.0.0/8", "::1/128"),
        *("192.0.2.7/32", "2001:db8::7/128"),
    }


def test_a_host_that_the_authority_may_not_sign_brings_a_new_one_and_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = ensure(tmp_path, ("example.com",), today())
    authority = files.ca_certificate.read_bytes()
    ensure(tmp_path, ("api.example.com", "127.0.0.9"), today())
    assert files.ca_certificate.read_bytes() == authority, "what is below a host is its own"
    assert not caplog.records
    ensure(tmp_path, ("notexample.com", "192.0.2.1"), today())
    assert files.ca_certificate.read_bytes() != authority
    assert "192.0.2.1, notexample.com" in caplog.text
    assert shake_hands(files, "notexample.com") == "TLSv1.3"


def test_a_host_that_was_mistyped_costs_no_client_its_trust(tmp_path: Path) -> None:
    files = ensure(tmp_path, ("example.com",), today())
    authority = files.ca_certificate.read_bytes()
    for _ in range(2):
        ensure(tmp_path, ("exmaple.com",), today())
        assert files.ca_certificate.read_bytes() != authority
        ensure(tmp_path, ("example.com",), today())
        assert files.ca_certificate.read_bytes() == authority
        assert shake_hands(files, "example.com") == "TLSv1.3"
    assert mode(tmp_path / "ca.key.former") == 0o600


@pytest.mark.parametrize(
    ("starts", "ends", "last", "fault"),
    [
        (-367, 30, False, ""),
        (-367, 29, False, "expires in 29 days"),
        (-4, 2, False, ""),
        (-5, 1, False, "expires in 1 day"),
        (-5, 1, True, ""),
        (-9, -3, True, "has expired"),
        (3, 90, False, "is not valid yet"),
    ],
)
def test_validity_of_a_certificate_is_judged_by_how_long_it_is_valid(
    starts: int, ends: int, fault: str, *, last: bool
) -> None:
    found = Inspection("", frozenset(), NOW + starts * DAY, NOW + ends * DAY)
    assert validity_fault(found, NOW, last=last) == fault


# What only the operator can settle


@pytest.mark.parametrize("content", [None, b"", b"junk"])
def test_an_authority_without_its_key_serves_until_it_must_sign(
    tmp_path: Path, content: bytes | None
) -> None:
    ensure(tmp_path, (), NOW)
    (tmp_path / "ca.key").unlink()
    if content is not None:
        (tmp_path / "ca.key").write_bytes(content)
    before = contents(tmp_path)
    ensure(tmp_path, (), NOW)
    with pytest.raises(CertificateError, match=r"ca\.key .*: put the key back, or remove"):
        ensure(tmp_path, HOSTS, NOW)
    assert contents(tmp_path) == before


def test_a_damaged_authority_is_never_replaced_in_silence(tmp_path: Path) -> None:
    files = ensure(tmp_path, (), NOW)
    files.ca_certificate.write_bytes(files.ca_certificate.read_bytes()[:99])
    before = contents(tmp_path)
    with pytest.raises(CertificateError, match=r"ca\.pem holds no certificate"):
        ensure(tmp_path, (), NOW)
    assert contents(tmp_path) == before


# Certificates of others


def pem(
    key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey, passphrase: bytes | None = None
) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(passphrase)
        if passphrase
        else serialization.NoEncryption(),
    )


def own_certificate(
    directory: Path, key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
) -> Path:
    """A certificate as old tools make it: self-signed, without any extension."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "example.com")])
    starts = datetime.fromtimestamp(NOW // 1000, UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(starts)
        .not_valid_after(starts + timedelta(days=1))
        .sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
    )
    path = directory / "own.pem"
    path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    return path


def test_a_pair_fits_only_if_the_key_is_its_own_and_open(tmp_path: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    certificate, file = own_certificate(tmp_path, key), tmp_path / "own.key"
    file.write_bytes(pem(key))
    check_pair(certificate, file)
    for content, fault in (
        (pem(ed25519.Ed25519PrivateKey.generate()), "is not the private key of"),
        (pem(key, b"open sesame"), "is encrypted"),
        (b"junk", "holds no private key"),
        (certificate.read_bytes(), "holds no private key"),
    ):
        file.write_bytes(content)
        with pytest.raises(CertificateError, match=fault):
            check_pair(certificate, file)
    file.write_bytes(pem(key))
    with pytest.raises(CertificateError, match="holds no certificate"):
        check_pair(file, file)
    with pytest.raises(CertificateError, match="No such file"):
        check_pair(tmp_path / "missing.pem", file)
