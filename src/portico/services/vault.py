"""What the installation's secret is for: encryption of what the database keeps and must be able to
read again (private signing keys, secrets of webhooks and of authenticators, mails that wait), or
somebody brings back, and codes that prove that a text came from here.
"""

from collections.abc import Callable
from functools import cache, cached_property
from hmac import digest

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from portico.domain.secrets import Random

_NONCE_BYTES = 12


class Vault:
    """Encrypts with AES-256-GCM or AES-SIV, and authenticates with HMAC-SHA256, under keys derived
    from a secret: the installation's, or one that stands nowhere else."""

    def __init__(self, secret: Callable[[], bytes], random: Random) -> None:
        """`secret` gives 256 bits of entropy or more; it is asked once, when the first need
        arises."""
        self._secret = cache(secret)
        self._random = random

    @cached_property
    def _cipher(self) -> AESGCM:
        return AESGCM(self._derived(b"portico signing keys"))

    @cached_property
    def _veiling_cipher(self) -> AESSIV:
        return AESSIV(self._derived(b"portico veils"))

    @cached_property
    def _code_key(self) -> bytes:
        return self._derived(b"portico codes")

    def _derived(self, purpose: bytes) -> bytes:
        return HKDF(SHA256(), 32, salt=None, info=purpose).derive(self._secret())

    def authenticate(self, text: bytes) -> bytes:
        """The code (HMAC-SHA256) that nobody without the secret can make for `text`."""
        return digest(self._code_key, text, "sha256")

    def seal(self, text: bytes, name: str) -> bytes:
        """Encrypts `text`, bound to its name."""
        nonce = self._random(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, text, name.encode())

    def veil(self, text: bytes, name: str) -> bytes:
        """Encrypts `text`, bound to its name, for whoever brings it back: the same text in the same
        way (AES-SIV, RFC 5297), so that it may be done without end."""
        return self._veiling_cipher.encrypt(text, [name.encode()])

    def unveil(self, veiled: bytes, name: str) -> bytes | None:
        """What was veiled under this name; None for anything else."""
        try:
            return self._veiling_cipher.decrypt(veiled, [name.encode()])
        except InvalidTag:
            return None

    def open(self, sealed: bytes, name: str) -> bytes | None:
        """What was sealed under this name; None where another secret sealed it."""
        nonce, text = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        try:
            return self._cipher.decrypt(nonce, text, name.encode())
        except InvalidTag:
            return None
