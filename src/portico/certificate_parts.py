"""Parts of the certificates that Portico makes, and their PEM form."""

from ipaddress import ip_address

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
