"""Types of events, as pages offer them to be chosen."""

from collections.abc import Iterable
from itertools import groupby

from portico.domain.resources import RESOURCES

_TITLES = {kind.path: kind.title for kind in RESOURCES}


def by_noun(types: Iterable[str]) -> list[tuple[str, list[str]]]:
    """The choices among types of events: for each kind of resource its title, all of a noun
    (`user.*`) where it has several types, and each type."""
    groups: dict[str, list[str]] = {}
    for noun, names in groupby(types, lambda name: name.partition(".")[0]):
        listed = list(names)
        every = [f"{noun}.*"] if len(listed) > 1 else []
        groups.setdefault(_title(noun), []).extend([*every, *listed])
    return list(groups.items())


def _title(noun: str) -> str:
    path = noun.replace("_", "-")
    return _TITLES.get(path) or _TITLES.get(f"{path}s") or noun.capitalize()
