"""A user, and the rules for its values. The rules raise `BrokenRule`."""

import re
from hashlib import sha256
from unicodedata import normalize

import msgspec
from email_validator import SPECIAL_USE_DOMAIN_NAMES, EmailNotValidError, validate_email

from portico.core.errors import BrokenRule
from portico.core.rules import OneOf, Trimmed
from portico.core.scopes import ROLES as ROLES
from portico.core.text import case_key, measured, web_url

THEMES = ("system", "light", "dark")

MAILS = ("sign-ins", "keys", "expiring-keys", "roles")
"""The mails that a user may turn off; all others are always sent."""

PASSWORD_LENGTH = (8, 128)
_LONGEST_TYPED_PASSWORD = 4 * PASSWORD_LENGTH[1]
"""No character of NFC is composed of more than four, so longer text is too long in NFC as well."""

MAX_EMAIL_LENGTH = 254
MAX_LANGUAGE_LENGTH = 35

_LANGUAGE = re.compile(
    r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*"
    r"(-[0-9A-WYZa-wyz](-[A-Za-z0-9]{2,8})+)*"  # extensions, as in en-US-u-hc-h23
    r"(-[Xx](-[A-Za-z0-9]{1,8})+)?"  # private use
)

# A self-hosted service may use names that only a private network resolves. The library has no
# argument for that: its documentation tells applications to edit this list.
SPECIAL_USE_DOMAIN_NAMES[:] = [d for d in SPECIAL_USE_DOMAIN_NAMES if d not in ("local", "test")]


class User(msgspec.Struct, frozen=True):
    """A person with an account. Times are epoch milliseconds.

    `account_id` is the live account that a mirror user of the sandbox belongs to. While
    `suspended_at` is set, no credential of the account is accepted. Without `notifications`, none
    of the `MAILS` are sent; with them, all except those in `muted`, separated by spaces.
    `external_id` is what another system calls the account; `metadata` (text to text) is JSON text.
    `quota_percent` is the last that `quota.reached` told of the month `quota_month`.
    """

    id: int
    name: str
    email: str
    role: str
    plan: str
    created_at: int
    updated_at: int
    password_hash: str | None = None
    avatar_url: str | None = None
    theme: str = "system"
    language: str = "en"
    notifications: bool = True
    account_id: int | None = None
    last_login_at: int | None = None
    email_verified_at: int | None = None
    suspended_at: int | None = None
    muted: str = ""
    external_id: str | None = None
    metadata: str = "{}"
    quota_month: int = 0
    quota_percent: int = 0

    @property
    def mails(self) -> list[str]:
        """Those of `MAILS` that the user wants."""
        muted = self.muted.split()
        return [mail for mail in MAILS if self.notifications and mail not in muted]


class Owner(msgspec.Struct, frozen=True):
    """The fields of a user that are read together with a credential: who they are, and what they
    may currently do."""

    email: str
    name: str
    role: str
    plan: str
    suspended_at: int | None
    account_id: int | None


class AccountState(msgspec.Struct, frozen=True):
    """The fields that a mirror user of the sandbox has in common with its account."""

    email: str
    email_verified_at: int | None
    role: str
    plan: str
    language: str
    notifications: bool
    muted: str
    suspended_at: int | None


name = Trimmed(2, 100)
role = OneOf(ROLES)
theme = OneOf(THEMES)
avatar_url = web_url
external_id = Trimmed(1, 200)


def email(text: str) -> str:
    """Normalises an e-mail address (RFC 5321, RFC 6531) of at most 254 characters.

    Domains under `.test` and `.local` pass; IP addresses as domains, quoted local parts and domains
    without a dot do not.
    """
    measured(text, 0, MAX_EMAIL_LENGTH)
    try:
        address = validate_email(text, check_deliverability=False, strict=True)
    except EmailNotValidError:
        raise BrokenRule("must be a valid e-mail address, such as ada@example.com") from None
    return measured(address.normalized, 0, MAX_EMAIL_LENGTH)


def typed_email(text: str) -> str:
    """Normalises the e-mail typed to find an account, as `email` does, without the white space
    around it; text that is not an e-mail is not normalised. Browsers send the domain in ASCII,
    whatever was typed.

    Text that is too long becomes its digest, which matches no account either: the Unicode
    normalisation for `email_key` takes time quadratic in a text's length.
    """
    text = text.strip()
    if len(text) > MAX_EMAIL_LENGTH:
        return sha256(text.encode("utf-8", "replace")).hexdigest()
    try:
        return email(text)
    except BrokenRule:
        return text


def email_key(email: str) -> str:
    """The form in which an e-mail address is unique: Unicode NFC, case-folded."""
    return case_key(email)


def same_mailbox(one: str, other: str) -> bool:
    """Whether two normalised e-mail addresses differ in case at most. Other addresses with one
    `email_key` may have two owners: `straße.example` is not the domain `strasse.example`."""
    return one.lower() == other.lower()


def mailbox(email: str) -> str:
    """An e-mail address with its domain in ASCII (RFC 5891), which all mail servers understand."""
    if email.isascii():
        return email
    address = validate_email(email, check_deliverability=False, strict=True)
    return f"{address.local_part}@{address.ascii_domain}"


def mail_domain(email: str) -> str:
    """The domain of an e-mail address as mail servers and settings spell it: in ASCII, lower
    case."""
    return mailbox(email).rpartition("@")[2].lower()


def normalized_password(text: str) -> str:
    """A password in Unicode NFC, the form that is hashed: keyboards compose letters differently
    (RFC 8265 §4.2.1)."""
    if len(text) > _LONGEST_TYPED_PASSWORD:
        return text  # normalising takes time quadratic in its length
    return normalize("NFC", text)


def password(text: str) -> str:
    """Normalises a password, which must have 8 to 128 characters with an uppercase letter, a
    lowercase letter and a digit."""
    text = normalized_password(text)
    measured(text, *PASSWORD_LENGTH)
    if not (
        any(c.isupper() for c in text)
        and any(c.islower() for c in text)
        and any(c.isdecimal() for c in text)
    ):
        raise BrokenRule("must contain an uppercase letter, a lowercase letter and a digit")
    return text


def language(text: str) -> str:
    """Accepts text in the form of a language tag (BCP 47), at most 35 characters."""
    measured(text, 0, MAX_LANGUAGE_LENGTH)
    if _LANGUAGE.fullmatch(text) is None:
        raise BrokenRule("must be a language tag, such as en or pt-BR")
    return text
