"""Limits of sizes, counts and rates."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from portico.domain.limits import Plan
from portico.domain.services import NOTHING, Services
from portico.settings.declaring import Group, declared
from portico.settings.values import whole


@dataclass(frozen=True, kw_only=True, repr=False)
class Limits(Group):
    """How much clients may send, and how much the server counts and keeps for them."""

    title = "Limits"

    body_limit: Annotated[
        int,
        declared("1048576", whole(1024, 2**30), "largest request body, in bytes", kind=int),
    ]
    count_limit: Annotated[
        int | None,
        declared(
            None,
            whole(100, 10**9),
            "most matches of a filter or search that are counted; beyond it `total_is_exact` is"
            " false; unset: all",
            kind=int,
        ),
    ]
    kept_bytes: Annotated[
        int,
        declared(
            "33554432",
            whole(0, 2**36),
            "memory of each worker, in bytes, for pages of products that are kept while valid;"
            " `0`: none",
            kind=int,
        ),
    ]
    connections_per_address: Annotated[
        int,
        declared(
            "512",
            whole(1, 2**20),
            "most connections of one address to a worker, except trusted proxies; never more than"
            " a quarter of all",
            kind=int,
        ),
    ]
    plans: Mapping[str, Plan]
    declared: Services = NOTHING
    """The team's services, named limits and roles."""
