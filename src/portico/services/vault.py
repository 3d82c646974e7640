"""What the installation's secret is for: encryption of what the database keeps and must be able to
read again (private signing keys, secrets of webhooks and of authenticators, mails that wait), or
somebody brings back, and codes that prove that a text came from here.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
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
    from a secret: the installation's, or one that stands nowhere else. While a secret is being
    replaced, what was made by a former one still opens and counts."""

    def __init__(self, secrets: Callable[[], Sequence[bytes]], random: Random) -> None:
        """`secrets` gives the present one and then former ones, each of 256 bits of entropy or
        more; it is asked once, when the first need arises."""
        self._secrets = cache(secrets)
        self._random = random

    @cached_property
    def _ciphers(self) -> list[AESGCM]:
        return [AESGCM(key) for key in self._derived(b"portico signing keys")]

    @cached_property
    def _veiling_ciphers(self) -> list[AESSIV]:
        return [AESSIV(key) for key in self._derived(b"portico veils")]

    @cached_property
    def _code_keys(self) -> list[bytes]:
        return self._derived(b"portico codes")

    def _derived(self, purpose: bytes) -> list[bytes]:
        return [HKDF(SHA256(), 32, None, purpose).derive(secret) for secret in self._secrets()]

    def authenticate(self, text: bytes) -> bytes:
        """The code (HMAC-SHA256) that nobody without the secret can make for `text`."""
        return self.codes(text)[0]

    def codes(self, text: bytes) -> list[bytes]:
        """The codes of `text` that count: by the present secret, and by former ones."""
        return [digest(key, text, "sha256") for key in self._code_keys]

    def seal(self, text: bytes, name: str) -> bytes:
        """Encrypts `text`, bound to its name."""
        nonce = self._random(_NONCE_BYTES)
        return nonce + self._ciphers[0].encrypt(nonce, text, name.encode())

    def veil(self, text: bytes, name: str) -> bytes:
        """Encrypts `text`, bound to its name, for whoever brings it back: the same text in the same
        way (AES-SIV, RFC 5297), so that it may be done without end."""
        return self._veiling_ciphers[0].encrypt(text, [name.encode()])

    def unveil(self, veiled: bytes, name: str) -> bytes | None:
        """What was veiled under this name; None for anything else."""
        for cipher in self._veiling_ciphers:
            with suppress(InvalidTag):
                return cipher.decrypt(veiled, [name.encode()])
        return None

    def open(self, sealed: bytes, name: str) -> bytes | None:
        """What was sealed under this name; None where another secret sealed it."""
        return _opened(self._ciphers, sealed, name)

    def reseal(self, sealed: bytes, name: str) -> bytes | None:
        """What was sealed under this name, sealed by the present secret: `sealed` itself where
        that has sealed it. None where another secret sealed it."""
        if _opened(self._ciphers[:1], sealed, name) is not None:
            return sealed
        text = _opened(self._ciphers[1:], sealed, name)
        return None if text is None else self.seal(text, name)


def _opened(ciphers: Sequence[AESGCM], sealed: bytes, name: str) -> bytes | None:
    nonce, text = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
    for cipher in ciphers:
        with suppress(InvalidTag):
            return cipher.decrypt(nonce, text, name.encode())
    return None
