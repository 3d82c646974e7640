"""The tables of portico.toml: `[plans.NAME]`, `[sign_in.NAME]`, `[services.NAME]`, `[limits.NAME]`
and `[roles.NAME]`. All raise `BrokenRule`, without secrets."""

import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from portico.core.errors import BrokenRule
from portico.core.plans import DEFAULT_PLANS, UNLIMITED, Plan
from portico.core.providers import PlainOAuth, Provider, is_address
from portico.core.services import (
    ANYBODY,
    MIB,
    MOST_COST,
    PUBLIC,
    Rule,
    Service,
    Services,
    ServiceScope,
)
from portico.core.words import ROLES
from portico.settings.values import domain, suggestion, url_parts

Read = Callable[[object], object]

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,49}")


def _each(kind: str, tables: object) -> list[tuple[str, dict[str, Any]]]:
    """The tables of one kind by their names."""
    if not isinstance(tables, dict):
        raise BrokenRule(f"{kind} must be tables, [{kind}.NAME]")
    for name, table in tables.items():
        if not _NAME.fullmatch(name):
            raise BrokenRule(f"{kind}.{name} must be named with at most 50 of a-z, 0-9, - and _")
        if not isinstance(table, dict):
            raise BrokenRule(f"{kind}.{name} must be a table")
    return list(tables.items())


def _only(name: str, table: object, known: Collection[str]) -> None:
    if not isinstance(table, dict):
        raise BrokenRule(f"{name} must be a table")
    for key in table:
        if key not in known:
            raise BrokenRule(f"{key!r} is not a setting of {name}{suggestion(key, known)}")


def _read(name: str, table: Mapping[str, Any], rules: Mapping[str, Read]) -> dict[str, Any]:
    """The values of a table that have a rule."""
    values = {}
    for key, value in table.items():
        if key in rules:
            try:
                values[key] = rules[key](value)
            except BrokenRule as rule:
                raise BrokenRule(f"{name}.{key} {rule}") from None
    return values


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise BrokenRule("must be text in quotes, without control characters")
    return value


_WINDOWS = ("per_minute", "per_day", "per_month")


def plans(tables: object) -> Mapping[str, Plan]:
    """The default plans, changed by the `[plans.NAME]` tables.

    A table may change one limit of an existing plan, and must give both of a new one.
    """
    merged = dict(DEFAULT_PLANS)
    for name, table in _each("plans", tables):
        _check_windows(f"plans.{name}", table)
        if known := merged.get(name):
            merged[name] = msgspec.structs.replace(known, **table)
        elif missing := [key for key in ("per_minute", "per_day") if key not in table]:
            raise BrokenRule(f"plans.{name} is a new plan and needs {' and '.join(missing)} too")
        else:
            merged[name] = Plan(name, **table)
    return merged


def _check_windows(name: str, table: Mapping[str, object]) -> None:
    for key, value in table.items():
        if key not in _WINDOWS:
            raise BrokenRule(f"{key!r} is not a limit of {name}{suggestion(key, _WINDOWS)}")
        most = 10**12 if key == "per_month" else 10**9
        if type(value) is not int or not 1 <= value <= most:
            raise BrokenRule(f"{name}.{key} must be a whole number from 1 to {most}, not {value!r}")


_PRESETS = files("portico.settings") / "presets"
_NEEDED = ("issuer", "client_id", "client_secret")


def providers(tables: object) -> tuple[Provider, ...]:
    """The providers of the `[sign_in.NAME]` tables, in their order."""
    found = tuple(_provider(name, table) for name, table in _each("sign_in", tables))
    issuers = [provider.issuer.rstrip("/") for provider in found]
    for provider in found:
        # Accounts are linked to an issuer's subject, which may differ for another of its clients.
        if issuers.count(provider.issuer.rstrip("/")) > 1:
            raise BrokenRule(f"sign_in.{provider.name}.issuer must differ from other providers'")
    return found


