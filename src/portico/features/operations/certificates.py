"""The local certificate authority and the server certificate that it signs, stored as PEM files.

They make HTTPS work from the first start. This module also checks whether a configured certificate
can be served; it does not obtain certificates.
"""

import fcntl
import logging
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import (
    CertificatePublicKeyTypes,
    PrivateKeyTypes,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from portico.core.text import counted
from portico.core.times import DAY
from portico.data.disk import exists, write_durably


def common_name(name: str) -> x509.Name:
    """A subject or issuer that consists of this common name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def general_name(name: str) -> x509.GeneralName:
    """A host name or an IP address."""
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def usage(*, digital_signature: bool, key_cert_sign: bool) -> x509.KeyUsage:
    """The key usage extension with these uses; `key_cert_sign` includes signing CRLs."""
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=key_cert_sign,
        encipher_only=False,
        decipher_only=False,
    )


def pem(certificate: x509.Certificate) -> bytes:
    """A certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key as unencrypted PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def constraints(names: Collection[str]) -> x509.NameConstraints:
    """Permits these names, their subdomains and all of 127.0.0.0/8 (RFC 5280 §4.2.1.10)."""
    kinds: list[x509.GeneralName] = []
    for name in sorted(names):
        try:
            kinds.append(x509.IPAddress(ip_network("127.0.0.0/8" if name == "127.0.0.1" else name)))
        except ValueError:
            kinds.append(x509.DNSName(name))
    return x509.NameConstraints(permitted_subtrees=kinds, excluded_subtrees=None)


def within(name: str, permitted: x509.GeneralName) -> bool:
    """Whether a name constraint permits this host."""
    try:
        address = ip_address(name)
    except ValueError:
        return isinstance(permitted, x509.DNSName) and f".{name}".endswith(f".{permitted.value}")
    network = permitted.value if isinstance(permitted, x509.IPAddress) else None
    return isinstance(network, IPv4Network | IPv6Network) and address in network


def new_builder(
    subject: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePublicKey,
) -> x509.CertificateBuilder:
    """What all certificates have; strict verifiers require both key identifiers (RFC 5280)."""
    authority_identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key)
    return (
        x509.CertificateBuilder(issuer, subject, public_key)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(authority_identifier, critical=False)
    )


def host_names(certificate: x509.Certificate) -> set[str]:
    """The host names and IP addresses that a certificate names."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):  # none, or malformed
        return set()
    addresses = names.get_values_for_type(x509.IPAddress)
    return {*names.get_values_for_type(x509.DNSName), *map(str, addresses)}


def normal_form(host: str) -> str:
    """A host in the spelling that certificates use."""
    try:
        return str(ip_address(host))
    except ValueError:
        return host.lower()


AUTHORITY_DAYS = 3650
SERVER_DAYS = 397  # browsers accept at most 398
RENEWAL_DAYS = 30
AUTHORITY_NOTICE_DAYS = 90
"""From when on the expiry of an authority is logged: all clients must then trust a new one."""

NAMES = ("ca.pem", "ca.key", "server.pem", "server.key")
"""The files in a local authority's directory."""

_BACKDATED = timedelta(hours=1)  # clients' clocks differ
_ALWAYS_NAMED = ("localhost", "127.0.0.1", "::1")

log = logging.getLogger(__name__)


class CertificateError(Exception):
    """A certificate or key cannot be used. The message is one line for the operator, without the
    key."""


class Certificates(msgspec.Struct, frozen=True):
    """Files for TLS: what clients trust, what the server presents, and its private key."""

    ca_certificate: Path
    certificate: Path
    key: Path


class Inspection(msgspec.Struct, frozen=True):
    """The content of a certificate: the subject's common name, the host names and IP addresses,
    and the validity in epoch milliseconds."""

    common_name: str
    names: frozenset[str]
    starts_at: int
    expires_at: int


