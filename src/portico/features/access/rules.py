"""API keys: their format, what is stored of them, and when they are valid.

A key is `sk_`, its type, `_`, 256 random bits and a CRC-32 of all that, both in base62 of fixed
width. The checksum detects typos and junk without a look-up; it is no protection.
"""

from collections.abc import Callable, Mapping, Sequence
from string import ascii_letters, digits
from typing import Literal, TypeVar, cast
from zlib import crc32

import msgspec

from portico.core.errors import BrokenRule, Fault, Invalid
from portico.core.events import Details, Event, changed_values
from portico.core.networks import covers, network
from portico.core.oauth import Client, spelled
from portico.core.rules import OneOf, Trimmed
from portico.core.scopes import READ_SCOPES, SCOPES, effective
from portico.core.secrets import RANDOM_BYTES, Random
from portico.core.text import counted
from portico.core.times import DAY, moment
from portico.core.words import KEY_TYPES as KEY_TYPES
from portico.core.words import KeyType as KeyType

key_name = Trimmed(1, 100)
key_type = cast(Callable[[str], KeyType], OneOf(KEY_TYPES))
Status = Literal["active", "expired", "revoked"]

REMINDED_AHEAD = 7 * DAY
"""How long before a key expires its owner is reminded, in milliseconds. Keys with a shorter life
get no reminder."""

_ALPHABET = digits + ascii_letters
_BODY_LENGTH = 43  # 62^43 > 2^256
_CHECKSUM_LENGTH = 6  # 62^6 > 2^32
_PREFIX_LENGTH = len("sk_live_")
_KEY_LENGTH = _PREFIX_LENGTH + _BODY_LENGTH + _CHECKSUM_LENGTH
_TYPES_BY_PREFIX = {f"sk_{key_type}_": key_type for key_type in KEY_TYPES}


class ApiKey(msgspec.Struct, frozen=True):
    """An issued key; times are epoch milliseconds.

    Rotation sets `rotated_at`, and `expires_at` to the end of the overlap if that is earlier.
    `scopes` are some of the owner's, None for all; `networks` are those it may be used from, None
    for any. `maker_id` is the account that created it, or what it succeeds, for its owner; None if
    the owner or the operator did.
    """

    id: int
    user_id: int
    name: str
    type: KeyType
    hint: str
    created_at: int
    expires_at: int | None
    last_used_at: int | None
    revoked_at: int | None
    rotated_at: int | None
    scopes: frozenset[str] | None = None
    networks: tuple[str, ...] | None = None
    maker_id: int | None = None

    @property
    def carried(self) -> frozenset[str] | None:
        """The scopes that the key may use; None: all of its owner's."""
        if self.type != "read":
            return self.scopes
        return frozenset(READ_SCOPES) if self.scopes is None else self.scopes & READ_SCOPES


def mint(key_type: KeyType, random: Random) -> str:
    """A new key from 32 random bytes."""
    number = int.from_bytes(random(RANDOM_BYTES))
    checked = f"sk_{key_type}_{_base62(number, _BODY_LENGTH)}"
    return checked + _checksum(checked)


def key_type_of(key: str) -> KeyType | None:
    """The type of a well-formed key with the right checksum, else None."""
    if len(key) != _KEY_LENGTH or not key.isascii():
        return None
    key_type = _TYPES_BY_PREFIX.get(key[:_PREFIX_LENGTH])
    checked, checksum = key[:-_CHECKSUM_LENGTH], key[-_CHECKSUM_LENGTH:]
    if not checked[_PREFIX_LENGTH:].isalnum() or checksum != _checksum(checked):
        return None
    return key_type


def hint(key: str) -> str:
    """The part of a key that its owner may still see: the prefix and the last four characters."""
    return f"{key[:_PREFIX_LENGTH]}…{key[-4:]}"


def usable(key: ApiKey, now_ms: int) -> bool:
    """Whether a key is valid at this time: neither revoked nor expired."""
    if key.revoked_at is not None:
        return False
    return key.expires_at is None or now_ms < key.expires_at


def status(key: ApiKey, now_ms: int) -> Status:
    """The status of a key at this time."""
    if usable(key, now_ms):
        return "active"
    return "expired" if key.revoked_at is None else "revoked"


def _checksum(checked: str) -> str:
    return _base62(crc32(checked.encode()), _CHECKSUM_LENGTH)