def _provider(name: str, table: dict[str, Any]) -> Provider:
    table = {**table}
    preset = _preset(name, table.pop("preset")) if "preset" in table else None
    rules = _RULES if preset is None else _RULES | _PLAIN_RULES
    _only(f"sign_in.{name}", table, [*rules, "preset"])
    table = {"label": name.capitalize(), **(preset or {}), **table}
    if missing := [key for key in _NEEDED if key not in table]:
        raise BrokenRule(f"sign_in.{name} needs {' and '.join(missing)} too")
    values = _read(f"sign_in.{name}", table, rules)
    plain = {key: values.pop(key) for key in _PLAIN_RULES if key in values}
    return Provider(name=name, plain=PlainOAuth(**plain) if preset else None, **values)


def _preset(name: str, wanted: object) -> Mapping[str, Any]:
    """What a preset says of its provider; each is a file beside this one."""
    known = {file.name.removesuffix(".toml"): file for file in _PRESETS.iterdir()}
    if not isinstance(wanted, str) or wanted not in known:
        raise BrokenRule(f"sign_in.{name}.preset must be one of {', '.join(sorted(known))}")
    return tomllib.loads(known[wanted].read_text("utf-8"))


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


_RULES: dict[str, Read] = {
    "issuer": _issuer,
    "client_id": _text,
    "client_secret": _text,
    "label": _label,
    "domains": _domains,
    "create_users": _switch,
    "role": _text,
}

_PLAIN_RULES: dict[str, Read] = {
    **dict.fromkeys(("authorization_endpoint", "token_endpoint", "user_endpoint"), _endpoint),
    "emails_endpoint": _emails_endpoint,
    **dict.fromkeys(("scope", "subject_field", "name_field"), _text),
    **dict.fromkeys(("email_field", "email_verified_field"), _text),
}


TABLES = ("services", "limits", "roles")

_SCOPE = re.compile(r"[a-z][a-z0-9-]{0,29}:[a-z][a-z0-9-]{0,49}")
_PATH = re.compile(r"(?:/[a-z0-9][a-z0-9._~-]{0,49}){1,5}")
_RULE_PATH = re.compile(
    r"(?!.*/(?:/|\.{1,2}(?:/|$)))(?:/(?:\*|[A-Za-z0-9._~!$&'()+,;=:@-]*))*(?:/\*\*)?"
)
"""Without empty and dot segments: no request that is decided on has them."""
_METHOD = re.compile(r"[A-Z]{1,20}")


def services(
    tables: Mapping[str, object], addresses: Mapping[str, str], directory: Path
) -> Services:
    """What `TABLES` declare, by their names. `addresses` are Portico's own; files are named from
    `directory` on."""
    bases = (addresses["base_url"], addresses["sandbox_url"])
    own = {*addresses.values(), *(f"{base}/mcp" for base in bases)}
    limits = {name: _limit(name, table) for name, table in _each("limits", tables["limits"])}
    made: dict[str, Service] = {}
    roles = {name: _role(name, table) for name, table in _each("roles", tables["roles"])}
    for name, table in _each("services", tables["services"]):
        _only(f"services.{name}", table, {*_SERVICE, "scopes", "rules", "openapi"})
        scopes = _scopes(name, table.get("scopes", {}), (*ROLES, *roles))
        rules = _rules(name, table.get("rules", []), limits)
        openapi = _openapi(name, table["openapi"], directory) if "openapi" in table else None
        made[name] = _service(name, table, scopes=scopes, rules=rules, openapi=openapi)
    for one, other in combinations(made.values(), 2):
        _check_apart(one, other, bases)
    for service in made.values():
        for audience in map(service.audience_at, bases):
            if audience in own:
                raise BrokenRule(f"services.{service.name}.audience must differ from {audience}")
    return Services(services=made, limits=limits, roles=roles)


def _limit(name: str, table: dict[str, Any]) -> Plan:
    """A named limit; a window that it does not limit has no end."""
    _check_windows(f"limits.{name}", table)
    if not table:
        raise BrokenRule(f"limits.{name} needs per_minute, per_day or per_month")
    return Plan(name, **{"per_minute": UNLIMITED, "per_day": UNLIMITED, **table})


def _role(name: str, table: dict[str, Any]) -> frozenset[str]:
    if name in ROLES:
        raise BrokenRule(f"roles.{name} is built in; choose another name")
    _only(f"roles.{name}", table, ("scopes",))
    scopes = _texts(table.get("scopes"), f"roles.{name}.scopes")
    for scope in scopes:
        if scope in ("admin", "verify"):
            raise BrokenRule(f"roles.{name}.scopes: only the role admin has {scope}")
    return frozenset(scopes)


