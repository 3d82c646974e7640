"""The JSON shapes of webhooks, deliveries and the audit log."""

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType
from msgspec.structs import asdict

from portico.core.audit import Entry
from portico.core.errors import BrokenRule
from portico.core.events import (
    EVENT_TYPES,
    Delivery,
    Webhook,
    as_shown,
    webhook_description,
    webhook_type,
)
from portico.core.ids import MAX_ID, whole_number
from portico.core.rules import OneOf, Trimmed
from portico.core.text import web_url
from portico.core.words import Format
from portico.features.events.payloads import EventPagination
from portico.web.csv_cells import csv_text
from portico.web.envelope import Identifier, Timestamp, optional_timestamp, timestamp
from portico.web.fields import Items, Text
from portico.web.lists import Limit, UserId
from portico.web.reading import Param

_EXAMPLE_TYPES = ["product.*", "user.created"]


class WebhookItem(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook."""

    id: Identifier
    url: Annotated[str, Meta(examples=["https://example.com/hooks"])]
    types: Annotated[
        list[str],
        Meta(
            description="The types of events: by name, all of a noun (`product.*`, which does not"
            " include `products.imported`), or all (`*`).",
            examples=[_EXAMPLE_TYPES],
        ),
    ]
    description: Annotated[str, Meta(examples=["The shop's cache"])]
    status: Annotated[Literal["enabled", "disabled"], Meta(examples=["enabled"])]
    disabled_reason: Annotated[
        Literal["by hand", "gone", "failing"] | None,
        Meta(
            description="`by hand`: a user disabled it. `gone`: the receiver answered 410."
            " `failing`: no delivery succeeded for five days. Null while enabled.",
            examples=[None],
        ),
    ]
    created_at: Timestamp
    updated_at: Timestamp


class WebhookWithSecret(WebhookItem, frozen=True, kw_only=True):
    """A webhook with a new secret."""

    message: ClassVar[str] = "Webhook created. Store its secret now: it is not shown again."
    secret: (
        Annotated[
            str,
            Meta(
                description="Signs its deliveries. Store it now: it is shown only once, and omitted"
                " when a request with the same `Idempotency-Key` is repeated.",
                examples=["whsec_…"],
            ),
        ]
        | UnsetType
    ) = UNSET


class DeliveryItem(msgspec.Struct, frozen=True, kw_only=True):
    """The delivery of an event to a webhook. Fields with `last_` are about the last attempt."""

    id: Identifier
    event_id: Identifier
    type: Annotated[str, Meta(examples=["product.updated"])]
    status: Literal["pending", "delivered", "failed"]
    attempts: Annotated[int, Meta(ge=0, examples=[1])]
    next_attempt_at: Annotated[Timestamp | None, Meta(description="Null unless it is pending.")]
    last_status: Annotated[
        int | None, Meta(description="The receiver's HTTP status.", examples=[200])
    ]
    last_error: Annotated[
        str | None, Meta(description="Why it failed, for people.", examples=["it answered 500"])
    ]
    last_milliseconds: Annotated[int | None, Meta(examples=[31])]
    created_at: Timestamp


class Accepted(msgspec.Struct, frozen=True):
    """The request was accepted and will be carried out soon."""

    message: Annotated[str, Meta(description="For people.", examples=["A ping is on its way."])]


def _facts(webhook: Webhook) -> dict[str, Any]:
    return {
        "id": webhook.id,
        "url": webhook.url,
        "types": list(webhook.types),
        "description": webhook.description,
        "status": "enabled" if webhook.enabled else "disabled",
        "disabled_reason": webhook.disabled_reason,
        "created_at": timestamp(webhook.created_at),
        "updated_at": timestamp(webhook.updated_at),
    }


def webhook_item(webhook: Webhook) -> WebhookItem:
    """A webhook as it is shown."""
    return WebhookItem(**_facts(webhook))


def webhook_with_secret(webhook: Webhook, secret: str | UnsetType) -> WebhookWithSecret:
    """A webhook with its new secret, if that is shown."""
    return WebhookWithSecret(**_facts(webhook), secret=secret)


def delivery_item(delivery: Delivery, webhook: Webhook) -> DeliveryItem:
    """A delivery as it is shown."""
    delivery = as_shown(delivery, webhook)
    return DeliveryItem(
        id=delivery.id,
        event_id=delivery.event_id,
        type=delivery.type,
        status=delivery.status,  # type: ignore[arg-type]  # of three
        attempts=delivery.attempts,
        next_attempt_at=optional_timestamp(delivery.next_attempt_at),
        last_status=delivery.last_status,
        last_error=delivery.last_error,
        last_milliseconds=delivery.last_milliseconds,
        created_at=timestamp(delivery.created_at),
    )


_Url = Annotated[
    str,
    Text(web_url, description="https to a public address, unless `webhooks_allow` permits others."),
]


class _Most:
    """How many types a webhook may name: ten more than there are."""

    def __len__(self) -> int:
        return len(EVENT_TYPES) + 10


_Types = Annotated[list[str], Items(Text(webhook_type), most=_Most(), least=1)]
_Description = Annotated[str, Text(webhook_description)]


class CreateWebhook(msgspec.Struct):
    """The body of POST /webhooks."""

    EXAMPLE: ClassVar = {"url": "https://example.com/hooks", "types": _EXAMPLE_TYPES}

    url: _Url
    types: _Types
    description: _Description = ""


class ChangeWebhook(msgspec.Struct):
    """The body of PATCH /webhooks/{id}. Omitted fields stay unchanged."""

    EXAMPLE: ClassVar = {"types": ["*"], "status": "enabled"}

    url: _Url | UnsetType = UNSET
    types: _Types | UnsetType = UNSET
    description: _Description | UnsetType = UNSET
    status: Annotated[str, Text(OneOf(("enabled", "disabled")))] | UnsetType = UNSET


class AuditUser(msgspec.Struct):
    """The account of an entry's actor."""

    id: Identifier | None
    email: Annotated[str | None, Meta(examples=["ada@example.com"])]


class AuditClient(msgspec.Struct):
    """The OAuth client that acted for the account, as it was called then."""

    client_id: Annotated[str, Meta(examples=["client_6a1f"])]
    name: Annotated[str, Meta(examples=["Payroll"])]


class AuditEntry(msgspec.Struct):
    """One entry; `user` is null if no account is known, `client` unless by an OAuth token."""

    id: Identifier
    at: Timestamp
    action: Annotated[str, Meta(examples=["product.deleted"])]
    user: AuditUser | None
    credential: Annotated[str, Meta(description="How the actor was known.", examples=["api_key"])]
    credential_id: Identifier | None
    client: AuditClient | None
    address: Annotated[str | None, Meta(examples=["192.0.2.7"])]
    target: Annotated[str | None, Meta(description="A kind.", examples=["product"])]
    target_id: Annotated[str | None, Meta(examples=["17"])]
    details: Annotated[
        Raw,
        Meta(
            examples=[{"fields": ["price"]}],
            extra_json_schema={"type": "object", "additionalProperties": True},
        ),
    ]
    request_id: Annotated[str | None, Meta(examples=["req_0f3a"])]


class ListedAudit(msgspec.Struct, frozen=True):
    """Entries of the audit log, oldest first."""

    data: list[AuditEntry]
    pagination: EventPagination


_word = Trimmed(1, 200)


def _after(text: str) -> int:
    number = whole_number(text)
    if number is None:
        raise BrokenRule("must be the id of an entry, or 0")
    return number


def _target(text: str) -> tuple[str, str]:
    kind, _, target_id = text.partition(":")
    if not kind or not target_id:
        raise BrokenRule("must be a kind and an id, such as product:17")
    return _word(kind), _word(target_id)


class ListAudit(msgspec.Struct, frozen=True):
    """The query of GET /audit."""

    after: Annotated[
        int,
        Param(
            _after,
            type="integer",
            minimum=0,
            maximum=MAX_ID,
            description="The id of the last entry that the caller has; 0 to begin with the oldest.",
        ),
    ] = 0
    limit: Limit = 25
    action: Annotated[str | None, Param(_word, type="string", examples=["product.deleted"])] = None
    actor_id: UserId = None
    target: Annotated[
        tuple[str, str] | None,
        Param(
            _target,
            type="string",
            description="A kind and an id.",
            examples=["product:17"],
        ),
    ] = None


def entry_out(entry: Entry) -> AuditEntry:
    """An entry as it is shown."""
    known = entry.user_id is not None or entry.email is not None
    return AuditEntry(
        entry.id,
        timestamp(entry.at),
        entry.action,
        AuditUser(entry.user_id, entry.email) if known else None,
        entry.credential,
        entry.credential_id,
        AuditClient(entry.client_id, entry.client_name or "") if entry.client_id else None,
        entry.address,
        entry.target,
        entry.target_id,
        Raw(entry.details.encode()),
        entry.request_id,
    )


def header(form: Format) -> bytes:
    """The beginning of a file, before the first entry."""
    return csv_text([Entry.__struct_fields__]) if form == "csv" else b""


def rows(form: Format, entries: Iterable[Entry]) -> bytes:
    """Entries as rows of a file."""
    if form == "csv":
        return csv_text(_cells(entry) for entry in entries)
    return msgspec.json.Encoder().encode_lines(entry_out(entry) for entry in entries)


def _cells(entry: Entry) -> Iterable[object]:
    return {**asdict(entry), "at": timestamp(entry.at)}.values()
