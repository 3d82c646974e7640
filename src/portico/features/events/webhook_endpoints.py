"""The endpoints of webhooks."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec import UNSET, UnsetType

from portico.core.audit import Author
from portico.core.errors import Conflict, Fault, Gone, Invalid, NotFound
from portico.core.events import MOST_WEBHOOKS, Webhook
from portico.features.events import webhooks
from portico.features.events.schemas import (
    Accepted,
    ChangeWebhook,
    CreateWebhook,
    DeliveryItem,
    WebhookItem,
    WebhookWithSecret,
    delivery_item,
    webhook_item,
    webhook_with_secret,
)
from portico.features.events.storage import Deliveries, Webhooks
from portico.features.events.webhooks import Signing
from portico.web.conditions import etag_header, precondition
from portico.web.envelope import Created, Listed, Single, listed
from portico.web.lists import ListQuery, list_reply, start_of
from portico.web.messages import BodyRequest, QueryRequest, Reply, Request, json_reply
from portico.web.reading import sent
from portico.web.routing import BodyRoute, QueryRoute, Route


def _accepted(request: Request, message: str) -> tuple[Author, Reply]:
    """On whose behalf something is accepted, and the reply, which is also that to a repetition."""
    reply = json_reply(202, Accepted(message))
    return request.answering(lambda _: reply), reply


def _values(body: CreateWebhook | ChangeWebhook) -> dict[str, Any]:
    """The body's values for the use cases, with each type once, in order."""
    values = sent(body)
    if "types" in values:
        values["types"] = tuple(dict.fromkeys(values["types"]))
    if "status" in values:
        values["enabled"] = values.pop("status") == "enabled"
    return values


async def _url_faults(request: Request, values: Mapping[str, Any]) -> list[Fault]:
    return webhooks.url_faults(request.environment, values)


async def list_webhooks(request: Request) -> Reply:
    """GET /webhooks."""
    items = [webhook_item(one) for one in reversed(await request.environment[Webhooks].all())]
    return json_reply(200, listed(items, page=1, limit=MOST_WEBHOOKS, total=len(items)))


async def read_webhook(request: Request) -> Reply:
    """GET /webhooks/{id}."""
    webhook = await webhooks.read_webhook(request.environment, request.resource_id)
    return json_reply(200, Single(webhook_item(webhook)))


def _signing(
    request: Request, message: str, webhook: Webhook, secret: str | UnsetType = UNSET
) -> Reply:
    """The reply with a new secret; the one that is kept for replays is made without it."""
    location = ("location", f"{request.environment.addresses.base}/webhooks/{webhook.id}")
    body = Created(webhook_with_secret(webhook, secret), message)
    return json_reply(201, body, location, etag_header(webhook_item(webhook)))


async def create_webhook(request: BodyRequest[CreateWebhook]) -> Reply:
    """POST /webhooks."""
    reply = partial(_signing, request, WebhookWithSecret.message)
    values = _values(request.body)
    made = await webhooks.create_webhook(request.environment, values, request.answering(reply))
    return reply(made.webhook, made.secret)


async def change_webhook(request: BodyRequest[ChangeWebhook]) -> Reply:
    """PATCH /webhooks/{id}."""
    webhook = await webhooks.change_webhook(
        request.environment,
        request.resource_id,
        _values(request.body),
        request.by,
        precondition(request, webhook_item),
    )
    body = webhook_item(webhook)
    return json_reply(200, Single(body), etag_header(body))


async def delete_webhook(request: Request) -> Reply:
    """DELETE /webhooks/{id}."""
    await webhooks.delete_webhook(
        request.environment, request.resource_id, request.by, precondition(request, webhook_item)
    )
    return Reply(204)


async def rotate_secret(request: Request) -> Reply:
    """POST /webhooks/{id}/rotate-secret."""
    message = "Secret rotated. Store the new one now; for 24 hours both sign."
    reply = partial(_signing, request, message)
    made: Signing = await webhooks.rotate_secret(
        request.environment, request.resource_id, request.answering(reply)
    )
    return reply(made.webhook, made.secret)


