"""Opaque secrets: the format of tokens, codes and client secrets, and what is stored of them.

Each is 256 random bits in base64url, after a prefix that shows people what kind it is.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256

from portico.core.times import DAY


def base64url(data: bytes) -> str:
    """The data as text that is safe in a URL."""
    return urlsafe_b64encode(data).decode().rstrip("=")


def from_base64url(text: str) -> bytes:
    """The data that `base64url` encoded; other characters are skipped. Raises ValueError."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


ACCESS_TOKEN = "oat_"  # noqa: S105 - the prefix of one
REFRESH_TOKEN = "ort_"  # noqa: S105 - the prefix of one
AUTHORIZATION_CODE = "oac_"
DEVICE_CODE = "odc_"
CLIENT_SECRET = "ocs_"  # noqa: S105 - the prefix of one

RANDOM_BYTES = 32

ROTATION_OVERLAP = DAY
"""How long a rotated secret stays valid beside its successor, in milliseconds."""

Random = Callable[[int], bytes]
"""Returns so many cryptographically random bytes. Only `app` chooses a real one."""


def mint(prefix: str, random: Random) -> str:
    """A new secret from 32 random bytes."""
    return prefix + base64url(random(RANDOM_BYTES))


def digest(secret: str) -> bytes:
    """The hash that is stored instead of a secret: SHA-256, enough for 256 random bits."""
    return sha256(secret.encode()).digest()
