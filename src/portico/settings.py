"""Settings: read once at the start, from portico.toml, then PORTICO_* variables, then flags.

Each setting is declared once, as a field of `Settings`; its key in portico.toml, its variable, its
flag and its row in the documents all follow from that. What several settings must obey together
is checked at the end. Whether a store answers or a certificate fits its key is not settled here.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints
from urllib.parse import urlsplit

from portico.domain.errors import BrokenRule
from portico.domain.limits import Plan
from portico.domain.users import email
from portico.setting_values import (
    Network,
    Setting,
    base,
    declared,
    domain,
    hint,
    listening_address,
    mail_server,
    networks,
    one_of,
    plans,
    redacted,
    store_url,
    switch,
    whole,
)

CONFIG_VARIABLE = "PORTICO_CONFIG"


class SettingError(Exception):
    """A setting is unknown or impossible: one line for the operator, which holds no password."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Settings:
    """Every setting, parsed and checked. Paths are absolute; addresses have no final slash."""

    data: Annotated[
        Path, declared("./portico-data", Path, "directory of databases, keys and certificates")
    ]
    host: Annotated[
        str,
        declared(
            "127.0.0.1", listening_address, "IP address to listen on; `0.0.0.0` or `::` is all"
        ),
    ]
    port: Annotated[int, declared("8443", whole(1, 65535), "port of HTTPS", kind=int)]
    http_port: Annotated[
        int | None,
        declared(
            None,
            whole(1, 65535),
            "port of plain HTTP, where every request is refused and told the HTTPS address",
            kind=int,
        ),
    ]
    workers: Annotated[
        int,
        declared(
            "1", whole(1, 256), "serving processes; more than one need `valkey_url`", kind=int
        ),
    ]
    database_url: Annotated[
        str | None,
        declared(
            None,
            store_url("postgresql", "postgres"),
            "`postgresql://user:password@host/database`; unset: SQLite in `data`",
            secret=True,
        ),
    ]
    valkey_url: Annotated[
        str | None,
        declared(
            None,
            store_url("valkey", "valkeys", "redis", "rediss"),
            "`valkey://` or `redis://`, over TLS `valkeys://` or `rediss://`; unset: request"
            " counts are kept in memory",
            secret=True,
        ),
    ]
    base_url: Annotated[
        str,
        declared(None, base, "public address of the API; unset: `/v1` on `host` and `port`"),
    ]
    sandbox_url: Annotated[
        str,
        declared(
            None, base, "public address of the sandbox; unset: `/sandbox/v1` on `host` and `port`"
        ),
    ]
    auth_url: Annotated[
        str,
        declared(
            None,
            base,
            "public address of the authorization server; unset: `/auth` on `host` and `port`",
        ),
    ]
    sandbox_auth_url: Annotated[
        str,
        declared(
            None,
            base,
            "the sandbox's authorization server; unset: `auth_url` with `/sandbox` before its path",
        ),
    ]
    dashboard_url: Annotated[
        str,
        declared(
            None,
            base,
            "public address of the dashboard; unset: `/dashboard` on `host` and `port`",
        ),
    ]
    tls: Annotated[
        bool,
        declared(
            "on",
            switch,
            "`on` or `off`; `off` only where `trusted_proxies` names what terminates TLS",
            kind=bool,
        ),
    ]
    tls_cert: Annotated[
        Path | None,
        declared(
            None,
            Path,
            "PEM file of the certificate and its chain; unset: one from the local authority in"
            " `data`",
        ),
    ]
    tls_key: Annotated[
        Path | None, declared(None, Path, "PEM file of the private key of `tls_cert`")
    ]
    trusted_proxies: Annotated[
        tuple[Network, ...],
        declared(
            "",
            networks,
            "addresses or networks, comma-separated, whose `X-Forwarded-For` and"
            " `X-Forwarded-Proto` are believed",
            kind=list,
        ),
    ]
    cookie_domain: Annotated[
        str | None,
        declared(None, domain, "domain whose hosts share the session cookie; unset: none do"),
    ]
    smtp_url: Annotated[
        str | None,
        declared(
            None,
            mail_server,
            "`smtp://user:password@host:587`, upgraded to TLS but for a loopback host, or"
            " `smtps://`; unset: mails become files in `log` in `data`",
            secret=True,
        ),
    ]
    mail_from: Annotated[
        str | None, declared(None, email, "address that mails come from; `smtp_url` needs it")
    ]
    metrics_allow: Annotated[
        tuple[Network, ...],
        declared(
            "127.0.0.0/8,::1",
            networks,
            "addresses or networks, comma-separated, that may read `/metrics`",
            kind=list,
        ),
    ]
    body_limit: Annotated[
        int,
        declared("1048576", whole(1024, 2**30), "largest request body, in bytes", kind=int),
    ]
    log_level: Annotated[
        str,
        declared(
            "info",
            one_of("debug", "info", "warning", "error"),
            "the least that is logged: `debug`, `info`, `warning` or `error`",
        ),
    ]
    log_requests: Annotated[
        bool, declared("on", switch, "`on` or `off`: one line for each request", kind=bool)
    ]
    plans: Mapping[str, Plan]

    @property
    def addresses(self) -> tuple[str, ...]:
        """The five addresses."""
        return tuple(getattr(self, name) for name in _ADDRESSES)

    @property
    def host_names(self) -> frozenset[str]:
        """The hosts of the five addresses, as a certificate names them: no port, no brackets."""
        return frozenset(urlsplit(address).hostname or "" for address in self.addresses)

    def __repr__(self) -> str:
        values = (
            (setting.name, getattr(self, setting.name), setting.secret) for setting in SETTINGS
        )
        shown = (f"{name}={redacted(v) if secret and v else v!r}" for name, v, secret in values)
        return f"Settings({', '.join(shown)}, plans={self.plans!r})"


