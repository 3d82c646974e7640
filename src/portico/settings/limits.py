"""How much of something there may be."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from portico.domain.limits import Plan
from portico.settings.declaring import Group, declared
from portico.settings.values import whole


@dataclass(frozen=True, kw_only=True, repr=False)
class Limits(Group):
    """What a client may send, and how often."""

    body_limit: Annotated[
        int,
        declared("1048576", whole(1024, 2**30), "largest request body, in bytes", kind=int),
    ]
    connections_per_address: Annotated[
        int,
        declared(
            "512",
            whole(1, 2**20),
            "most connections of one address to a worker, trusted proxies apart; never more than"
            " a quarter of all",
            kind=int,
        ),
    ]
    plans: Mapping[str, Plan]
