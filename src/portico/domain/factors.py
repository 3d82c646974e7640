"""Second factors: time-based codes (RFC 6238) and recovery codes.

A code is six digits of the HMAC-SHA-1 of its step, the number of the current 30 seconds, as in
every authenticator app.
"""

from base64 import b32encode
from collections.abc import Iterable
from unicodedata import category

import msgspec
import pyotp

from portico.domain.guard import ACCOUNT
from portico.domain.rules import Trimmed
from portico.domain.secrets import Random
from portico.domain.times import SECOND

STEP_SECONDS = 30
SECRET_BYTES = 20
"""The length of the hash (RFC 4226 §4, R6)."""

RECOVERY_CODES = 10
_DIGITS = 6
_RECOVERY_BYTES = 15
_GROUP = 4

_SEPARATORS = ("Zs", "Zl", "Zp", "Cc", "Cf", "Pd")
"""The categories of Unicode for white space, control and format characters, and dashes."""

_MINUS = "\u2212"
_LONGEST_TYPED = 256
"""Enough for any separators, and read in microseconds."""

MOST_WRONG_CODES = 100
"""How many codes may be wrong in a row; then no code is accepted (NIST SP 800-63B §5.2.2)."""

TOLD_WRONG_CODES = 5
"""After how many wrong codes in a row the owner gets a mail."""

factor_name = Trimmed(1, 50)


class Authenticator(msgspec.Struct, frozen=True):
    """An authenticator app. Times are epoch milliseconds.

    `secret` is encrypted. `last_step` is the step of the last used code: that code and earlier ones
    cannot be used again.
    """

    id: int
    user_id: int
    name: str
    secret: bytes
    last_step: int
    created_at: int
    last_used_at: int | None

    def has_used(self, step: int) -> bool:
        """Whether the code of this step can no longer be used."""
        return step <= self.last_step


class Passkey(msgspec.Struct, frozen=True):
    """A WebAuthn credential: its id, the public key in COSE form, and the signature counter, which
    stays 0 for authenticators that do not count."""

    id: int
    user_id: int
    name: str
    credential_id: bytes
    public_key: bytes
    sign_count: int
    created_at: int
    last_used_at: int | None


class Factors(msgspec.Struct, frozen=True):
    """The second factors of an account, and how many recovery codes it has left."""

    authenticator: Authenticator | None
    passkeys: tuple[Passkey, ...]
    recovery_codes: int

    def __bool__(self) -> bool:
        return self.authenticator is not None or bool(self.passkeys)

    def passkey(self, row_id: int) -> Passkey | None:
        """The passkey with this id."""
        return next((one for one in self.passkeys if one.id == row_id), None)


class WrongCodes(msgspec.Struct, frozen=True):
    """How many second factors of an account were wrong in a row after a right first one, and when
    the last one was (epoch milliseconds)."""

    in_a_row: int = 0
    last_at: int = 0

    def wait(self, now: int) -> int:
        """How many milliseconds the next attempt must wait."""
        return max(self.last_at + ACCOUNT.wait_after(self.in_a_row) - now, 0)


def new_secret(random: Random) -> str:
    """A new secret for an authenticator app, in base32."""
    return b32encode(random(SECRET_BYTES)).decode()


def step_of(now: int) -> int:
    """The step of a time in epoch milliseconds."""
    return now // (STEP_SECONDS * SECOND)


def matching_step(secret: str, code: str, steps: Iterable[int]) -> int | None:
    """The step, of these, that has this code (as returned by `read_code`), if any. Takes the same
    time for every step."""
    if len(code) != _DIGITS:  # comparing a thousand combining marks would take a second per step
        return None
    totp = pyotp.TOTP(secret, digits=_DIGITS)
    found: int | None = None
    for step in steps:
        if pyotp.utils.strings_equal(totp.generate_otp(step), code):
            found = step
    return found


def app_address(secret: str, email: str, issuer: str) -> str:
    """The URI in the QR code for an authenticator app (Key URI format)."""
    return pyotp.TOTP(secret).provisioning_uri(name=email, issuer_name=issuer)


def recovery_code(random: Random) -> str:
    """A new recovery code: 120 random bits, as `abcd-efgh-ijkl-mnop-qrst-uvwx`. That is enough for
    a digest without salt, although each guess can be compared with the digests of all accounts."""
    text = b32encode(random(_RECOVERY_BYTES)).decode().lower()
    return "-".join(text[at : at + _GROUP] for at in range(0, len(text), _GROUP))


def read_code(text: str) -> str:
    """A typed or pasted code of any kind in the form that is compared and hashed: in lower case,
    without white space, hyphens of any kind and invisible characters. Empty for text that is too
    long for a code."""
    if len(text) > _LONGEST_TYPED:
        return ""
    return "".join(c for c in text if category(c) not in _SEPARATORS and c != _MINUS).lower()
