"""API keys: list, create, rotate, revoke. Admins see those of all users too."""

from typing import Any

import msgspec

from portico.core.errors import Conflict, NotFound
from portico.core.rules import OneOf
from portico.core.scopes import SCOPES, of_role
from portico.core.text import counted
from portico.core.times import DAY, parse_duration
from portico.data.listing import Page
from portico.features.access.api_keys import Rotation, create_key, renew_key, revoke_key
from portico.features.access.rules import (
    KEY_TYPES,
    ApiKey,
    Bounds,
    KeyType,
    NewKey,
    agreed,
    key_name,
    usable,
)
from portico.features.access.storage import ApiKeys, OwnedKey
from portico.features.people.storage import Users
from portico.features.signin.pages.step_up import fresh
from portico.web.messages import Reply
from portico.web.pages.html import in_order, named, scope_words
from portico.web.pages.paging import PER_PAGE, back_to_list, list_of, numbered, offset_of, page_of
from portico.web.pages.sent_once import fresh_key, shown_once
from portico.web.pages.site import PageRoute, Visit, addressed

_TYPES: dict[KeyType, tuple[str, str]] = {
    "live": ("Read and write", "Everything you can do."),
    "read": ("Read only", "GET requests only."),
    "test": ("Test", "Everything you can do, in the sandbox only."),
}
_EXPIRIES = {30: "In 30 days", 90: "In 90 days", 365: "In a year"}
_MAX_SEARCH = 254
_FILTERS = ("search", "unused", "page")
_UNUSED = {
    "ever": ("Never used", None),
    "30": ("Not in the last 30 days", 30),
    "90": ("Not in the last 90 days", 90),
}


def shown(key: ApiKey, now: int) -> dict[str, Any]:
    """A key as pages show it: its fields, its state in words, and since or until when."""
    ended = not usable(key, now)
    state, colour, until = "Active", "good", key.expires_at
    if key.revoked_at is not None:
        state, colour, until = "Revoked", "", key.revoked_at
    elif ended:
        state, colour = "Expired", ""
    elif until is not None:
        state = "Active until"
        if key.rotated_at is not None:
            colour = "warn"
    return {
        **msgspec.structs.asdict(key),
        "state": state,
        "colour": colour,
        "until": until,
        "ended": ended,
        "rotatable": key.rotated_at is None,
        "bounds": _bounds(key),
    }


def _bounds(key: ApiKey) -> str:
    """The restrictions of a key, in words; empty if it has none."""
    scopes = ", ".join(in_order(key.scopes)) if key.scopes else ""
    networks = f"from {', '.join(key.networks)}" if key.networks else ""
    return "; ".join(filter(None, (scopes, networks)))


def _expiries(visit: Visit) -> list[tuple[str, str]]:
    """The choices of a key's lifetime, and their words."""
    most = visit.env.settings.max_key_days
    if most is None:
        return [*((f"{days}d", words) for days, words in _EXPIRIES.items()), ("never", "Never")]
    shorter = [(f"{days}d", words) for days, words in _EXPIRIES.items() if days < most]
    return [*shorter, (f"{most}d", f"In {counted(most, 'day')} (maximum)")]


def _scopes(visit: Visit) -> list[tuple[str, str, str]]:
    """The scopes that the account has."""
    has = of_role(visit.user.role)
    return [(scope, scope, scope_words(scope)) for scope in SCOPES if scope in has]


def _types(visit: Visit) -> list[tuple[KeyType, str, str]]:
    """The key types of the environment that is shown."""
    return [(name, *_TYPES[name]) for name in KEY_TYPES if name not in visit.env.foreign]


async def show(visit: Visit) -> Reply:
    """GET /keys: the newest first, expired and revoked ones last."""
    owner, now = await visit.owner(), visit.request.now

    async def on(page: int) -> Page[ApiKey]:
        if owner is None:
            return Page([], 0)
        return await visit.env[ApiKeys].usable_first(
            owner.id, now, offset=offset_of(page), limit=PER_PAGE
        )

    page, found = await page_of(visit, on)
    return visit.page(
        "keys.html",
        "API keys",
        keys=[shown(key, now) for key in found.rows],
        **numbered(page, found.total),
    )


async def show_new(visit: Visit) -> Reply:
    return visit.page(
        "key_new.html",
        "New key",
        types=_types(visit),
        scopes=_scopes(visit),
        expiries=_expiries(visit),
        once=fresh_key(visit),
    )


def _wanted(visit: Visit) -> NewKey:
    """The key that the form asks for. Raises `Invalid` with every fault."""
    env, form, now = visit.env, visit.form, visit.request.now
    form.read("name", key_name)
    form.read("type", OneOf(tuple(name for name, *_ in _types(visit))))
    expiry = form.read("expiry", OneOf(tuple(name for name, _ in _expiries(visit))))
    new = NewKey(
        name=form.text("name"),
        type=form.text("type"),
        scopes=form.several("scopes", [name for name, *_ in _scopes(visit)]) or None,
        networks=form.text("networks").split() or None,
        expires_at=now + parse_duration(expiry) if expiry and expiry != "never" else None,
    )
    role, most = visit.user.role, env.settings.max_key_days
    # The change checks it too. Here it is reported together with the form's other faults.
    agreed(new, Bounds(role=role, elsewhere=env.foreign, now=now, most_days=most))
    form.check()
    return new


async def create(visit: Visit) -> Reply:
    new = _wanted(visit)
    owner = await visit.made_owner()
    return await shown_once(
        visit,
        lambda by: create_key(visit.env, owner.id, new, by),
        lambda made: _page(visit, "Your new key", made.key, made.secret),
    )


