"""The pages of the resources that ids name, as far as they still exist."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

from portico.features.access.storage import ApiKeys, Clients
from portico.features.catalogue.storage import Products
from portico.features.events.storage import Webhooks
from portico.features.people.storage import Users
from portico.web.pages.site import Visit

Named = tuple[str, str]
"""A kind and an id, as `Entry.target` and `Entry.target_id`."""


async def pages_of(visit: Visit, named: Iterable[Named]) -> Mapping[Named, str]:
    """The path of each named resource's page, if it has one and the caller may see it."""
    asked: dict[str, set[str]] = {}
    for kind, one in named:
        asked.setdefault(kind, set()).add(one)
    found = {}
    for kind, ids in asked.items():
        pages = _PAGES.get(kind)
        if pages is not None and pages.scope in visit.request.caller.scopes:
            paths = await pages.of(visit, ids)
            found.update({(kind, one): path for one, path in paths.items()})
    return found


async def _users(visit: Visit, ids: set[str]) -> dict[str, str]:
    known = await visit.env[Users].statuses([int(one) for one in ids])
    return {str(one): f"{visit.site.base}/users/{one}" for one in known}


async def _products(visit: Visit, ids: set[str]) -> dict[str, str]:
    known = await visit.env[Products].several({int(one) for one in ids})
    return {str(one): f"{visit.site.base}/products/{one}" for one in known}


async def _keys(visit: Visit, ids: set[str]) -> dict[str, str]:
    known = [await visit.env[ApiKeys].get(int(one)) for one in ids]
    return {str(one.id): f"{visit.site.base}/keys/{one.id}" for one in known if one}


async def _clients(visit: Visit, ids: set[str]) -> dict[str, str]:
    known = [await visit.env[Clients].by_client_id(one) for one in ids]
    return {one.client_id: f"{visit.site.base}/clients/{one.id}" for one in known if one}


async def _webhooks(visit: Visit, ids: set[str]) -> dict[str, str]:
    known = {str(one.id) for one in await visit.env[Webhooks].all()}
    return {one: f"{visit.site.base}/webhooks/{one}" for one in ids & known}


async def _invitations(visit: Visit, ids: set[str]) -> dict[str, str]:
    return dict.fromkeys(ids, f"{visit.site.base}/users/invitations")


class _Pages(NamedTuple):
    """The pages of one kind of resource, and the scope needed to see them."""

    scope: str
    of: Callable[[Visit, set[str]], Awaitable[dict[str, str]]]


_PAGES = {
    "user": _Pages("admin", _users),
    "product": _Pages("read:products", _products),
    "api_key": _Pages("admin", _keys),
    "client": _Pages("admin", _clients),
    "webhook": _Pages("admin", _webhooks),
    "invitation": _Pages("admin", _invitations),
}