async def test_webhook(request: Request) -> Reply:
    """POST /webhooks/{id}/test."""
    by, reply = _accepted(request, "A ping is on its way.")
    await webhooks.test_webhook(request.environment, request.resource_id, by)
    return reply


async def list_deliveries(request: QueryRequest[ListQuery]) -> Reply:
    """GET /webhooks/{id}/deliveries."""
    env, query = request.environment, request.query
    webhook = await webhooks.read_webhook(env, request.resource_id)
    start = start_of(request)
    page = await env[Deliveries].page(
        webhook.id, offset=start.offset, limit=query.limit, behind=start.behind
    )
    items = [delivery_item(delivery, webhook) for delivery in page.rows]
    return list_reply(request, f"/webhooks/{webhook.id}/deliveries", start, page, items)


async def redeliver(request: Request) -> Reply:
    """POST /webhooks/{id}/deliveries/{delivery_id}/redeliver."""
    by, reply = _accepted(request, "It will be delivered again.")
    await webhooks.redeliver(request.environment, request.resource_id, request.inner_id, by)
    return reply


ROUTES = (
    Route(
        method="GET",
        path="/webhooks",
        handler=list_webhooks,
        access="admin",
        summary="List webhooks",
        description="All webhooks, newest first.",
        answer=Listed[WebhookItem],
    ),
    BodyRoute(
        method="POST",
        path="/webhooks",
        handler=create_webhook,
        access="admin",
        summary="Create a webhook",
        description=f"At most {MOST_WEBHOOKS} in an environment. A new webhook gets later events"
        " only.",
        status=201,
        body=CreateWebhook,
        further_faults=_url_faults,
        answer=Created[WebhookWithSecret],
        errors=(Conflict, Invalid),
        location=True,
        repeatable=True,
        no_store=True,
    ),
    Route(
        method="GET",
        path="/webhooks/{id}",
        handler=read_webhook,
        access="admin",
        summary="Read a webhook",
        answer=Single[WebhookItem],
    ),
    BodyRoute(
        method="PATCH",
        path="/webhooks/{id}",
        handler=change_webhook,
        access="admin",
        summary="Change a webhook",
        description="`status` disables the webhook, which drops its pending deliveries, or enables"
        " it again; it then gets later events only.",
        body=ChangeWebhook,
        further_faults=_url_faults,
        answer=Single[WebhookItem],
        errors=(NotFound, Invalid),
        conditional=True,
    ),
    Route(
        method="DELETE",
        path="/webhooks/{id}",
        handler=delete_webhook,
        access="admin",
        summary="Delete a webhook",
        status=204,
        conditional=True,
    ),
    Route(
        method="POST",
        path="/webhooks/{id}/rotate-secret",
        handler=rotate_secret,
        access="admin",
        summary="Rotate a webhook's secret",
        description="For 24 hours the previous secret signs too. At most two secrets sign.",
        status=201,
        answer=Created[WebhookWithSecret],
        location=True,
        repeatable=True,
        no_store=True,
    ),
    Route(
        method="POST",
        path="/webhooks/{id}/test",
        handler=test_webhook,
        access="admin",
        summary="Test a webhook",
        description="Sends the webhook an event of type `ping`, once.",
        status=202,
        answer=Accepted,
        errors=(Conflict,),
        repeatable=True,
    ),
    QueryRoute(
        method="GET",
        path="/webhooks/{id}/deliveries",
        handler=list_deliveries,
        access="admin",
        summary="List a webhook's deliveries",
        description="Newest first.",
        query=ListQuery,
        answer=Listed[DeliveryItem],
    ),
    Route(
        method="POST",
        path="/webhooks/{id}/deliveries/{delivery_id}/redeliver",
        handler=redeliver,
        access="admin",
        summary="Deliver an event again",
        description="Creates a new delivery of the same event.",
        status=202,
        answer=Accepted,
        errors=(Conflict, Gone),
        repeatable=True,
    ),
)