def _page(
    visit: Visit, title: str, key: ApiKey, secret: str, previous_end: int | None = None
) -> Reply:
    return visit.page(
        "key_made.html",
        title,
        key=key,
        secret=secret,
        previous_end=previous_end,
        bounds=_bounds(key),
    )


async def _own(visit: Visit) -> ApiKey:
    """The key that the form or the query names. Raises `NotFound` for another user's."""
    key = await visit.env[ApiKeys].get(visit.sent_id())
    owner = await visit.owner()
    if key is None or owner is None or key.user_id != owner.id:
        raise NotFound("You have no key with this ID.")
    return key


async def show_one(visit: Visit) -> Reply:
    """GET /keys/{id}: one's own key or, for admins, anybody's."""
    key, owner = await visit.env[ApiKeys].get(visit.request.resource_id), await visit.owner()
    is_own = key is not None and owner is not None and key.user_id == owner.id
    if key is None or not (is_own or "admin" in visit.request.caller.scopes):
        raise NotFound("You have no key with this ID.")
    return visit.page(
        "key.html",
        named(key.name, key.id),
        key=shown(key, visit.request.now),
        access=_TYPES[key.type][0],
        owner=None if is_own else await visit.env[Users].get(key.user_id),
    )


async def ask_rotate(visit: Visit) -> Reply:
    key = await _own(visit)
    return visit.asks(
        f"Rotate {named(key.name, key.id)}?",
        "A new key replaces it. The old one works for 24 more hours, so that you have time to"
        " switch.",
        words="Rotate key",
        action="/keys/rotate",
        back=("/keys", "API keys"),
        id=key.id,
        once=fresh_key(visit),
    )


async def rotate(visit: Visit) -> Reply:
    key = await _own(visit)
    if not usable(key, visit.request.now):
        raise Conflict("This key has expired or was revoked. Create a new key instead.")

    def made(rotation: Rotation) -> Reply:
        title, end = "The key was rotated", rotation.previous_end
        return _page(visit, title, rotation.successor, rotation.key, end)

    return await shown_once(visit, lambda by: renew_key(visit.env, key.id, by), made)


def _asks_revoke(visit: Visit, key: ApiKey, path: str, name: str) -> Reply:
    return visit.asks(
        f"Revoke {named(key.name, key.id)}?",
        f"Everything that uses {key.hint} stops working immediately. This cannot be undone.",
        words="Revoke key",
        danger=True,
        action=f"{path}/revoke",
        back=(addressed(path, back_to_list(visit, _FILTERS)), name),
        id=key.id,
        **list_of(visit, _FILTERS),
    )


async def ask_revoke(visit: Visit) -> Reply:
    return _asks_revoke(visit, await _own(visit), "/keys", "API keys")


async def revoke(visit: Visit) -> Reply:
    key = await _own(visit)
    await revoke_key(visit.env, key.id, await visit.by())
    return visit.go("/keys", done="key-revoked")


def _unused_since(visit: Visit) -> int | None:
    """The time since which the wanted keys were not used; None for any."""
    if visit.sent("unused") not in _UNUSED:
        return None
    _, days = _UNUSED[visit.sent("unused")]
    return 1 if days is None else visit.request.now - days * DAY


async def show_all(visit: Visit) -> Reply:
    """GET /keys/all: all users' keys, for admins. A page number beyond the last gives the last
    page."""
    search = visit.sent("search").strip()[:_MAX_SEARCH]

    async def on(page: int) -> Page[OwnedKey]:
        return await visit.env[ApiKeys].search(
            search,
            unused_since=_unused_since(visit),
            offset=offset_of(page),
            limit=PER_PAGE,
        )

    page, found = await page_of(visit, on)
    unused = visit.sent("unused")
    return visit.page(
        "keys_all.html",
        "All API keys",
        keys=[(shown(one.key, visit.request.now), one) for one in found.rows],
        total=found.total,
        **numbered(page, found.total, search=search, unused=unused),
        search=search,
        unused=unused,
        unused_choices={name: words for name, (words, _) in _UNUSED.items()},
    )


async def _any(visit: Visit) -> ApiKey:
    """The key that the form or the query names, of any user. Raises `NotFound`."""
    key = await visit.env[ApiKeys].get(visit.sent_id())
    if key is None:
        raise NotFound("There is no key with this ID.")
    return key


async def ask_revoke_any(visit: Visit) -> Reply:
    key = await _any(visit)
    return _asks_revoke(visit, key, "/keys/all", "All API keys")


async def revoke_any(visit: Visit) -> Reply:
    key = await _any(visit)
    await revoke_key(visit.env, key.id, await visit.by())
    return visit.go("/keys/all", **back_to_list(visit, _FILTERS), done="key-revoked")


PAGES = (
    PageRoute("GET", "/keys/all", show_all, "admin"),
    PageRoute("GET", "/keys/all/revoke", ask_revoke_any, "admin"),
    PageRoute("POST", "/keys/all/revoke", revoke_any, "admin"),
    PageRoute("GET", "/keys", show),
    PageRoute("GET", "/keys/{id}", show_one),
    PageRoute("GET", "/keys/new", show_new),
    PageRoute("POST", "/keys/new", fresh(create)),
    PageRoute("GET", "/keys/rotate", ask_rotate),
    PageRoute("POST", "/keys/rotate", fresh(rotate)),
    PageRoute("GET", "/keys/revoke", ask_revoke),
    PageRoute("POST", "/keys/revoke", revoke),
)
