"""The status changes that pages offer as buttons."""

from collections.abc import Callable
from typing import NamedTuple

from portico.domain.errors import Conflict
from portico.domain.products import STATUSES, Product, next_statuses


class Verb(NamedTuple):
    """A status change: its button, its notice and its consequence, for one product and for
    several."""

    name: str
    words: str
    done: str
    status: str
    means: str
    means_for_several: str


_SHOWN = (
    "Makes it active, so that the API lists it.",
    "They become active, so that the API lists them.",
)
PUBLISH = Verb("publish", "Publish", "published", "active", *_SHOWN)
ACTIVATE = Verb("activate", "Activate", "activated", "active", *_SHOWN)
ARCHIVE = Verb(
    "archive", "Archive", "archived", "archived",
    "The API will list it only when asked for archived products. Nothing is deleted.",
    "The API will list them only when asked for archived products. Nothing is deleted.",
)  # fmt: skip
VERBS = {verb.name: verb for verb in (PUBLISH, ACTIVATE, ARCHIVE)}


def _verb(old: str, new: str) -> Verb:
    """The name of the change from one status to another."""
    if new == "archived":
        return ARCHIVE
    return PUBLISH if old == "draft" else ACTIVATE


_FROM = {
    verb: [old for old in STATUSES for new in next_statuses(old) if _verb(old, new) is verb]
    for verb in VERBS.values()
}


def verbs_for(status: str) -> list[Verb]:
    """The status changes that a product with this status allows."""
    return [verb for verb in VERBS.values() if status in _FROM[verb]]


def allows(status: str, verb: Verb) -> bool:
    """Whether a product with this status allows the change, or has had it."""
    return status == verb.status or status in _FROM[verb]


def others_for(status: str) -> str:
    """The changes that a product with this status allows, in words."""
    return " or ".join(one.words for one in verbs_for(status))


def check_of(verb: Verb) -> Callable[[Product], None]:
    """A check that raises `Conflict` if the status, changed meanwhile, allows no such change."""

    def check(product: Product) -> None:
        if not allows(product.status, verb):
            raise Conflict(f"It is {product.status}. Use {others_for(product.status)} instead.")

    return check