def _scopes(name: str, table: object, roles: Collection[str]) -> dict[str, ServiceScope]:
    where = f"services.{name}.scopes"
    if not isinstance(table, dict):
        raise BrokenRule(f"{where} must be a table")
    made = {}
    for scope, given in table.items():
        if not _SCOPE.fullmatch(scope):
            raise BrokenRule(f"{where}: {scope!r} must be verb:noun, of a-z, 0-9 and -")
        _only(f'{where}."{scope}"', given, ("about", "roles"))
        of = _texts(given.get("roles", []), f'{where}."{scope}".roles')
        for role in of:
            if role not in roles:
                raise BrokenRule(f'{where}."{scope}".roles: {role!r} is no role')
        try:
            made[scope] = ServiceScope(_text(given.get("about", scope)), tuple(of))
        except BrokenRule as rule:
            raise BrokenRule(f'{where}."{scope}".about {rule}') from None
    return made


def _service(name: str, table: Mapping[str, Any], **more: Any) -> Service:
    made = Service(name=name, **_read(f"services.{name}", table, _SERVICE), **more)
    if (made.path is None) != (made.upstream is None):
        raise BrokenRule(f"services.{name} needs both path and upstream, or neither")
    if made.sandbox_upstream is not None and made.path is None:
        raise BrokenRule(f"services.{name}.sandbox_upstream needs path and upstream")
    if made.upstream is not None and made.sandbox_upstream == made.upstream:
        raise BrokenRule(f"services.{name}.sandbox_upstream must differ from upstream")
    return made