def _base62(number: int, width: int) -> str:
    characters = []
    for _ in range(width):
        number, digit = divmod(number, 62)
        characters.append(_ALPHABET[digit])
    return "".join(reversed(characters))


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


class _OfKey(Event, frozen=True):
    target = "api_key"

    key: ApiKey

    @property
    def target_id(self) -> int:
        return self.key.id


class KeyCreated(_OfKey, frozen=True):
    """An API key was created."""

    action = "api_key.created"

    @property
    def details(self) -> Details:
        """Its name, type, owner, scopes and networks."""
        key = self.key
        details: Details = {"name": key.name, "type": key.type, "user_id": key.user_id}
        if key.scopes is not None:
            details["scopes"] = sorted(key.scopes)
        if key.networks is not None:
            details["networks"] = list(key.networks)
        return details


class KeyRotated(_OfKey, frozen=True):
    """An API key was replaced by a successor."""

    action = "api_key.rotated"

    successor: ApiKey
    previous_end: int
    """When the rotated key expires, in epoch milliseconds."""

    @property
    def details(self) -> Details:
        """Its name and its successor."""
        return {"name": self.key.name, "successor": self.successor.id}


class KeyRevoked(_OfKey, frozen=True):
    """An API key was revoked; `key` is its new state."""

    action = "api_key.revoked"

    @property
    def details(self) -> Details:
        """Its name and owner."""
        return {"name": self.key.name, "user_id": self.key.user_id}


class _OfClient(Event, frozen=True):
    target = "client"

    client: Client

    @property
    def target_id(self) -> str:
        return self.client.client_id

    @property
    def details(self) -> Details:
        """Its name."""
        return {"name": self.client.name}


class _WholeClient(_OfClient, frozen=True):
    @property
    def details(self) -> Details:
        """What it is registered with, and its owner."""
        client = self.client
        return {
            "name": client.name,
            "redirect_uris": list(client.redirect_uris),
            "scopes": spelled(client.scopes),
            "public": client.public,
            "user_id": client.user_id,
        }


class ClientCreated(_WholeClient, frozen=True):
    """An OAuth client was registered."""

    action = "client.created"


_CHANGEABLE = (
    *("name", "redirect_uris", "scopes", "first_party", "grants", "service"),
    *("post_logout_redirect_uris", "backchannel_logout_uri", "jwks", "jwks_uri"),
)


class ClientChanged(_OfClient, frozen=True):
    """The registration of an OAuth client changed."""

    action = "client.updated"

    before: Client

    @property
    def details(self) -> Details:
        """The old and the new values."""
        details = changed_values(self.before, self.client, _CHANGEABLE)
        if "scopes" in details:
            before, now = self.before.scopes, self.client.scopes
            details["scopes"] = {"from": spelled(before), "to": spelled(now)}
        return details


class ClientSecretRenewed(_OfClient, frozen=True):
    """An OAuth client got a new secret."""

    action = "client.secret_renewed"


class ClientDeleted(_WholeClient, frozen=True):
    """An OAuth client was deleted, with all grants to it."""

    action = "client.deleted"


class ClientRefused(_OfClient, frozen=True):
    """A request claimed to be from an OAuth client and failed to authenticate."""

    action = "client.refused"


class TokenExchanged(_OfClient, frozen=True):
    """An OAuth client exchanged a user's token for one of its own."""

    action = "client.token_exchanged"

    user_id: int
    of: str | None
    """The client that the user's token was issued to."""
    resource: str
    scopes: frozenset[str]

    @property
    def details(self) -> Details:
        """Whose token, of which client, and for what."""
        return {
            "user_id": self.user_id,
            "of": self.of,
            "resource": self.resource,
            "scopes": spelled(self.scopes),
        }


class ClientAccessEnded(_OfClient, frozen=True):
    """Everything that a user had allowed an OAuth client was ended."""

    action = "client.access_ended"

    user_id: int
    grants: int

    @property
    def details(self) -> Details:
        """Its name, whose access it lost, and how many grants were revoked."""
        return {"name": self.client.name, "user_id": self.user_id, "grants": self.grants}


class ClientAuthorized(_OfClient, frozen=True):
    """A user allowed an OAuth client to act for them."""

    action = "client.authorized"

    scopes: frozenset[str]

    @property
    def details(self) -> Details:
        """The granted scopes."""
        return {"scopes": spelled(self.scopes)}


class ClientDenied(_OfClient, frozen=True):
    """A user denied what an OAuth client on a device asked for."""

    action = "client.denied"
