"""Events and webhooks."""

from dataclasses import dataclass
from typing import Annotated

from portico.domain.networks import Network
from portico.settings.declaring import Group, declared
from portico.settings.values import networks, whole


@dataclass(frozen=True, kw_only=True, repr=False)
class Events(Group):
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
            kind=int,
        ),
    ]
    webhooks_allow: Annotated[
        tuple[Network, ...],
        declared(
            "",
            networks,
            "addresses or networks to which webhooks may lead although they are not public, also"
            " over `http`",
            kind=list,
        ),
    ]
