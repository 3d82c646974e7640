"""All settings: every group in one class."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Annotated, Any, get_type_hints
from urllib.parse import urlsplit

from portico.core.errors import BrokenRule
from portico.core.networks import Network
from portico.core.plans import Plan
from portico.core.providers import Provider
from portico.core.rules import OneOf
from portico.core.services import NOTHING, Services
from portico.core.users import email
from portico.core.words import ROLES
from portico.data.disk import resolved
from portico.settings.declaring import (
    Setting,
    SettingError,
    SettingGroup,
    Sources,
    content,
    declared,
    named,
)
from portico.settings.values import (
    base,
    collector,
    domain,
    domains,
    key_prefix,
    listening_address,
    mail_server,
    networks,
    origins,
    redacted,
    secret_keys,
    site_name,
    store_url,
    switch,
    whole,
)


@dataclass(frozen=True, kw_only=True, repr=False)
class Limits(SettingGroup):
    """How much clients may send, and how much the server counts and keeps for them."""

    title = "Limits"

    body_limit: Annotated[
        int,
        declared("1048576", whole(1024, 2**30), "largest request body, in bytes"),
    ]
    count_limit: Annotated[
        int | None,
        declared(
            None,
            whole(100, 10**9),
            "most matches of a filter or search that are counted; beyond it `total_is_exact` is"
            " false; unset: all",
        ),
    ]
    kept_bytes: Annotated[
        int,
        declared(
            "33554432",
            whole(0, 2**36),
            "memory of each worker, in bytes, for pages of products that are kept while valid;"
            " `0`: none",
        ),
    ]
    connections_per_address: Annotated[
        int,
        declared(
            "512",
            whole(1, 2**20),
            "most connections of one address to a worker, except trusted proxies; never more than"
            " a quarter of all",
        ),
    ]
    plans: Mapping[str, Plan]
    declared: Services = NOTHING
    """The team's services, named limits and roles."""


@dataclass(frozen=True, kw_only=True, repr=False)
class MailSettings(SettingGroup):
    """The mail server and the sender."""

    title = "Mail"

    smtp_url: Annotated[
        str | None,
        declared(
            None,
            mail_server,
            "`smtp://user:password@host:587`, upgraded to TLS except on a loopback host, or"
            " `smtps://`; unset: mails become files in `log` in `data`",
            secret=True,
        ),
    ]
    mail_from: Annotated[
        str | None, declared(None, email, "sender's address of mails; `smtp_url` needs it")
    ]


@dataclass(frozen=True, kw_only=True, repr=False)
class EventSettings(SettingGroup):
    """How long events are kept, and where webhooks may send them."""

    title = "Events and webhooks"

    events_days: Annotated[
        int,
        declared(
            "30",
            # The retries of a delivery take three to four days, a receiver's `Retry-After` up to a
            # week.
            whole(7, 3650),
            "days for which events and the deliveries of webhooks are kept",
        ),
    ]
    webhooks_allow: Annotated[
        tuple[Network, ...],
        declared(
            "",
            networks,
            "addresses or networks to which webhooks may lead although they are not public, also"
            " over `http`",
        ),
    ]


@dataclass(frozen=True, kw_only=True, repr=False)
class SigningIn(SettingGroup):
    """Who may sign up, what a sign-in needs, and how long logins, consents and keys last."""

    title = "Sign-in and keys"

    sign_up: Annotated[
        bool,
        declared(
            "off",
            switch,
            "`on`: anyone who verifies their e-mail gets an account on Free; needs `sign_up_role`",
        ),
    ]
    sign_up_role: Annotated[
        str | None,
        declared(
            None,
            str,
            "role of those who sign up: `viewer`, who sees every user and every product, `editor`,"
            " who also changes products, or one of `[roles]`",
        ),
    ]
    sign_up_domains: Annotated[
        tuple[str, ...], declared("", domains, "domains whose e-mails may sign up; unset: all")
    ]

    refresh_family_days: Annotated[
        int,
        declared(
            "90",
            whole(1, 3650),
            "days for which refresh tokens renew a login or a consent until the user must sign in"
            " again",
        ),
    ]
    refresh_grace_seconds: Annotated[
        int,
        declared(
            "0",
            whole(0, 60),
            "seconds within which an OAuth client may repeat its last refresh, after a lost answer,"
            " instead of ending the consent",
        ),
    ]
    client_id_documents: Annotated[
        bool,
        declared(
            "on",
            switch,
            "`off`: OAuth clients must be registered, and cannot name a document of theirs as their"
            " `client_id`",
        ),
    ]
    client_id_hosts: Annotated[
        tuple[str, ...],
        declared("", domains, "hosts whose documents are admitted as `client_id`; unset: all"),
    ]
    client_registration: Annotated[
        bool,
        declared(
            "off", switch, "`on`: OAuth clients without a secret may register themselves (RFC 7591)"
        ),
    ]
    require_second_factor: Annotated[
        str,
        declared(
            "off",
            OneOf(("off", "admins", "all")),
            "`off`, `admins` or `all`: who must have a second factor, and set one up at the next"
            " sign-in",
        ),
    ]
    max_key_days: Annotated[
        int | None,
        declared(None, whole(1, 3650), "days after which every new API key expires at the latest"),
    ]
    providers: tuple[Provider, ...]


