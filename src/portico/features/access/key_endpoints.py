"""The endpoints of API keys."""

from functools import partial

from msgspec import UNSET, UnsetType

from portico.core.caller import Principal
from portico.core.errors import Conflict, Invalid
from portico.features.access.api_keys import (
    CreatedKey,
    Rotation,
    create_key,
    list_keys,
    permit,
    permit_rotation,
    read_key,
    revoke_key,
)
from portico.features.access.api_keys import rotate_key as rotate
from portico.features.access.rules import NewKey
from portico.features.access.schemas import (
    ROTATED,
    ApiKeyItem,
    ApiKeyWithSecret,
    CreateApiKey,
    ListKeys,
    RotatedKey,
    api_key_item,
    api_key_with_secret,
    rotated_key,
)
from portico.web.conditions import etag_header, precondition
from portico.web.envelope import Created, Listed, Single
from portico.web.lists import list_reply, start_of
from portico.web.messages import BodyRequest, QueryRequest, Reply, Request, json_reply
from portico.web.routing import Access, BodyRoute, QueryRoute, Route


async def list_api_keys(request: QueryRequest[ListKeys]) -> Reply:
    query = request.query
    user_id = query.user_id or request.caller.user_id
    start = start_of(request)
    page = await list_keys(
        request.environment,
        user_id,
        request.by,
        offset=start.offset,
        limit=query.limit,
        behind=start.behind,
    )
    items = [api_key_item(key, request.now) for key in page.rows]
    return list_reply(request, "/api-keys", start, page, items)


async def read_api_key(request: Request) -> Reply:
    key = await read_key(request.environment, request.resource_id, request.by)
    return json_reply(200, Single(api_key_item(key, request.now)))


async def create_api_key(request: BodyRequest[CreateApiKey]) -> Reply:
    env, body = request.environment, request.body

    def reply(made: CreatedKey, secret: str | UnsetType = UNSET) -> Reply:
        location = ("location", f"{env.addresses.base}/api-keys/{made.key.id}")
        data = api_key_with_secret(made.key, secret, request.now)
        tag = etag_header(api_key_item(made.key, request.now))
        return json_reply(201, Created(data, data.message), location, tag)

    new = NewKey(**{name: getattr(body, name) for name in NewKey.__struct_fields__})
    user_id = request.caller.user_id if body.user_id is None else body.user_id
    made = await create_key(env, user_id, new, request.answering(reply))
    return reply(made, made.secret)


async def revoke_api_key(request: Request) -> Reply:
    shown = partial(api_key_item, now=request.now)
    await revoke_key(
        request.environment, request.resource_id, request.by, precondition(request, shown)
    )
    return Reply(204)


async def rotate_key(request: Request) -> Reply:
    env, previous = request.environment, request.caller.credential_id

    def reply(rotation: Rotation, key: str | UnsetType = UNSET) -> Reply:
        location = ("location", f"{env.addresses.base}/api-keys/{rotation.successor.id}")
        body = rotated_key(rotation.successor, key, previous, rotation.previous_end)
        message = ROTATED.format(body.previous_key.expires_at)
        tag = etag_header(api_key_item(rotation.successor, request.now))
        return json_reply(201, Created(body, message), location, tag)

    rotation = await rotate(env, request.caller, request.answering(reply))
    return reply(rotation, rotation.key)


def _permit_owner(caller: Principal, body: CreateApiKey) -> None:
    if body.user_id is not None:
        permit(caller, body.user_id)


ROUTES = (
    QueryRoute(
        method="GET",
        path="/api-keys",
        handler=list_api_keys,
        access=Access.WHOLE_CALLER,
        summary="List API keys",
        description="The caller's own keys or another user's, newest first, including expired and"
        " revoked ones.",
        query=ListKeys,
        answer=Listed[ApiKeyItem],
    ),
    BodyRoute(
        method="POST",
        path="/api-keys",
        handler=create_api_key,
        permit_body=_permit_owner,
        access=Access.WHOLE_CALLER,
        summary="Create an API key",
        description="Omitted bounds are as wide as permitted. A key cannot create one that may do"
        " more than itself, be used from other networks, or outlive it.",
        status=201,
        body=CreateApiKey,
        answer=Created[ApiKeyWithSecret],
        errors=(Invalid,),
        location=True,
        repeatable=True,
        no_store=True,
    ),
    Route(
        method="GET",
        path="/api-keys/{id}",
        handler=read_api_key,
        access=Access.WHOLE_CALLER,
        summary="Read an API key",
        description="Everything except the key itself.",
        answer=Single[ApiKeyItem],
    ),
    Route(
        method="DELETE",
        path="/api-keys/{id}",
        handler=revoke_api_key,
        access=Access.WHOLE_CALLER,
        summary="Revoke an API key",
        description="The key is refused from the next request on, permanently, and stays in the"
        " list. With `If-Match`, a use in the meantime counts as a change.",
        status=204,
        conditional=True,
    ),
    Route(
        method="POST",
        path="/api-keys/rotate",
        handler=rotate_key,
        access=Access.ANY_CALLER,
        permit=lambda caller, _: permit_rotation(caller),
        summary="Rotate the calling API key",
        description="The successor keeps name, type, owner, scopes, networks and expiry. The old"
        " key works for another 24 hours, or until its own expiry if that is earlier. Needs an API"
        " key that may POST, whatever its scopes; one that begins with `sk_read_` may not.",
        status=201,
        answer=Created[RotatedKey],
        errors=(Conflict,),
        location=True,
        no_store=True,
        repeatable=True,
    ),
)
