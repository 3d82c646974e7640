"""The rules of the domain as JSON Schema, as far as it can express them."""

import re
from collections.abc import Callable
from typing import Any

from portico.core import users
from portico.core.events import EVENT_NOUNS, EVENT_TYPES, EVERYTHING, event_types, webhook_type
from portico.core.money import CURRENCIES, MAX_PRICE, UNITS_PER_ONE, currency, price_units
from portico.core.networks import network
from portico.core.rules import Between, Measured, OneOf, Trimmed
from portico.core.text import MAX_URL_LENGTH, web_url
from portico.core.times import moment, storable

_SPACE = r"\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_MARK = rf"[^{_SPACE}\u0000]"

TEXT = r"^[^\u0000]*$"
"""Any text without NUL, which cannot be stored."""

_ASCII = r"[\u0001-\u007f]"
ASCII = rf"^{_ASCII}+$"

_BEYOND = r"[^\u0000-\u007f]"

PASSWORD_BEYOND_ASCII = rf"(?={_ASCII}*{_BEYOND})[^\u0000]{{3,512}}"
"""More than the rule accepts, which knows the letters and digits of every script, and measures in
Unicode NFC: one character may become three, and four may become one."""

STRONG = (
    rf"^(?:(?={_ASCII}*[A-Z])(?={_ASCII}*[a-z])(?={_ASCII}*[0-9]){_ASCII}{{8,128}}"
    rf"|{PASSWORD_BEYOND_ASCII})$"
)

LANGUAGE = (
    r"^[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*(?:-[0-9A-WYZa-wyz](?:-[A-Za-z0-9]{2,8})+)*"
    r"(?:-[Xx](?:-[A-Za-z0-9]{1,8})+)?$"
)

_LOCAL_PART = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
_LABEL = r"(?!..--)[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_LAST_LABEL = (
    r"(?!(?:[Aa][Rr][Pp][Aa]|[Ii][Nn][Vv][Aa][Ll][Ii][Dd]|[Oo][Nn][Ii][Oo][Nn]"
    r"|[Ll][Oo][Cc][Aa][Ll][Hh][Oo][Ss][Tt])$)"
    r"(?!..--)(?:[A-Za-z0-9][A-Za-z0-9-]{0,61})?[A-Za-z]"
)

EMAIL_BEYOND_ASCII = rf"(?=[^\u0000]*(?:{_BEYOND}|[.@][Xx][Nn]--))[^\u0000- @]+@[^\u0000- @]+"
"""More than the rule accepts, which knows valid characters and Punycode (RFC 6531, RFC 5891)."""

EMAIL = (
    rf"^(?![^@]{{65}})(?![^\u0000]{{255}})(?:{_LOCAL_PART}@(?:{_LABEL}\.)+{_LAST_LABEL}"
    rf"|{EMAIL_BEYOND_ASCII})$"
)
"""At most 254 characters."""

IPV6_HOST = r"\[[0-9A-Fa-f:.]+\]"
"""More than the rule accepts; `format: uri` says which are addresses."""

NETWORK = r"^[0-9A-Fa-f:.]+(?:/[0-9]{1,3})?$"
"""More than the rule accepts, which reads addresses."""

_REST = r"[A-Za-z0-9._~:/@!$&'()*+,;=-]|%[0-9A-Fa-f]{2}"
_TAIL = rf"(?:\?|{_REST})*"
_PORT = (
    r"(?!0+(?:[/?#]|$))(?:[0-9]{1,4}|[0-5][0-9]{4}"
    r"|6(?:[0-4][0-9]{3}|5(?:[0-4][0-9]{2}|5(?:[0-2][0-9]|3[0-5]))))"
)

WEB_URL = (
    r"^(?!.{2049})[Hh][Tt][Tt][Pp][Ss]?://"
    rf"(?:[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?|{IPV6_HOST})(?::{_PORT})?"
    rf"(?:/(?:{_REST})*)?(?:\?{_TAIL})?(?:#{_TAIL})?$"
)
"""At most 2048 characters."""


def trimmed(low: int, high: int) -> str:
    """Text with `low` (1 or 2) to `high` characters, without the white space around it."""
    rest = rf"[^\u0000]{{0,{high - 2}}}{_MARK}"
    core = rest if low > 1 else f"(?:{rest})?"
    return f"^[{_SPACE}]*{_MARK}{core}[{_SPACE}]*$"


Facts = dict[str, Any]
Rule = Callable[[Any], Any]


_FACTS: dict[Rule, Facts] = {
    web_url: {
        "format": "uri",
        "pattern": WEB_URL,
        "description": f"http or https, without credentials, at most {MAX_URL_LENGTH} characters.",
    },
    users.email: {
        "pattern": EMAIL,  # `format: email` is ASCII alone, and ajv knows no `idn-email`
        "description": f"At most {users.MAX_EMAIL_LENGTH} characters, unique among users"
        " regardless of case.",
    },
    users.password: {
        "pattern": STRONG,
        "writeOnly": True,
        "description": "{} to {} characters, with an uppercase letter, a lowercase letter and a"
        " digit.".format(*users.PASSWORD_LENGTH),
    },
    users.language: {
        "maxLength": users.MAX_LANGUAGE_LENGTH,
        "pattern": LANGUAGE,
        "description": "BCP 47, such as en or pt-BR.",
    },
    network: {
        "maxLength": 49,
        "pattern": NETWORK,
        "description": "An address or a network (CIDR) without bits set after its prefix.",
    },
    moment: {"format": "date-time", "description": "RFC 3339, with at most nine decimals."},
    storable: {"format": "date-time", "description": "RFC 3339, with at most nine decimals."},
    currency: {"enum": sorted(CURRENCIES), "description": "An ISO 4217 code."},
    price_units: {
        "minimum": 0,
        "exclusiveMaximum": (MAX_PRICE + 1) // UNITS_PER_ONE,
        "description": "Stored exactly; at most four decimals.",
    },
}
"""The facts of rules that are functions."""


def facts(rule: Rule) -> Facts:
    """The schema keywords of the values that a rule accepts; empty if there are none."""
    match rule:
        case Trimmed(low=low, high=high):
            return {
                "minLength": low,
                "pattern": trimmed(low, high),
                "description": f"{low} to {high} characters, without the white space around them.",
            }
        case Measured(low=low, high=high):
            return {
                **({"minLength": low} if low else {}),
                "maxLength": high,
                "pattern": TEXT,
            }
        case OneOf(words=words):
            return {"enum": list(words)}
        case Between(low=low, high=high):
            return {"minimum": low, "maximum": high}
    # Of types of events, to which the start may add.
    if rule is webhook_type:
        return {
            "enum": [EVERYTHING, *EVENT_NOUNS, *EVENT_TYPES],
            "description": "A type of event; `noun.*` means all types of a noun, `*` all types.",
        }
    if rule is event_types:
        names = "|".join(map(re.escape, (*EVENT_TYPES, *EVENT_NOUNS)))
        return {"pattern": f"^({names})(,({names}))*$"}
    return _FACTS.get(rule, {})