def ensure(directory: Path, hosts: Collection[str], now_ms: int) -> Certificates:
    """Creates missing certificates in `directory` and renews those about to expire. Creates the
    directory too, but not its parent.

    The server certificate names `hosts` (host names or IP addresses), localhost and the loopback
    addresses. It is renewed in its last 30 days, and when it lacks a host, does not match its key
    or was issued by another authority.

    The authority may sign for these names and their subdomains only, so that a stolen key cannot
    be used to impersonate other hosts. It is replaced once it has expired, or when `hosts` has a
    name that it may not sign. Clients must then trust the new one, which the log says; in the 90
    days before it expires, each process logs that once a day. The one before is kept, and used
    again if the reason was a mistyped host.

    Several processes may do this at once. Raises `CertificateError` if only the operator can help,
    and `OSError` if files cannot be written.
    """
    directory.mkdir(mode=0o700, exist_ok=True)
    files = Certificates(
        ca_certificate=directory / "ca.pem",
        certificate=directory / "server.pem",
        key=directory / "server.key",
    )
    names = {normal_form(host) for host in (*hosts, *_ALWAYS_NAMED)}
    now = datetime.fromtimestamp(now_ms // 1000, UTC)
    with _locked(directory):
        _ensure_authority(files.ca_certificate, directory / "ca.key", names, now)
        if not _is_current(files, names, now):
            _make_server(files, directory / "ca.key", names, now)
    return files


def _ensure_authority(
    certificate: Path, key_file: Path, names: Collection[str], now: datetime
) -> None:
    """Creates a missing authority, and replaces one that cannot be used."""
    _finish_renaming(certificate, key_file)
    former, former_key = _former(certificate), _former(key_file)
    if not exists(certificate):  # perhaps removed since the keys have leaked
        former.unlink(missing_ok=True)
        former_key.unlink(missing_ok=True)
        _make_authority(certificate, key_file, names, now)
        return
    can_return = _can_sign(former, former_key, names, now)
    if foreign := _forbidden(certificate, names):
        # Raises if the key was moved away: this authority is then kept.
        _signing_key(certificate, key_file)
        log.warning(
            "The local authority may not sign for %s and is replaced: clients must trust %s.",
            ", ".join(foreign),
            certificate,
        )
    elif not _has_expired(certificate, now):
        return
    present = certificate.read_bytes(), key_file.read_bytes() if exists(key_file) else b""
    if can_return:
        log.warning("The authority before it is used again.")
        _write_pair(certificate, former.read_bytes(), key_file, former_key.read_bytes())
        _write_pair(former, present[0], former_key, present[1])
    else:
        _write_pair(former, present[0], former_key, present[1])
        _make_authority(certificate, key_file, names, now)


def _former(path: Path) -> Path:
    """The name of a file of the authority before the present one."""
    return path.with_name(f"{path.name}.former")


def _can_sign(authority: Path, key: Path, names: Collection[str], now: datetime) -> bool:
    """Whether this is a whole authority that is valid now and may sign for these names."""
    try:
        check_pair(authority, key)
    except CertificateError:
        return False
    found = _certificate(authority)
    is_valid = found.not_valid_before_utc <= now < found.not_valid_after_utc
    return is_valid and not _forbidden(authority, names)


def inspect(certificate: Path) -> Inspection:
    """Reads the first certificate of a PEM file. Raises `CertificateError`."""
    found = _certificate(certificate)
    common_names = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return Inspection(
        common_name=str(common_names[0].value) if common_names else "",
        names=frozenset(host_names(found)),
        starts_at=int(found.not_valid_before_utc.timestamp() * 1000),
        expires_at=int(found.not_valid_after_utc.timestamp() * 1000),
    )


def validity_fault(found: Inspection, now: int, *, last: bool) -> str:
    """What is wrong with a certificate's validity period, or "". The `last` certificate of an
    authority is not renewed before it expires."""
    left = found.expires_at - now
    if found.starts_at > now:
        return "is not valid yet"
    if left < 0:
        return "has expired"
    # Certificates valid for days are renewed later than those valid for a year.
    soon = min(RENEWAL_DAYS * DAY, (found.expires_at - found.starts_at) // 4)
    return "" if last or left >= soon else f"expires in {counted(left // DAY, 'day')}"


def check_pair(certificate: Path, key: Path) -> None:
    """Raises `CertificateError` unless `key` is the unencrypted private key of `certificate`, and
    of a kind that the server's TLS library can use."""
    found = _certificate(certificate)
    try:
        public_key = found.public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise CertificateError(
            f"{certificate} is for a kind of key that is not supported"
        ) from None
    if public_key != _private_key(key).public_key():
        raise CertificateError(f"{key} is not the private key of {certificate}")
    if not _can_serve(public_key):
        raise CertificateError(
            f"{key} is of an unsupported kind: use ECDSA with P-256 or P-384, Ed25519, or RSA with"
            " 2048 bits or more"
        )


def check_issuer(certificate: Path, authority: Path) -> None:
    """Raises `CertificateError` unless `authority` signed `certificate`."""
    try:
        _certificate(certificate).verify_directly_issued_by(_certificate(authority))
    except (ValueError, TypeError, InvalidSignature):
        raise CertificateError(f"{certificate} was not signed by {authority}") from None


def without_key(authority: Path) -> str:
    """What to do if the private key of a local authority is missing."""
    return (
        f"put the key back, or remove {authority} to get a new authority, which clients must then"
        " trust"
    )


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Locks `directory` against other processes; the system releases the lock if this one dies."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_pair(certificate: Path, content: bytes, key_file: Path, key: bytes) -> None:
    """Writes both files before it renames either, so that a full disk leaves the old pair.

    A crash between the two renames leaves a key that does not match the certificate. An authority
    is repaired by `_finish_renaming`, a server certificate is renewed. The key comes first: from an
    authority without its key nothing could ever be renewed.
    """
    for path, written, mode in ((key_file, key, 0o600), (certificate, content, 0o644)):
        unfinished = _unfinished(path)
        unfinished.unlink(missing_ok=True)
        write_durably(unfinished, written, mode)
    for path in (key_file, certificate):
        _unfinished(path).replace(path)


def _unfinished(path: Path) -> Path:
    """The name of a file while it is written."""
    return path.with_name(f"{path.name}.new")


def _finish_renaming(certificate: Path, key_file: Path) -> None:
    """Renames a certificate whose key is in place already, after a crash between the two."""
    with suppress(CertificateError):
        check_pair(_unfinished(certificate), key_file)
        _unfinished(certificate).replace(certificate)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path} cannot be read: {error.strerror}") from error


def _certificate(path: Path) -> x509.Certificate:
    content = _read(path)
    try:
        return x509.load_pem_x509_certificates(content)[0]
    except ValueError:
        raise CertificateError(f"{path} holds no certificate in PEM form") from None


def _private_key(path: Path) -> PrivateKeyTypes:
    content = _read(path)
    try:
        return serialization.load_pem_private_key(content, None)
    except TypeError:
        raise CertificateError(f"{path} is encrypted: store it without a passphrase") from None
    except (ValueError, UnsupportedAlgorithm):
        raise CertificateError(f"{path} holds no private key in PEM form") from None


def _can_serve(key: CertificatePublicKeyTypes) -> bool:
    if isinstance(key, ec.EllipticCurvePublicKey):
        return isinstance(key.curve, ec.SECP256R1 | ec.SECP384R1)
    if isinstance(key, rsa.RSAPublicKey):
        return key.key_size >= 2048
    return isinstance(key, ed25519.Ed25519PublicKey)


def _has_expired(authority: Path, now: datetime) -> bool:
    """Whether an authority has expired. Logs that it has, or soon will."""
    left = _certificate(authority).not_valid_after_utc - now
    if left <= timedelta(0):
        log.warning(
            "The local authority has expired and is replaced: clients must trust %s.", authority
        )
        return True
    if left < timedelta(days=AUTHORITY_NOTICE_DAYS):
        _log_expiry(authority, left.days)
    return False


@cache
def _log_expiry(authority: Path, days: int) -> None:
    """Logs this once for each number of days, in each process."""
    log.warning(
        "The local authority expires in %d days and is then replaced: clients must trust the new"
        " %s. Remove the present one to get the new one sooner.",
        days,
        authority,
    )


def _is_current(files: Certificates, names: Collection[str], now: datetime) -> bool:
    """Whether the server certificate can be kept."""
    try:
        check_pair(files.certificate, files.key)
        check_issuer(files.certificate, files.ca_certificate)
    except CertificateError:
        return False
    certificate, authority = _certificate(files.certificate), _certificate(files.ca_certificate)
    # A new certificate cannot outlast the authority.
    needed = min(now + timedelta(days=RENEWAL_DAYS), authority.not_valid_after_utc)
    return certificate.not_valid_after_utc >= needed and host_names(certificate).issuperset(names)


def _forbidden(authority: Path, names: Collection[str]) -> list[str]:
    """The names that an authority may not sign; none if it has no constraints or is missing."""
    if not exists(authority):
        return []
    try:
        found = _certificate(authority).extensions.get_extension_for_class(x509.NameConstraints)
    except x509.ExtensionNotFound:
        return []
    permitted = found.value.permitted_subtrees or []
    return sorted(name for name in names if not any(within(name, one) for one in permitted))


def _make_authority(
    certificate: Path, key_file: Path, names: Collection[str], now: datetime
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    # Two authorities with one name confuse clients' stores, so the name has a number.
    name = common_name(f"Portico local authority {serial:x}"[:40])
    builder = (
        new_builder(name, key.public_key(), name, key.public_key())
        .serial_number(serial)
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage(digital_signature=False, key_cert_sign=True), critical=True)
        .add_extension(constraints(names), critical=True)
    )
    _write_pair(certificate, pem(builder.sign(key, hashes.SHA256())), key_file, key_pem(key))


def _make_server(
    files: Certificates, authority_key: Path, names: Collection[str], now: datetime
) -> None:
    authority = _certificate(files.ca_certificate)
    signing_key = _signing_key(files.ca_certificate, authority_key)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        new_builder(
            common_name("Portico"), key.public_key(), authority.subject, signing_key.public_key()
        )
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(min(now + timedelta(days=SERVER_DAYS), authority.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage(digital_signature=True, key_cert_sign=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([general_name(name) for name in sorted(names)]),
            critical=False,
        )
    )
    signed = builder.sign(signing_key, hashes.SHA256())
    _write_pair(files.certificate, pem(signed) + pem(authority), files.key, key_pem(key))


def _signing_key(authority: Path, key_file: Path) -> ec.EllipticCurvePrivateKey:
    try:
        check_pair(authority, key_file)
        key = _private_key(key_file)
    except CertificateError as error:
        is_refused = isinstance(error.__cause__, PermissionError)
        advice = "give it to the account that serves" if is_refused else without_key(authority)
        raise CertificateError(
            f"the server certificate must be renewed, but {error}: {advice}"
        ) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{key_file} is not an elliptic-curve key, as Portico makes them")
    return key
