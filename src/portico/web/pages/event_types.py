"""Event types as choices in a form."""

from collections.abc import Iterable
from itertools import groupby

from portico.core.resources import RESOURCES


def by_noun(types: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Event types grouped by kind of resource: its title, then all of a noun (`user.*`) if it has
    several types, then each type."""
    groups: dict[str, list[str]] = {}
    for noun, names in groupby(types, lambda name: name.partition(".")[0]):
        listed = list(names)
        every = [f"{noun}.*"] if len(listed) > 1 else []
        groups.setdefault(_title(noun), []).extend([*every, *listed])
    return list(groups.items())


def _title(noun: str) -> str:
    path = noun.replace("_", "-")
    titles = {kind.path: kind.title for kind in RESOURCES}
    return titles.get(path) or titles.get(f"{path}s") or noun.capitalize()
