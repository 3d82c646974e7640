"""Cryptography with the installation's secret: encryption of values in the database that must be
readable again (private signing keys, secrets of webhooks and of authenticators, waiting mails) and
of values that a client returns, and codes that prove that a text was made here.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, cached_property
from hmac import digest

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from portico.core.secrets import Random

_NONCE_BYTES = 12


class Vault:
    """Encrypts with AES-256-GCM or AES-SIV, and authenticates with HMAC-SHA256, under keys derived
    from a secret: the installation's, or a token that is not stored. While a secret is being
    replaced, values made with a former one can still be decrypted, and codes made with it are still
    accepted."""

    def __init__(self, secrets: Callable[[], Sequence[bytes]], random: Random) -> None:
        """`secrets` returns the present secret and then former ones, each of at least 256 bits of
        entropy; it is called once, when first needed."""
        self._secrets = cache(secrets)
        self._random = random

    @cached_property
    def _ciphers(self) -> list[AESGCM]:
        return [AESGCM(key) for key in self._derived(b"portico signing keys")]

    @cached_property
    def _concealing_ciphers(self) -> list[AESSIV]:
        return [AESSIV(key) for key in self._derived(b"portico veils")]

    @cached_property
    def _code_keys(self) -> list[bytes]:
        return self._derived(b"portico codes")

    def _derived(self, purpose: bytes) -> list[bytes]:
        return [HKDF(SHA256(), 32, None, purpose).derive(secret) for secret in self._secrets()]

    def authenticate(self, text: bytes) -> bytes:
        """The code (HMAC-SHA256) of `text` under the present secret."""
        return self.codes(text)[0]

    def codes(self, text: bytes) -> list[bytes]:
        """The valid codes of `text`: under the present secret, then under former ones."""
        return [digest(key, text, "sha256") for key in self._code_keys]

    def seal(self, text: bytes, name: str) -> bytes:
        """Encrypts `text` (AES-256-GCM), bound to its name."""
        nonce = self._random(_NONCE_BYTES)
        return nonce + self._ciphers[0].encrypt(nonce, text, name.encode())

    def conceal(self, text: bytes, name: str) -> bytes:
        """Encrypts `text`, bound to its name, for a client that returns it. It is deterministic
        (AES-SIV, RFC 5297) and needs no nonce, so there is no limit on how often it is used."""
        return self._concealing_ciphers[0].encrypt(text, [name.encode()])

    def reveal(self, concealed: bytes, name: str) -> bytes | None:
        """The text that was concealed under this name; None for anything else."""
        for cipher in self._concealing_ciphers:
            with suppress(InvalidTag):
                return cipher.decrypt(concealed, [name.encode()])
        return None

    def open(self, sealed: bytes, name: str) -> bytes | None:
        """The text that was sealed under this name; None if another secret sealed it."""
        return _opened(self._ciphers, sealed, name)

    def reseal(self, sealed: bytes, name: str) -> bytes | None:
        """`sealed` encrypted under the present secret: unchanged if it already is. None if neither
        the present secret nor a former one sealed it."""
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
