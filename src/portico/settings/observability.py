"""What the operator sees of it."""

from dataclasses import dataclass
from typing import Annotated

from portico.domain.networks import Network
from portico.settings.declaring import Group, declared
from portico.settings.values import networks, one_of, switch


@dataclass(frozen=True, kw_only=True, repr=False)
class Observability(Group):
    """Logs and metrics."""

    metrics_allow: Annotated[
        tuple[Network, ...],
        declared(
            "127.0.0.0/8,::1",
            networks,
            "addresses or networks, comma-separated, that may read `/metrics`",
            kind=list,
        ),
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