def _openapi(name: str, value: object, directory: Path) -> Mapping[str, Any]:
    """The OpenAPI document in a file, in JSON or YAML."""
    where = f"services.{name}.openapi"
    try:
        file = directory / _text(value)
        text = file.read_text("utf-8-sig")
        document = msgspec.json.decode(text) if file.suffix == ".json" else _from_yaml(text)
    except BrokenRule as rule:
        raise BrokenRule(f"{where} {rule}") from None
    except OSError as error:
        raise BrokenRule(f"{where}: {file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        reason = " ".join(str(error).split())
        kind = "JSON" if file.suffix == ".json" else "YAML"
        raise BrokenRule(f"{where}: {file} is not {kind}: {reason}") from None
    except RecursionError:
        raise BrokenRule(f"{where}: {file} is nested too deeply") from None
    match document:
        case {
            "openapi": str(version),
            "info": {"title": str(), "version": str()},
            "paths": dict(),
        } if re.fullmatch(r"3\.[01]\.\d+", version):
            kept: dict[str, Any] = document
            for reference in _references(kept):
                if not _leads_somewhere(reference, kept):
                    raise BrokenRule(f"{where}: {file} has nothing at {reference}")
            return kept
    raise BrokenRule(
        f"{where}: {file} must be an OpenAPI document 3.0 or 3.1, with info.title, info.version and"
        " paths"
    )


def _references(value: object) -> Iterator[object]:
    """What is referred to anywhere in a document."""
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        value = [*value.values()]
    if isinstance(value, list):
        for one in value:
            yield from _references(one)


def _leads_somewhere(reference: object, document: object) -> bool:
    """Whether this is a reference into the document itself (RFC 6901) to what is there."""
    if isinstance(reference, dict):
        return True  # a field that is called so
    start, *parts = str(reference).split("/")
    for part in parts:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if not isinstance(document, dict) or name not in document:
            return False
        document = document[name]
    return start == "#"


def _from_yaml(text: str) -> Any:
    """A YAML text as the values that JSON has. Raises ValueError."""
    import yaml  # type: ignore[import-untyped] # only for those who use it

    class Loader(yaml.SafeLoader):  # type: ignore[misc] # it ships no types
        """Reads times as texts, since JSON has none."""

        yaml_implicit_resolvers = {  # noqa: RUF012 - as its base has it
            start: [one for one in found if one[0] != "tag:yaml.org,2002:timestamp"]
            for start, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    try:
        return _as_json(yaml.load(text, Loader))  # noqa: S506 - a loader that is safe
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _as_json(value: Any) -> Any:
    """The value with the keys that JSON has: statuses are numbers in YAML."""
    if isinstance(value, dict):
        return {str(key): _as_json(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_as_json(one) for one in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise ValueError(f"a {type(value).__name__} has no place in JSON")


def _rules(name: str, tables: object, limits: Collection[str]) -> tuple[Rule, ...]:
    if not isinstance(tables, list):
        raise BrokenRule(f"services.{name}.rules must be tables, [[services.{name}.rules]]")
    return tuple(
        _rule(f"services.{name}.rules {number}", table, limits)
        for number, table in enumerate(tables, 1)
    )


def _rule(where: str, table: dict[str, Any], limits: Collection[str]) -> Rule:
    _only(where, table, ("methods", "path", "scope", "limit", "cost"))
    methods = _texts(table.get("methods", []), f"{where}: methods")
    for method in methods:
        if not _METHOD.fullmatch(method):
            raise BrokenRule(f"{where}: {method!r} must be a method such as GET")
    path = table.get("path")
    if not isinstance(path, str) or not path or not _RULE_PATH.fullmatch(path):
        raise BrokenRule(f"{where}: path must be like /a/*/b or /a/**, with ** at its end only")
    scope = table.get("scope")
    if not isinstance(scope, str):
        raise BrokenRule(f"{where} needs a scope, {ANYBODY} or {PUBLIC}")
    limit, cost = table.get("limit"), table.get("cost", 1)
    if limit is not None and (not isinstance(limit, str) or limit not in limits):
        raise BrokenRule(f"{where}: limit {limit!r} is not in [limits]")
    if limit is not None and scope == PUBLIC:
        raise BrokenRule(f"{where}: a limit counts accounts, and {PUBLIC} asks nobody for one")
    if type(cost) is not int or not 0 <= cost <= MOST_COST:
        raise BrokenRule(f"{where}: cost must be a whole number from 0 to {MOST_COST}")
    return Rule(methods=frozenset(methods), path=path, scope=scope, limit=limit, cost=cost)


def _check_apart(one: Service, other: Service, bases: Sequence[str]) -> None:
    """Raises `BrokenRule` where a request or token could be meant for either of two services."""
    for base in bases:
        if both := one.names_at(base) & other.names_at(base):
            raise BrokenRule(
                f"services.{one.name} and services.{other.name} must have different audiences and"
                f" addresses: {min(both)} is of both"
            )
    if one.path and other.path:
        inner, outer = f"{one.path}/", f"{other.path}/"
        if inner.startswith(outer) or outer.startswith(inner):
            raise BrokenRule(
                f"services.{one.name}.path must not lie within services.{other.name}.path,"
                " nor the other way round"
            )


def _texts(value: object, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise BrokenRule(f"{where} must be a list of texts")
    return value


def _audience(value: object) -> str:
    text = _text(value)
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = urlsplit("")
    if not parts.scheme or not text.isascii() or re.search(r'[#\s"\\<>]', text) or len(text) > 500:
        raise BrokenRule("must be a URI without fragment, such as https://invoices.example.com")
    return text


def _path(value: object) -> str:
    text = _text(value)
    if not _PATH.fullmatch(text):
        raise BrokenRule("must be a path such as /invoices, without a slash at its end")
    return text


def _upstream(value: object) -> str:
    text = _text(value)
    parts = url_parts(text, "http", "https")
    if (
        parts is None
        or not re.fullmatch(r"[a-z0-9._:-]+", parts.hostname or "")
        or ("@" in parts.netloc or "?" in text or "#" in text)
        or not re.fullmatch(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*/?", parts.path)
    ):
        raise BrokenRule(
            "must be http:// or https:// with a host and no user, query or fragment, such as"
            " http://127.0.0.1:9000"
        )
    return text.rstrip("/")


def _whole(low: int, high: int) -> Read:
    def parse(value: object) -> int:
        if type(value) is not int or not low <= value <= high:
            raise BrokenRule(f"must be a whole number from {low} to {high}")
        return value

    return parse


_SERVICE: dict[str, Read] = {
    "audience": _audience,
    "path": _path,
    "upstream": _upstream,
    "sandbox_upstream": _upstream,
    "timeout_seconds": _whole(1, 3600),
    "max_body": _whole(0, 1024 * 1024 * MIB),
    "token_seconds": _whole(60, 3600),
}