SETTINGS: tuple[Setting, ...] = tuple(
    hint.__metadata__[0](name)
    for name, hint in get_type_hints(Settings, include_extras=True).items()
    if hasattr(hint, "__metadata__")
)
_BY_NAME = {setting.name: setting for setting in SETTINGS}
_BY_VARIABLE = {setting.variable: setting for setting in SETTINGS}
_ADDRESSES = ("base_url", "sandbox_url", "auth_url", "sandbox_auth_url", "dashboard_url")


def markdown_table() -> str:
    """The settings as a Markdown table, one row each, for the documents."""
    head = "| Key in `portico.toml` | Variable | Default | Meaning |\n|---|---|---|---|\n"
    return head + "".join(f"{setting.row}\n" for setting in SETTINGS)


class _Given(NamedTuple):
    setting: Setting
    value: object
    source: str


def load(flags: Mapping[str, str | int | None], environ: Mapping[str, str], cwd: Path) -> Settings:
    """Read the settings from portico.toml, then `environ`, then `flags`; the later one wins.

    `flags` are named like the settings; None is a flag that was not given. Relative paths start at
    `cwd`. Raises `SettingError` at the first unknown or impossible setting, whichever wins.
    """
    file, document = _document(environ, cwd)
    try:
        merged_plans = plans(document.pop("plans", {}))
    except BrokenRule as rule:
        raise SettingError(f"{rule} (in {file})") from None
    sources: dict[str, str] = {}
    values: dict[str, Any] = {
        setting.name: None
        if setting.default is None
        else _parsed(_Given(setting, setting.default, "its default"), cwd)
        for setting in SETTINGS
    }
    for given in (*_from_file(document, file), *_from_environment(environ), *_from_flags(flags)):
        values[given.setting.name] = _parsed(given, cwd)
        sources[given.setting.name] = given.source
    settings = Settings(**(values | _addresses(values)), plans=merged_plans)
    _check(settings, sources)
    _check_addresses(settings, sources)
    return settings


