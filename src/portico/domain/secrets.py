"""Opaque secrets: how tokens, codes and client secrets look, and what is stored of them.

Each is 256 random bits in base64url, behind a prefix that tells its kind where people meet it.
"""

from collections.abc import Callable
from hashlib import sha256

from portico.domain.base64url import base64url
from portico.domain.times import DAY

ACCESS_TOKEN = "oat_"  # noqa: S105 - the prefix of one
REFRESH_TOKEN = "ort_"  # noqa: S105 - the prefix of one
AUTHORIZATION_CODE = "oac_"
CLIENT_SECRET = "ocs_"  # noqa: S105 - the prefix of one

RANDOM_BYTES = 32

ROTATION_OVERLAP = DAY
"""How long what is rotated holds beside its successor, in milliseconds."""

Random = Callable[[int], bytes]
"""Gives so many random bytes, unpredictable. Only `app` makes a real one."""


def mint(prefix: str, random: Random) -> str:
    """Make a secret of 32 random bytes."""
    return prefix + base64url(random(RANDOM_BYTES))


def digest(secret: str) -> bytes:
    """Give what is stored instead of a secret: SHA-256, enough for 256 random bits."""
    return sha256(secret.encode()).digest()
