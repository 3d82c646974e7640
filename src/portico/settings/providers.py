"""The tables `[sign_in.NAME]` of portico.toml: other providers that users may sign in with."""

import re
import tomllib
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

from portico.core.errors import BrokenRule
from portico.core.providers import PlainOAuth, Provider, is_address
from portico.core.users import role
from portico.settings.values import domain, suggestion

_PRESETS = files("portico.settings") / "presets"
_NEEDED = ("issuer", "client_id", "client_secret")


def providers(tables: object) -> tuple[Provider, ...]:
    """The providers in these tables, in their order. Raises `BrokenRule`, without secrets."""
    if not isinstance(tables, dict):
        raise BrokenRule("sign_in must be tables, [sign_in.NAME]")
    found = tuple(_provider(name, table) for name, table in tables.items())
    issuers = [provider.issuer.rstrip("/") for provider in found]
    for provider in found:
        # Accounts are linked to an issuer's subject, which may differ for another of its clients.
        if issuers.count(provider.issuer.rstrip("/")) > 1:
            raise BrokenRule(f"sign_in.{provider.name}.issuer must differ from other providers'")
    return found


def _provider(name: str, table: object) -> Provider:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,49}", name):
        raise BrokenRule(f"sign_in.{name} must be named with at most 50 of a-z, 0-9, - and _")
    if not isinstance(table, dict):
        raise BrokenRule(f"sign_in.{name} must be a table with {', '.join(_NEEDED)}")
    table = {**table}
    preset = _preset(name, table.pop("preset")) if "preset" in table else None
    rules = _RULES if preset is None else _RULES | _PLAIN_RULES
    for key in table:
        if key not in rules:
            known = [*rules, "preset"]
            raise BrokenRule(f"{key!r} is not a setting of sign_in.{name}{suggestion(key, known)}")
    table = {"label": name.capitalize(), **(preset or {}), **table}
    if missing := [key for key in _NEEDED if key not in table]:
        raise BrokenRule(f"sign_in.{name} needs {' and '.join(missing)} too")
    values: dict[str, Any] = {}
    for key, value in table.items():
        try:
            values[key] = rules[key](value)
        except BrokenRule as rule:
            raise BrokenRule(f"sign_in.{name}.{key} {rule}") from None
    plain = {key: values.pop(key) for key in _PLAIN_RULES if key in values}
    return Provider(name=name, plain=PlainOAuth(**plain) if preset else None, **values)


def _preset(name: str, wanted: object) -> Mapping[str, Any]:
    """What a preset says of its provider; each is a file beside this one."""
    known = {file.name.removesuffix(".toml"): file for file in _PRESETS.iterdir()}
    if wanted not in known:
        raise BrokenRule(f"sign_in.{name}.preset must be one of {', '.join(sorted(known))}")
    return tomllib.loads(known[str(wanted)].read_text("utf-8"))


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise BrokenRule("must be text in quotes, without control characters")
    return value


def _label(value: object) -> str:
    text = _text(value).strip()
    if len(text) > 50:
        raise BrokenRule("must have at most 50 characters")
    return text


def _issuer(value: object) -> str:
    text = _text(value)
    if not is_address(text) or "?" in text:
        raise BrokenRule(
            "must be an https:// address without user, query or fragment, such as"
            " https://accounts.google.com; http:// only on a loopback address"
        )
    return text


def _endpoint(value: object) -> str:
    text = _text(value)
    if not is_address(text):
        raise BrokenRule("must be an https:// address; http:// only on a loopback address")
    return text


def _emails_endpoint(value: object) -> str | None:
    """Empty for a provider whose `user_endpoint` has the e-mail."""
    return None if value == "" else _endpoint(value)


def _domains(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise BrokenRule('must be a list of domains, such as ["example.com"]')
    return tuple(domain(_text(one)) for one in value)


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise BrokenRule("must be true or false")
    return value


def _role(value: object) -> str:
    return role(_text(value))


_RULES: dict[str, Callable[[object], object]] = {
    "issuer": _issuer,
    "client_id": _text,
    "client_secret": _text,
    "label": _label,
    "domains": _domains,
    "create_users": _switch,
    "role": _role,
}

_PLAIN_RULES: dict[str, Callable[[object], object]] = {
    **dict.fromkeys(("authorization_endpoint", "token_endpoint", "user_endpoint"), _endpoint),
    "emails_endpoint": _emails_endpoint,
    **dict.fromkeys(("scope", "subject_field", "name_field"), _text),
    **dict.fromkeys(("email_field", "email_verified_field"), _text),
}