def _document(environ: Mapping[str, str], cwd: Path) -> tuple[Path, dict[str, object]]:
    file = cwd / environ.get(CONFIG_VARIABLE, "portico.toml")
    named = f"{file} (from {CONFIG_VARIABLE})" if CONFIG_VARIABLE in environ else str(file)
    try:
        return file, tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        if isinstance(error, FileNotFoundError) and CONFIG_VARIABLE not in environ:
            return file, {}
        raise SettingError(f"{named} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingError(f"{named} is not UTF-8: save it as UTF-8") from None
    except ValueError as error:
        raise SettingError(f"{named} is not TOML: {error}") from None


def _from_file(document: Mapping[str, object], file: Path) -> Iterator[_Given]:
    for name, value in document.items():
        setting = _BY_NAME.get(name)
        if setting is None:
            raise SettingError(f"{name!r} in {file} is not a setting{hint(name, _BY_NAME)}")
        yield _Given(setting, value, str(file))


def _from_environment(environ: Mapping[str, str]) -> Iterator[_Given]:
    known = {*_BY_VARIABLE, CONFIG_VARIABLE}
    for variable in sorted(environ):
        if not variable.startswith("PORTICO_") or variable in known:
            continue
        if re.match(r"PORTICO_(SERVICE|PORT)_", variable):
            raise SettingError(
                f"{variable} is not a setting; where Kubernetes made it for a Service named"
                " portico, set enableServiceLinks: false"
            )
        raise SettingError(f"{variable} is not a setting{hint(variable, known, 'PORTICO_')}")
    for variable, setting in _BY_VARIABLE.items():
        if variable in environ:
            yield _Given(setting, environ[variable], variable)


def _from_flags(flags: Mapping[str, str | int | None]) -> Iterator[_Given]:
    for name, value in flags.items():
        if value is not None:
            yield _Given(_BY_NAME[name], value, _BY_NAME[name].flag)


def _parsed(given: _Given, cwd: Path) -> object:
    setting, value, source = given
    try:
        parsed = setting.read(value)
    except BrokenRule as rule:
        shown = "" if setting.secret else f", not {redacted(str(value))!r}"
        raise SettingError(f"{setting.name} (from {source}) {rule}{shown}") from None
    return cwd / parsed if isinstance(parsed, Path) else parsed


def _addresses(values: Mapping[str, Any]) -> dict[str, str]:
    """The five addresses; those that are unset follow `host` and `port`."""
    host, port = values["host"], values["port"]
    name = "localhost" if host in {"0.0.0.0", "::", "127.0.0.1"} else host  # noqa: S104 - compared, not bound
    origin = f"https://{f'[{name}]' if ':' in name else name}" + ("" if port == 443 else f":{port}")
    addresses = {
        "base_url": values["base_url"] or f"{origin}/v1",
        "sandbox_url": values["sandbox_url"] or f"{origin}/sandbox/v1",
        "auth_url": values["auth_url"] or f"{origin}/auth",
        "dashboard_url": values["dashboard_url"] or f"{origin}/dashboard",
    }
    auth = urlsplit(addresses["auth_url"])
    beside = auth._replace(path=f"/sandbox{auth.path}").geturl()
    return {**addresses, "sandbox_auth_url": values["sandbox_auth_url"] or beside}


def _named(name: str, sources: Mapping[str, str]) -> str:
    return f"{name} (from {sources[name]})" if name in sources else f"{name} (by default)"


def _check(settings: Settings, sources: Mapping[str, str]) -> None:
    """What settings must obey together."""
    if settings.workers > 1 and settings.valkey_url is None:
        raise SettingError(
            f"{_named('workers', sources)} above 1 needs Valkey or Redis, where all count together:"
            " set valkey_url (PORTICO_VALKEY_URL)"
        )
    if not settings.tls and not settings.trusted_proxies:
        raise SettingError(
            f"{_named('tls', sources)} may be off only behind a proxy that terminates TLS: name it"
            " in trusted_proxies (PORTICO_TRUSTED_PROXIES)"
        )
    if settings.smtp_url is not None and settings.mail_from is None:
        raise SettingError(
            f"{_named('smtp_url', sources)} needs an address that mails come from: set mail_from"
            " (PORTICO_MAIL_FROM)"
        )
    if settings.http_port == settings.port:
        raise SettingError(
            f"{_named('http_port', sources)} must differ from {_named('port', sources)}"
        )
    for one, other in permutations(("tls_cert", "tls_key")):
        path: Path | None = getattr(settings, one)
        if path is None:
            continue
        if getattr(settings, other) is None:
            raise SettingError(f"{_named(one, sources)} needs {other} beside it: set both")
        try:
            path.open("rb").close()
        except OSError as error:
            raise SettingError(
                f"{_named(one, sources)} cannot be read: {error.strerror}: {str(path)!r}"
            ) from None


def _check_addresses(settings: Settings, sources: Mapping[str, str]) -> None:
    """Tells the five addresses apart, and sees that the shared cookie can reach those given."""
    for one, other in permutations(_ADDRESSES, 2):
        inner, outer = getattr(settings, one), getattr(settings, other)
        if inner == outer:
            raise SettingError(
                f"{_named(one, sources)} must differ from {_named(other, sources)}:"
                f" both are {inner}"
            )
        # Below the API's base every path is a resource's; elsewhere the longer base may win.
        if other in {"base_url", "sandbox_url"} and inner.startswith(f"{outer}/"):
            raise SettingError(
                f"{_named(one, sources)} must not lie within {_named(other, sources)}:"
                f" {inner} is within {outer}"
            )
    shared = settings.cookie_domain
    for name in _ADDRESSES if shared else ():
        host = urlsplit(getattr(settings, name)).hostname
        if name in sources and not f".{host}".endswith(f".{shared}"):
            raise SettingError(
                f"{_named(name, sources)} must be within {_named('cookie_domain', sources)}:"
                f" no browser lets {host} set a cookie for {shared}"
            )
