"""Parts of certificates, and their PEM form."""

from collections.abc import Collection
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


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
