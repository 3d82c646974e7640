"""The endpoints of OAuth clients."""

from functools import partial
from typing import Any

from msgspec import UNSET, UnsetType

from portico.core.errors import Invalid, NotFound
from portico.features.access import clients
from portico.features.access.clients import Registered, Registration
from portico.features.access.schemas import (
    ChangeOAuthClient,
    CreateOAuthClient,
    ListClients,
    OAuthClientItem,
    OAuthClientWithSecret,
    client_item,
    client_with_secret,
)
from portico.features.access.storage import Clients
from portico.features.people.storage import Users
from portico.web.conditions import etag_header, precondition
from portico.web.envelope import Created, Listed, Single
from portico.web.lists import list_reply, start_of
from portico.web.messages import BodyRequest, QueryRequest, Reply, Request, json_reply
from portico.web.reading import sent
from portico.web.routing import BodyRoute, QueryRoute, Route


async def list_clients(request: QueryRequest[ListClients]) -> Reply:
    start = start_of(request)
    page = await request.environment[Clients].page(
        offset=start.offset, limit=request.query.limit, behind=start.behind
    )
    return list_reply(request, "/clients", start, page, [client_item(one) for one in page.rows])


async def read_client(request: Request) -> Reply:
    client = await clients.read_client(request.environment, request.resource_name)
    return json_reply(200, Single(client_item(client)))


async def create_client(request: BodyRequest[CreateOAuthClient]) -> Reply:
    env, values = request.environment, _values(request.body)
    public = values.pop("public")
    owner = await env[Users].get(request.caller.user_id)
    reply = partial(_shown, request, OAuthClientWithSecret.message)
    made = await clients.register_client(
        env, owner, Registration(**values), public=public, by=request.answering(reply)
    )
    return reply(made, made.secret or UNSET)


async def change_client(request: BodyRequest[ChangeOAuthClient]) -> Reply:
    env, check = request.environment, precondition(request, client_item)
    found = await clients.read_client(env, request.resource_name)
    values = _values(request.body)
    client = await clients.change_client(env, found.id, values, check, by=request.by)
    return json_reply(200, Single(client_item(client)), etag_header(client_item(client)))


async def delete_client(request: Request) -> Reply:
    env, check = request.environment, precondition(request, client_item)
    found = await clients.read_client(env, request.resource_name)
    await clients.delete_client(env, found.id, by=request.by, check=check)
    return Reply(204)


async def rotate_client_secret(request: Request) -> Reply:
    env = request.environment
    found = await clients.read_client(env, request.resource_name)
    reply = partial(_shown, request, "Secret rotated. Store the new one now; the old one is void.")
    made = await clients.renew_secret(env, found.id, by=request.answering(reply))
    return reply(made, made.secret or UNSET)


def _values(body: CreateOAuthClient | ChangeOAuthClient) -> dict[str, Any]:
    """The body's values as a `Registration` has them."""
    values = sent(body)
    if "scopes" in values:
        values["scopes"] = " ".join(values["scopes"])
    if "grants" in values:
        values["grants"] = tuple(dict.fromkeys(values["grants"]))
    return values


def _shown(
    request: Request, message: str, made: Registered, secret: str | UnsetType = UNSET
) -> Reply:
    """The reply with a new secret; the one that is kept for replays is made without it."""
    location = f"{request.environment.addresses.base}/clients/{made.client.client_id}"
    body = Created(client_with_secret(made.client, secret), message)
    tag = etag_header(client_item(made.client))
    return json_reply(201, body, ("location", location), tag)


ROUTES = (
    QueryRoute(
        method="GET",
        path="/clients",
        handler=list_clients,
        access="admin",
        summary="List OAuth clients",
        description="Newest first.",
        query=ListClients,
        answer=Listed[OAuthClientItem],
    ),
    BodyRoute(
        method="POST",
        path="/clients",
        handler=create_client,
        access="admin",
        summary="Register an OAuth client",
        description="It belongs to the caller, whose plan limits its requests.",
        status=201,
        body=CreateOAuthClient,
        answer=Created[OAuthClientWithSecret],
        errors=(Invalid,),
        location=True,
        repeatable=True,
        no_store=True,
    ),
    Route(
        method="GET",
        path="/clients/{id}",
        named=True,
        handler=read_client,
        access="admin",
        summary="Read an OAuth client",
        answer=Single[OAuthClientItem],
    ),
    BodyRoute(
        method="PATCH",
        path="/clients/{id}",
        named=True,
        handler=change_client,
        access="admin",
        summary="Change an OAuth client",
        description="What users granted to it stays, as far as its scopes still allow it.",
        body=ChangeOAuthClient,
        answer=Single[OAuthClientItem],
        errors=(NotFound, Invalid),
        conditional=True,
    ),
    Route(
        method="DELETE",
        path="/clients/{id}",
        named=True,
        handler=delete_client,
        access="admin",
        summary="Delete an OAuth client",
        description="Its access to users' accounts ends at once.",
        status=204,
        conditional=True,
    ),
    Route(
        method="POST",
        path="/clients/{id}/rotate-secret",
        named=True,
        handler=rotate_client_secret,
        access="admin",
        summary="Rotate an OAuth client's secret",
        description="The old secret stops working at once; what users granted stays. A public"
        " client has none (422).",
        status=201,
        answer=Created[OAuthClientWithSecret],
        errors=(Invalid,),
        location=True,
        repeatable=True,
        no_store=True,
    ),
)
