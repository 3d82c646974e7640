"""Second factors: time-based codes (RFC 6238) and recovery codes.

A code is six digits of the HMAC-SHA-1 of its step, the number of the current 30 seconds, as in
every authenticator app.
"""

from base64 import b32encode
from collections.abc import Iterable
from typing import Final
from unicodedata import category

import msgspec
import pyotp

from portico.core.events import Details, Event
from portico.core.rules import Trimmed
from portico.core.secrets import Random
from portico.core.sessions import Session
from portico.core.times import SECOND
from portico.core.users import User
from portico.features.people.rules import OfUser
from portico.limits.guard import ACCOUNT

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

AUTHENTICATOR = "authenticator"
PASSKEY: Final = "passkey"
"""The kinds of factors."""

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

    def find(self, kind: str, row_id: int) -> "Authenticator | Passkey | None":
        """The factor of this kind with this id."""
        apps = () if self.authenticator is None else (self.authenticator,)
        found = self.passkeys if kind == PASSKEY else apps
        return next((one for one in found if one.id == row_id), None)


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


class FactorAdded(OfUser, frozen=True):
    """A factor was added to an account."""

    action = "factor.added"

    factor: Authenticator | Passkey

    @property
    def kind(self) -> str:
        """The kind of the factor."""
        return PASSKEY if isinstance(self.factor, Passkey) else AUTHENTICATOR

    @property
    def details(self) -> Details:
        """Its kind and name, and its id, since two may have the same name."""
        return {"kind": self.kind, "name": self.factor.name, "id": self.factor.id}


class FactorRenamed(FactorAdded, frozen=True):
    """A factor got another name; `factor` is as it was before."""

    action = "factor.renamed"

    name: str

    @property
    def details(self) -> Details:
        """Its kind, its old and new name, and its id."""
        name = {"from": self.factor.name, "to": self.name}
        return {"kind": self.kind, "name": name, "id": self.factor.id}


class FactorRemoved(FactorAdded, frozen=True):
    """A factor was removed from an account."""

    action = "factor.removed"


class FactorsReset(OfUser, frozen=True):
    """An administrator or operator removed all factors of an account."""

    action = "factors.reset"

    factors: int


class RecoveryCodesRenewed(OfUser, frozen=True):
    """An account has new recovery codes; the old ones are no longer accepted."""

    action = "recovery_codes.renewed"


class RecoveryCodeUsed(OfUser, frozen=True):
    """A recovery code was used instead of a factor."""

    action = "recovery_code.used"


class PasskeyRefused(OfUser, frozen=True):
    """A passkey's signature counter went back: it was cloned."""

    action = "passkey.refused"

    passkey: Passkey

    @property
    def details(self) -> Details:
        """Its name and its id."""
        return {"name": self.passkey.name, "id": self.passkey.id}


class SecondFactorAsked(OfUser, frozen=True):
    """After the password or another provider, the user was asked for the second factor."""

    action = "second_factor.asked"


class SecondFactorRefused(OfUser, frozen=True):
    """After the right password, the second factor was wrong, missing or not set up."""

    action = "second_factor.refused"


class ProviderLinked(OfUser, frozen=True):
    """An identity at another provider was linked to an account."""

    action = "provider.linked"

    issuer: str


class ProviderUnlinked(ProviderLinked, frozen=True):
    """An identity at another provider was unlinked from an account."""

    action = "provider.unlinked"


class SignedIn(OfUser, frozen=True):
    """A user signed in: by a provider, a passkey, or otherwise a password."""

    action = "sign_in"

    provider: str | None = None
    passkey: Passkey | None = None
    second_factor: str | None = None

    @property
    def details(self) -> Details:
        """The provider's name or the passkey, and the second factor; empty for a password alone."""
        details: Details = {}
        if self.provider is not None:
            details["provider"] = self.provider
        if self.passkey is not None:
            details |= {"passkey": self.passkey.name, "passkey_id": self.passkey.id}
        if self.second_factor is not None:
            details["second_factor"] = self.second_factor
        return details


class SignInRefused(Event, frozen=True):
    """A sign-in failed: by a wrong password, an unknown e-mail, a suspended account, or a provider
    that the user's domain may not use."""

    action = "sign_in.refused"
    target = "user"

    user: User | None

    @property
    def target_id(self) -> int | None:
        """The account, if there is one."""
        return self.user.id if self.user else None

    @property
    def details(self) -> Details:
        """Says so if the account is suspended."""
        return {"suspended": True} if self.user and self.user.suspended_at is not None else {}


class SignedOut(Event, frozen=True):
    """A session was ended with its own cookie."""

    action = "sign_out"
    target = "session"

    session_id: int

    @property
    def target_id(self) -> int:
        return self.session_id


class SessionRevoked(Event, frozen=True):
    """A session was ended from elsewhere."""

    action = "session.revoked"
    target = "session"

    session: Session
    replaced: bool = False
    """Whether it ended because its browser signed in again."""

    @property
    def target_id(self) -> int:
        return self.session.id

    @property
    def details(self) -> Details:
        """Its user, and the reason unless it was ended by hand."""
        why = {"reason": "its browser signed in again"} if self.replaced else {}
        return {"user_id": self.session.user_id, **why}


class SignedOutEverywhere(OfUser, frozen=True):
    """All sessions and grants of an account were ended."""

    action = "sign_out.everywhere"

    sessions: int
    grants: int


class GrantRevoked(Event, frozen=True):
    """A login or a consent was revoked; `why` has the details."""

    action = "grant.revoked"
    target = "grant"

    grant_id: int
    user_id: int
    why: Details

    @property
    def target_id(self) -> int:
        return self.grant_id

    @property
    def details(self) -> Details:
        """Its user, and why it was revoked."""
        return {"user_id": self.user_id, **self.why}


class SigningKeyCreated(Event, frozen=True):
    """A key pair for JSON Web Tokens was created."""

    action = "signing_key.created"
    target = "signing_key"

    kid: str
    at_once: bool

    @property
    def target_id(self) -> str:
        return self.kid

    @property
    def details(self) -> Details:
        """Whether it signs at once, rather than after it has been published for a while."""
        return {"at_once": self.at_once}


class Reencrypted(Event, frozen=True):
    """Values encrypted with former secrets of the installation are now encrypted with the current
    one."""

    action = "secret.reencrypted"

    counts: dict[str, int]

    @property
    def details(self) -> Details:
        """How many values of each table."""
        return dict(self.counts)
