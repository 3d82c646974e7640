"""The rules of the domain as JSON Schema, as far as it can express them."""

import re
from collections.abc import Callable
from typing import Any

from portico.contract import patterns
from portico.domain import users
from portico.domain.money import CURRENCIES, MAX_PRICE, UNITS_PER_ONE, currency, price_units
from portico.domain.networks import network
from portico.domain.published import EVENT_NOUNS, EVENT_TYPES, event_types
from portico.domain.rules import Between, Measured, OneOf, Trimmed
from portico.domain.text import MAX_URL_LENGTH, web_url
from portico.domain.times import moment
from portico.domain.webhooks import EVERYTHING, webhook_type

Facts = dict[str, Any]
Rule = Callable[[Any], Any]


_FACTS: dict[Rule, Facts] = {
    web_url: {
        "format": "uri",
        "pattern": patterns.WEB_URL,
        "description": f"http or https, without credentials, at most {MAX_URL_LENGTH} characters.",
    },
    users.email: {
        "pattern": patterns.EMAIL,  # `format: email` is ASCII alone, and ajv knows no `idn-email`
        "description": f"At most {users.MAX_EMAIL_LENGTH} characters, unique among users"
        " regardless of case.",
    },
    users.password: {
        "pattern": patterns.STRONG,
        "writeOnly": True,
        "description": "{} to {} characters, with an uppercase letter, a lowercase letter and a"
        " digit.".format(*users.PASSWORD_LENGTH),
    },
    users.language: {
        "maxLength": users.MAX_LANGUAGE_LENGTH,
        "pattern": patterns.LANGUAGE,
        "description": "BCP 47, such as en or pt-BR.",
    },
    network: {
        "maxLength": 49,
        "pattern": patterns.NETWORK,
        "description": "An address or a network (CIDR) without bits set after its prefix.",
    },
    moment: {"format": "date-time", "description": "RFC 3339, with at most nine decimals."},
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
                "pattern": patterns.trimmed(low, high),
                "description": f"{low} to {high} characters, without the white space around them.",
            }
        case Measured(low=low, high=high):
            return {
                **({"minLength": low} if low else {}),
                "maxLength": high,
                "pattern": patterns.TEXT,
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
