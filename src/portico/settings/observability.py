"""The audit log, metrics, logs and traces."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from portico.domain.networks import Network
from portico.domain.rules import OneOf
from portico.settings.declaring import Group, SettingError, Sources, declared, named
from portico.settings.values import collector, networks, switch, whole


@dataclass(frozen=True, kw_only=True, repr=False)
class Observability(Group):
    """What operators can observe, and how long it is kept."""

    title = "Observability"

    audit_days: Annotated[
        int | None,
        declared(
            None,
            whole(1, 36_500),
            "days after which entries of the audit log are removed, by whole days in UTC; unset:"
            " never",
            kind=int,
        ),
    ]
    audit_archive: Annotated[
        Path | None,
        declared(
            None,
            Path,
            "directory to which a day's entries are exported before they are removed",
        ),
    ]
    metrics_allow: Annotated[
        tuple[Network, ...],
        declared(
            "127.0.0.0/8,::1",
            networks,
            "addresses or networks that may read `/metrics`",
            kind=list,
        ),
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
        bool,
        declared(
            "on",
            switch,
            "one log line for each request, of level `info`",
            kind=bool,
        ),
    ]

    otlp_endpoint: Annotated[
        str | None,
        declared(
            None,
            collector,
            "collector for traces and metrics by OTLP over HTTP, such as `http://127.0.0.1:4318`",
        ),
    ]

    def check(self, sources: Sources) -> None:
        """Checks that an archive comes with a limit."""
        if self.audit_archive is not None and self.audit_days is None:
            raise SettingError(
                f"{named('audit_archive', sources)} needs audit_days, which is not set: set"
                " audit_days (PORTICO_AUDIT_DAYS)"
            )
