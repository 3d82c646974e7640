"""Where the audit log's ids lead: to the pages of what is still there."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

import msgspec

from portico.domain.audit import Entry
from portico.pages.site import Visit

Named = tuple[str, str]
"""A kind and an id, as `Entry.target` and `Entry.target_id`."""

IN_DETAILS = {"user_id": "user", "successor": "api_key"}
"""Members of an entry's details that are ids, and of what."""


async def pages_of(visit: Visit, entries: Iterable[Entry]) -> Mapping[Named, str]:
    """The page of each user, product and so on that these entries name, where it has one."""
    asked: dict[str, set[str]] = {}
    for entry in entries:
        for kind, named in _named(entry):
            asked.setdefault(kind, set()).add(named)
    found = {}
    for kind, ids in asked.items():
        if kind in _PAGES:
            pages = await _PAGES[kind](visit, ids)
            found.update({(kind, named): path for named, path in pages.items()})
    return found


def _named(entry: Entry) -> Iterator[Named]:
    if entry.user_id is not None:
        yield "user", str(entry.user_id)
    if entry.credential_id is not None:
        yield entry.credential, str(entry.credential_id)
    if entry.target is not None and entry.target_id is not None:
        yield entry.target, entry.target_id
    for name, value in msgspec.json.decode(entry.details).items():
        if name in IN_DETAILS and value is not None:
            yield IN_DETAILS[name], str(value)


async def _users(visit: Visit, ids: set[str]) -> dict[str, str]:
    if visit.env is not visit.site.accounts.environment:
        return {}  # a mirror has no page
    known = await visit.env.users.standing([int(one) for one in ids])
    return {str(one): f"{visit.site.home}/users/{one}" for one in known}


async def _products(visit: Visit, ids: set[str]) -> dict[str, str]:
    known = await visit.env.products.several({int(one) for one in ids})
    return {str(one): f"{visit.site.base}/products/{one}" for one in known}


async def _keys(visit: Visit, ids: set[str]) -> dict[str, str]:
    return {one: f"{visit.site.base}/keys/all?id={one}" for one in ids}


async def _clients(visit: Visit, ids: set[str]) -> dict[str, str]:
    known = [await visit.env.clients.by_client_id(one) for one in ids]
    return {one.client_id: f"{visit.site.base}/clients/{one.id}" for one in known if one}


async def _webhooks(visit: Visit, ids: set[str]) -> dict[str, str]:
    known = {str(one.id) for one in await visit.env.webhooks.all()}
    return {one: f"{visit.site.base}/webhooks/{one}" for one in ids & known}


async def _invitations(visit: Visit, ids: set[str]) -> dict[str, str]:
    return dict.fromkeys(ids, f"{visit.site.base}/users/invitations")


_PAGES: dict[str, Callable[[Visit, set[str]], Awaitable[dict[str, str]]]] = {
    "user": _users,
    "product": _products,
    "api_key": _keys,
    "client": _clients,
    "webhook": _webhooks,
    "invitation": _invitations,
}