@dataclass(frozen=True, kw_only=True, repr=False)
class Observability(SettingGroup):
    """What operators can observe, and how long it is kept."""

    title = "Observability"

    audit_days: Annotated[
        int | None,
        declared(
            None,
            whole(1, 36_500),
            "days after which entries of the audit log are removed, by whole days in UTC; unset:"
            " never",
        ),
    ]
    audit_archive: Annotated[
        Path | None,
        declared(
            None, Path, "directory to which a day's entries are exported before they are removed"
        ),
    ]
    metrics_allow: Annotated[
        tuple[Network, ...],
        declared("127.0.0.0/8,::1", networks, "addresses or networks that may read `/metrics`"),
    ]
    log_level: Annotated[
        str,
        declared(
            "info",
            OneOf(("debug", "info", "warning", "error")),
            "`debug`, `info`, `warning` or `error`",
        ),
    ]
    log_requests: Annotated[
        bool, declared("on", switch, "one log line for each request, of level `info`")
    ]

    otlp_endpoint: Annotated[
        str | None,
        declared(
            None,
            collector,
            "collector for traces and metrics by OTLP over HTTP, such as `http://127.0.0.1:4318`",
        ),
    ]


@dataclass(frozen=True, kw_only=True, repr=False)
class Listening(SettingGroup):
    """The listeners, their TLS, and the proxies in front of them."""

    title = "Listening and TLS"

    host: Annotated[
        str,
        declared("127.0.0.1", listening_address, "IP address to listen on; `0.0.0.0` or `::`: all"),
    ]
    port: Annotated[int, declared("8443", whole(1, 65535), "port of HTTPS")]
    http_port: Annotated[
        int | None,
        declared(
            None,
            whole(1, 65535),
            "port of plain HTTP; every request there is refused with the HTTPS address",
        ),
    ]
    workers: Annotated[
        int,
        declared("1", whole(1, 256), "serving processes; more than 1 needs `valkey_url`"),
    ]
    drain_seconds: Annotated[
        int,
        declared(
            "5",
            whole(0, 3600),
            "seconds for which the server serves on after SIGTERM, while `/readyz` is 503",
        ),
    ]
    tls: Annotated[
        bool,
        declared("on", switch, "`off` only if `trusted_proxies` has the proxy that terminates TLS"),
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
            "addresses or networks whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted",
        ),
    ]

    def check(self, sources: Sources) -> None:
        """Checks that TLS is on or left to a proxy, that the ports differ, and that the certificate
        and its key can be read."""
        if not self.tls and not self.trusted_proxies:
            raise SettingError(
                f"{named('tls', sources)} may be off only behind a proxy that terminates TLS: add"
                " it to trusted_proxies (PORTICO_TRUSTED_PROXIES)"
            )
        if self.http_port == self.port:
            raise SettingError(
                f"{named('http_port', sources)} must differ from {named('port', sources)}"
            )
        for name, path in (("tls_cert", self.tls_cert), ("tls_key", self.tls_key)):
            if path is not None:
                content(name, path, sources)


