"""Where the server listens, and which proxies it trusts."""

from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Annotated

from portico.domain.networks import Network
from portico.settings.declaring import Group, SettingError, Sources, content, declared, named
from portico.settings.values import listening_address, networks, switch, whole


@dataclass(frozen=True, kw_only=True, repr=False)
class Listening(Group):
    """The listeners, their TLS, and the proxies in front of them."""

    title = "Listening and TLS"

    host: Annotated[
        str,
        declared("127.0.0.1", listening_address, "IP address to listen on; `0.0.0.0` or `::`: all"),
    ]
    port: Annotated[int, declared("8443", whole(1, 65535), "port of HTTPS", kind=int)]
    http_port: Annotated[
        int | None,
        declared(
            None,
            whole(1, 65535),
            "port of plain HTTP; every request there is refused with the HTTPS address",
            kind=int,
        ),
    ]
    workers: Annotated[
        int,
        declared("1", whole(1, 256), "serving processes; more than 1 needs `valkey_url`", kind=int),
    ]
    drain_seconds: Annotated[
        int,
        declared(
            "5",
            whole(0, 3600),
            "seconds for which the server serves on after SIGTERM, while `/readyz` is 503",
            kind=int,
        ),
    ]
    tls: Annotated[
        bool,
        declared(
            "on",
            switch,
            "`off` only if `trusted_proxies` has the proxy that terminates TLS",
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
            "addresses or networks whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted",
            kind=list,
        ),
    ]

    def check(self, sources: Sources) -> None:
        """Checks that TLS is on or left to a proxy, that the ports differ, and that the certificate
        has a key."""
        if not self.tls and not self.trusted_proxies:
            raise SettingError(
                f"{named('tls', sources)} may be off only behind a proxy that terminates TLS: add"
                " it to trusted_proxies (PORTICO_TRUSTED_PROXIES)"
            )
        if self.http_port == self.port:
            raise SettingError(
                f"{named('http_port', sources)} must differ from {named('port', sources)}"
            )
        for one, other in permutations(("tls_cert", "tls_key")):
            path: Path | None = getattr(self, one)
            if path is None:
                continue
            if getattr(self, other) is None:
                raise SettingError(f"{named(one, sources)} needs {other}: set both")
            content(one, path, sources)
