"""The rules for a new API key. All faults are reported at once."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, cast

import msgspec

from portico.domain.api_keys import KeyType, key_name, key_type
from portico.domain.errors import BrokenRule, Fault, Invalid
from portico.domain.networks import covers, network
from portico.domain.rules import OneOf
from portico.domain.scopes import READ_SCOPES, SCOPES, effective
from portico.domain.text import counted
from portico.domain.times import DAY, moment

T = TypeVar("T")
R = TypeVar("R")

MOST_NETWORKS = 100

scope = OneOf(SCOPES)


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """A requested key, unchecked. None means as wide as permitted.

    `expires_at` is a time in RFC 3339, or epoch milliseconds.
    """

    name: str
    type: str
    scopes: Sequence[str] | None = None
    networks: Sequence[str] | None = None
    expires_at: str | int | None = None


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of a new key.

    `role` is its owner's, None if there is no such user. `elsewhere` has the types that are created
    at another address, with that address. `carried` (scopes), `networks` and `ends_at` are those of
    the credential that creates it, None if it has no such bound. Times are epoch milliseconds.
    """

    role: str | None
    elsewhere: Mapping[str, str]
    now: int
    most_days: int | None
    carried: frozenset[str] | None = None
    networks: Sequence[str] | None = None
    ends_at: int | None = None


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """A key's values in the form that is stored."""

    name: str
    type: KeyType
    scopes: frozenset[str] | None
    networks: tuple[str, ...] | None
    expires_at: int | None


def latest_end(end: int | None, now: int, most_days: int | None) -> int | None:
    """When a key expires: at `end` if there is one, but after `most_days` at the latest."""
    if most_days is None:
        return end
    latest = now + most_days * DAY
    return latest if end is None else min(end, latest)


def agreed(new: NewKey, bounds: Bounds) -> Terms:
    """The values of a new key. Those left open get the bounds of the credential that creates it.
    Raises `Invalid` with every fault."""
    checker = _Checker(new, bounds)
    terms = Terms(
        name=checker.apply("name", key_name, new.name),
        type=checker.type(),
        scopes=checker.scopes(),
        networks=checker.networks(),
        expires_at=checker.end(),
    )
    if bounds.role is None:
        checker.fault("user_id", "must be a user's; there is no user with this id")
    if checker.faults:
        raise Invalid("The key cannot be created with these values.", checker.faults)
    return terms


class _Checker:
    """Checks each field of a new key. The result for a faulty field must not be used."""

    def __init__(self, new: NewKey, bounds: Bounds) -> None:
        self._new = new
        self._bounds = bounds
        self.faults: list[Fault] = []

    def fault(self, field: str, message: str) -> None:
        self.faults.append(Fault(field, message))

    def apply(self, field: str, rule: Callable[[T], R], value: T) -> R:
        try:
            return rule(value)
        except BrokenRule as error:
            self.fault(field, str(error))
            return cast(R, None)

    def type(self) -> KeyType:
        wanted = self._new.type
        if where := self._bounds.elsewhere.get(wanted):
            self.fault("type", f"must be another here; {wanted} keys are created at {where}")
            return cast(KeyType, None)
        return self.apply("type", key_type, wanted)

    def scopes(self) -> frozenset[str] | None:
        carried, wanted = self._bounds.carried, self._new.scopes
        type_carries = frozenset(READ_SCOPES if self._new.type == "read" else SCOPES)
        if wanted is None:
            return None if carried is None else carried & type_carries
        if self._items("scopes", scope, wanted, len(SCOPES)) and self._bounds.role is not None:
            may = effective(self._bounds.role, carried) & type_carries
            if beyond := [one for one in SCOPES if one in wanted and one not in may]:
                has = ", ".join(one for one in SCOPES if one in may)
                self.fault("scopes", f"must be some of {has}, not {', '.join(beyond)}")
        return frozenset(wanted)

    def networks(self) -> tuple[str, ...] | None:
        within, wanted = self._bounds.networks, self._new.networks
        if wanted is None:
            return None if within is None else tuple(within)
        found = self._items("networks", network, wanted, MOST_NETWORKS)
        for number, one in enumerate(found):
            if within is not None and not covers(within, one):
                fault = "must be within the networks of the key that creates it"
                self.fault(f"networks.{number}", fault)
        return tuple(dict.fromkeys(found))

    def end(self) -> int | None:
        new, bounds = self._new, self._bounds
        end = new.expires_at
        if end is None:
            return latest_end(bounds.ends_at, bounds.now, bounds.most_days)
        if isinstance(end, str):
            end = self.apply("expires_at", moment, end)
            if end is None:
                return None
        if end <= bounds.now:
            self.fault("expires_at", "must be in the future")
        elif (most := bounds.most_days) is not None and latest_end(end, bounds.now, most) != end:
            self.fault("expires_at", f"must be at most {counted(most, 'day')} from now")
        elif bounds.ends_at is not None and end > bounds.ends_at:
            self.fault("expires_at", "must not be after the expiry of the key that creates it")
        return end

    def _items(
        self, field: str, rule: Callable[[str], str], values: Sequence[str], most: int
    ) -> list[str]:
        """The values as returned by the rule; empty if any is faulty."""
        before = len(self.faults)
        if not values:
            self.fault(field, "must have at least one entry, or be left out for no bound")
        elif len(values) > most:
            self.fault(field, f"must have at most {most} entries")
        else:
            found = [self.apply(f"{field}.{at}", rule, one) for at, one in enumerate(values)]
            if len(self.faults) == before:
                return found
        return []