@dataclass(frozen=True, kw_only=True, repr=False)
class Stores(SettingGroup):
    """The data directory, and the stores that can be used instead."""

    title = "Storage"

    data: Annotated[
        Path, declared("./portico-data", Path, "directory of databases, keys and certificates")
    ]
    kinds: Annotated[
        Path | None,
        declared(
            None,
            Path,
            "directory of files that declare kinds of resources; unset: `kinds` beside"
            " portico.toml or in the working directory, where there is one",
        ),
    ]
    secret_key_file: Annotated[
        Path | None,
        declared(
            None,
            Path,
            "file with the installation's secret, the same on all hosts, followed by former ones;"
            " unset: `secret.key` in `data`",
        ),
    ]
    secret_key: Annotated[
        tuple[str, ...] | None,
        declared(
            None,
            secret_keys,
            "the secret itself, 64 hexadecimal digits; after a comma a former one",
            secret=True,
        ),
    ]
    database_url: Annotated[
        str | None,
        declared(
            None,
            store_url("postgresql", "postgres"),
            "`postgresql://user:password@host/database`; with standbys"
            " `@h1:5432,h2:5432/database`; unset: SQLite in `data`",
            secret=True,
        ),
    ]
    database_listen_url: Annotated[
        str | None,
        declared(
            None,
            store_url("postgresql", "postgres"),
            "PostgreSQL itself, if `database_url` is a pooler",
            secret=True,
        ),
    ]
    database_read_url: Annotated[
        str | None,
        declared(
            None,
            store_url("postgresql", "postgres"),
            "standbys of `database_url`, each by its own address: `@h2:5432,h3:5432/database`;"
            " they serve lists, searches, exports and the audit log, at most a second old",
            secret=True,
        ),
    ]
    prepared_statements: Annotated[bool, declared("on", switch, "`off` for PgBouncer before 1.21")]
    valkey_url: Annotated[
        str | None,
        declared(
            None,
            store_url("valkey", "valkeys", "redis", "rediss", kinds=("+sentinel", "+cluster")),
            "`valkey://` or `redis://`, over TLS `valkeys://` or `rediss://`;"
            " `valkey+sentinel://h1:26379,h2:26379/NAME`, `valkey+cluster://h1:6379,h2:6379`;"
            " unset: request counts are kept in memory",
            secret=True,
        ),
    ]
    key_prefix: Annotated[
        str,
        declared(
            "portico",
            key_prefix,
            "beginning of every key in Valkey or Redis; installations that share one need"
            " different prefixes",
        ),
    ]

    def check(self, sources: Sources) -> None:
        """Checks that the data directory can be one, and that there is one source of the secret,
        which can be read."""
        for path in map(str, (self.data, *self.data.parents)):
            # pathlib's functions raise if a name is too long or permission is missing.
            if os.path.exists(path) and not os.path.isdir(path):  # noqa: PTH110, PTH112 - as above
                raise SettingError(
                    f"{named('data', sources)} must be a directory: {path!r} is not one"
                )
        file = self.secret_key_file
        if file is None:
            return
        name = named("secret_key_file", sources)
        if self.secret_key is not None:
            raise SettingError(
                f"{name} and {named('secret_key', sources)} both give the secret: remove one"
            )
        held = content("secret_key_file", file, sources)
        try:
            secret_keys(held.strip().decode("ascii", "replace"))
        except BrokenRule as rule:
            raise SettingError(f"{name}: the content of {str(file)!r} {rule}") from None


ADDRESSES = ("base_url", "sandbox_url", "auth_url", "sandbox_auth_url", "dashboard_url")


@dataclass(frozen=True, kw_only=True, repr=False)
class PublicAddresses(SettingGroup):
    """The name, five addresses, the domain of their cookie, and the origins that may call them. No
    address ends with a slash."""

    title = "Public name and addresses"

    site_name: Annotated[
        str,
        declared(
            "Portico",
            site_name,
            "what pages, mails, authenticator apps and the API's reference call this installation",
        ),
    ]

    base_url: Annotated[
        str,
        declared(None, base, "public address of the API; unset: `/v1` at `host` and `port`"),
    ]
    sandbox_url: Annotated[
        str,
        declared(
            None, base, "public address of the sandbox; unset: `/sandbox/v1` at `host` and `port`"
        ),
    ]
    auth_url: Annotated[
        str,
        declared(
            None,
            base,
            "public address of the authorization server; unset: `/auth` at `host` and `port`",
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
            None, base, "public address of the dashboard; unset: `/dashboard` at `host` and `port`"
        ),
    ]
    cookie_domain: Annotated[
        str | None,
        declared(None, domain, "domain whose hosts share the session cookie"),
    ]
    cors_origins: Annotated[
        tuple[str, ...],
        declared(
            "",
            origins,
            "origins whose web pages may call the API, such as `https://app.example.com`; `*`: all",
        ),
    ]

    @property
    def addresses(self) -> tuple[str, ...]:
        """The five addresses."""
        return tuple(getattr(self, name) for name in ADDRESSES)

    @property
    def host_names(self) -> frozenset[str]:
        """The hosts of the five addresses as in a certificate: no port, no brackets."""
        return frozenset(urlsplit(address).hostname or "" for address in self.addresses)

    def check(self, sources: Sources) -> None:
        """Checks that the addresses differ, and that the given ones can set the shared cookie."""
        for one, other in permutations(ADDRESSES, 2):
            inner, outer = getattr(self, one), getattr(self, other)
            if inner == outer:
                raise SettingError(
                    f"{named(one, sources)} must differ from {named(other, sources)}:"
                    f" both are {inner}"
                )
            # Every path below the API's base belongs to the API; elsewhere the longer base wins.
            if other in {"base_url", "sandbox_url"} and inner.startswith(f"{outer}/"):
                raise SettingError(
                    f"{named(one, sources)} must not lie within {named(other, sources)}:"
                    f" {inner} is within {outer}"
                )
        shared = f".{self.cookie_domain}" if self.cookie_domain else ""
        for name in filter(sources.__contains__, ADDRESSES):
            host = urlsplit(getattr(self, name)).hostname or ""
            if not f".{host}".endswith(shared):
                raise SettingError(
                    f"{named(name, sources)} must be within {named('cookie_domain', sources)}:"
                    f" no browser lets {host} set a cookie for {self.cookie_domain}"
                )


