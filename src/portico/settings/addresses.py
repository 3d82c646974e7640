"""The public name and addresses."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Annotated, Any
from urllib.parse import urlsplit

from portico.settings.declaring import Group, SettingError, Sources, declared, named
from portico.settings.values import base, domain, origins, site_name

ADDRESSES = ("base_url", "sandbox_url", "auth_url", "sandbox_auth_url", "dashboard_url")


@dataclass(frozen=True, kw_only=True, repr=False)
class PublicAddresses(Group):
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
            None,
            base,
            "public address of the dashboard; unset: `/dashboard` at `host` and `port`",
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
            kind=list,
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

    @property
    def cookieless(self) -> Mapping[str, str]:
        """The addresses whose host cannot set a cookie for `cookie_domain`, each with that host."""
        hosts = {name: urlsplit(getattr(self, name)).hostname or "" for name in ADDRESSES}
        shared = f".{self.cookie_domain}" if self.cookie_domain else ""
        return {name: host for name, host in hosts.items() if not f".{host}".endswith(shared)}

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
        for name, host in self.cookieless.items():
            if name in sources:
                raise SettingError(
                    f"{named(name, sources)} must be within {named('cookie_domain', sources)}:"
                    f" no browser lets {host} set a cookie for {self.cookie_domain}"
                )


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
