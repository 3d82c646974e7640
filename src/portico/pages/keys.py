"""API keys: list, create, rotate, revoke."""

from typing import NamedTuple

from portico.domain.api_keys import KEY_TYPES, ApiKey, KeyType, key_name, usable
from portico.domain.durations import parse_duration
from portico.domain.errors import Conflict, NotFound
from portico.domain.rules import OneOf
from portico.http.messages import Reply
from portico.pages.site import PageRoute, Visit
from portico.pages.step_up import fresh
from portico.services.accounts import give_key
from portico.services.api_keys import renew_key, revoke_key

_TYPES: dict[KeyType, tuple[str, str]] = {
    "live": ("Read and write", "Everything that you may do."),
    "read": ("Read only", "GET requests alone."),
    "test": ("Test", "Everything that you may do, in the sandbox alone."),
}
_EXPIRIES = (
    ("30d", "In 30 days"),
    ("90d", "In 90 days"),
    ("365d", "In a year"),
    ("never", "Never"),
)


class Shown(NamedTuple):
    """A key as a row of the list."""

    id: int
    name: str
    hint: str
    created_at: int
    last_used_at: int | None
    state: str
    colour: str
    until: int | None
    ended: bool
    rotatable: bool


def _shown(key: ApiKey, now: int) -> Shown:
    ended = not usable(key, now)
    state, colour, until = "Active", "good", key.expires_at
    if key.revoked_at is not None:
        state, colour, until, ended = "Revoked", "", key.revoked_at, True
    elif ended:
        state, colour = "Expired", ""
    elif key.rotated_at is not None:
        state, colour = "Rotated, ends", "warn"
    elif until is not None:
        state = "Active until"
    return Shown(
        key.id,
        key.name,
        key.hint,
        key.created_at,
        key.last_used_at,
        state,
        colour,
        until,
        ended,
        key.rotated_at is None,
    )


def _types(visit: Visit) -> list[tuple[KeyType, str, str]]:
    """The types of keys that belong to the environment that is shown."""
    return [(name, *_TYPES[name]) for name in KEY_TYPES if name not in visit.env.foreign]


async def show(visit: Visit) -> Reply:
    """GET /keys: the newest first, those that have ended last."""
    owner = await visit.owner()
    owned = await visit.env.api_keys.of_user(owner.id) if owner else []
    keys = [_shown(one.key, visit.request.now) for one in reversed(owned)]
    return visit.page(
        "keys.html",
        "API keys",
        keys=sorted(keys, key=lambda key: key.ended),
        types=_types(visit),
        expiries=_EXPIRIES,
    )


async def create(visit: Visit) -> Reply:
    """POST /keys."""
    form = visit.form
    name = form.read("name", key_name)
    key_type = form.read("type", OneOf(tuple(name for name, *_ in _types(visit))))
    expiry = form.read("expiry", OneOf(tuple(name for name, _ in _EXPIRIES)))
    form.check()
    expires_at = None
    if expiry != "never":
        expires_at = visit.request.now + parse_duration(expiry)
    key, secret = await give_key(
        visit.site.accounts.environment,
        visit.user,
        name=name,
        key_type=key_type,
        expires_at=expires_at,
        by=visit.request.by,
    )
    return await visit.once(
        visit.page("key_made.html", "Your new key", key=key, secret=secret, previous_end=None)
    )


async def _own(visit: Visit) -> ApiKey:
    """The key that the form or the address names. Raises `NotFound` for another user's."""
    key = await visit.env.api_keys.get(visit.sent_id())
    owner = await visit.owner()
    if key is None or owner is None or key.user_id != owner.id:
        raise NotFound("You have no such key.")
    return key


async def ask_rotate(visit: Visit) -> Reply:
    """GET /keys/rotate."""
    key = await _own(visit)
    return visit.asks(
        f"Rotate {key.name}?",
        "A new key takes its place. The old one works for 24 more hours, so that you can change"
        " over without haste.",
        words="Rotate key",
        action="/keys/rotate",
        back=("/keys", "API keys"),
        id=key.id,
    )


async def rotate(visit: Visit) -> Reply:
    """POST /keys/rotate."""
    key = await _own(visit)
    if not usable(key, visit.request.now):
        raise Conflict("This key has ended: create another.")
    rotation = await renew_key(visit.env, key.id, await visit.by())
    return await visit.once(
        visit.page(
            "key_made.html",
            "The key was rotated",
            key=rotation.successor,
            secret=rotation.key,
            previous_end=rotation.previous_end,
        )
    )


async def ask_revoke(visit: Visit) -> Reply:
    """GET /keys/revoke."""
    key = await _own(visit)
    return visit.asks(
        f"Revoke {key.name}?",
        f"Whatever uses {key.hint} fails from then on. It cannot be undone.",
        words="Revoke key",
        danger=True,
        action="/keys/revoke",
        back=("/keys", "API keys"),
        id=key.id,
    )


async def revoke(visit: Visit) -> Reply:
    """POST /keys/revoke."""
    key = await _own(visit)
    await revoke_key(visit.env, key.id, await visit.by())
    return visit.go("/keys", done="key-revoked")


PAGES = (
    PageRoute("GET", "/keys", show),
    PageRoute("POST", "/keys", fresh(create)),
    PageRoute("GET", "/keys/rotate", ask_rotate),
    PageRoute("POST", "/keys/rotate", fresh(rotate)),
    PageRoute("GET", "/keys/revoke", ask_revoke),
    PageRoute("POST", "/keys/revoke", revoke),
)