NEEDED = {
    "smtp_url": ("mail_from", ", the sender's address"),
    "sign_up": ("sign_up_role", ", such as viewer, who sees every user and product"),
    "audit_archive": ("audit_days", ""),
    "database_read_url": ("database_url", ""),
    "database_listen_url": ("database_url", ""),
    "tls_cert": ("tls_key", ""),
    "tls_key": ("tls_cert", ""),
}
"""The settings that need another one, with its name and what messages add to that."""


def derived_addresses(values: Mapping[str, Any]) -> dict[str, str]:
    """The five addresses; unset ones are derived from `host` and `port`."""
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
    sandbox_auth = auth._replace(path=f"/sandbox{auth.path}").geturl()
    return {**addresses, "sandbox_auth_url": values["sandbox_auth_url"] or sandbox_auth}


@dataclass(frozen=True, kw_only=True, repr=False)
class Settings(
    Stores,
    Listening,
    PublicAddresses,
    MailSettings,
    SigningIn,
    EventSettings,
    Limits,
    Observability,
):
    """Every setting, parsed and checked. Paths are absolute.

    Code that needs a single group takes that group.
    """

    secrets_file: Path | None = None
    """The path of portico.toml if it contains a secret."""

    def check(self, sources: Sources) -> None:
        """Checks that what is needed is there, then each group, and then all together."""
        for name, (needed, what) in NEEDED.items():
            if getattr(self, name) and getattr(self, needed) is None:
                raise SettingError(
                    f"{named(name, sources)} needs {needed}{what}: set {needed}"
                    f" (PORTICO_{needed.upper()})"
                )
        for group in GROUPS:
            group.check(self, sources)
        self._check_roles(sources)
        if self.workers > 1 and self.valkey_url is None:
            raise SettingError(
                f"{named('workers', sources)} above 1 needs Valkey or Redis for common rate"
                " counters: set valkey_url (PORTICO_VALKEY_URL)"
            )

    def _check_roles(self, sources: Sources) -> None:
        """Checks that the roles of new accounts exist, where the team's own roles are known."""
        roles = [*ROLES, *self.declared.roles]
        given = [(f"sign_in.{one.name}.role", one.role, roles) for one in self.providers]
        if self.sign_up_role is not None:
            others = [role for role in roles if role != "admin"]
            given.append((named("sign_up_role", sources), self.sign_up_role, others))
        for name, role, known in given:
            if role not in known:
                raise SettingError(f"{name} must be one of {', '.join(known)}, not {role!r}")

    @property
    def local_authority(self) -> Path | None:
        """The local authority's certificate, which clients must trust; None if it is not used."""
        local = self.tls and self.tls_cert is None
        return resolved(self.data / "tls" / "ca.pem") if local else None

    def __repr__(self) -> str:
        values = (
            (setting.name, getattr(self, setting.name), setting.secret) for setting in SETTINGS
        )
        shown = (f"{name}={_hidden(v) if secret and v else v!r}" for name, v, secret in values)
        tables = f"plans={self.plans!r}, providers={self.providers!r}"
        return f"Settings({', '.join(shown)}, {tables})"


def _hidden(value: str) -> str:
    """A secret as it may be shown: a URL without its password, else nothing."""
    return redacted(value) if "://" in value else "***"


GROUPS: tuple[type[SettingGroup], ...] = Settings.__bases__


def _settings_of(group: type[SettingGroup]) -> tuple[Setting, ...]:
    return tuple(
        hint.__metadata__[0](name, hint.__origin__)
        for name, hint in get_type_hints(group, include_extras=True).items()
        if hasattr(hint, "__metadata__")
    )


SETTINGS: tuple[Setting, ...] = tuple(one for group in GROUPS for one in _settings_of(group))


def markdown_tables() -> str:
    """The settings as Markdown for the documents: for each group a heading and a table, with one
    row for each setting."""
    head = ("| Key | Default | Meaning |", "|---|---|---|")
    return "\n".join(
        "\n".join((f"## {group.title}\n", *head, *(one.row for one in _settings_of(group)), ""))
        for group in GROUPS
    )
