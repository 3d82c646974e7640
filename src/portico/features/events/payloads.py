"""The JSON shapes of events, and which notes of changes become events."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType
from msgspec.structs import asdict

from portico.core.errors import BrokenRule
from portico.core.events import (
    EVENT_SCOPES,
    EVENT_TYPES,
    PING,
    Event,
    Published,
    StoredEvent,
    event_types,
)
from portico.core.ids import MAX_ID, whole_number
from portico.core.plans import QUOTA_PERCENTS
from portico.core.resources import RESOURCES
from portico.features.access.rules import KeyCreated, KeyRevoked, KeyRotated
from portico.features.access.schemas import (
    ApiKeyItem,
    PreviousKey,
    SuccessorKey,
    api_key_item,
    successor_key,
)
from portico.features.catalogue.products import PRODUCTS
from portico.features.catalogue.rules import SandboxReset
from portico.features.events.rules import WebhookTested
from portico.features.people.rules import (
    PasswordChanged,
    PasswordReset,
    QuotaReached,
    UserChanged,
    UserCreated,
    UserDeleted,
    UserResumed,
    UserSuspended,
)
from portico.features.people.schemas import AccountItem, UserBody, account_item, user_body
from portico.resource.notes import (
    EVENT_DATA,
    EVENT_PREVIOUS,
    MOST_IDS,
    RecordNote,
    RecordsImported,
    updated,
)
from portico.web.envelope import Identifier, Timestamp, encode, timestamp
from portico.web.lists import LARGEST_LIMIT, Limit
from portico.web.reading import Param

_OBJECT: dict[str, Any] = {"type": "object", "additionalProperties": True}

EventType = Annotated[
    str, Meta(examples=["product.updated"], extra_json_schema={"enum": EVENT_TYPES})
]
EventId = Annotated[
    int,
    Meta(ge=1, description="Increases with every event of the environment.", examples=[17]),
]


class EventBody(msgspec.Struct, frozen=True):
    """An event."""

    id: EventId
    type: EventType
    timestamp: Timestamp
    data: Annotated[
        Raw,
        Meta(
            description="The resource with all fields; if it was deleted, its last state.",
            examples=[{"id": 3, "name": "Desk lamp", "price": 19.95}],
            extra_json_schema=_OBJECT,
        ),
    ]
    previous: (
        Annotated[
            Raw,
            Meta(
                description="Only for updates: the old values of the fields that changed.",
                examples=[{"price": 24.5}],
                extra_json_schema=_OBJECT,
            ),
        ]
        | UnsetType
    ) = UNSET


class QuotaReachedBody(msgspec.Struct, frozen=True):
    """How much of a limit an account has used: told once for each window and percent."""

    user_id: Identifier
    window: Literal["month"]
    percent: Annotated[int, Meta(examples=[80], extra_json_schema={"enum": [*QUOTA_PERCENTS]})]


class ProductsImportedBody(msgspec.Struct, frozen=True):
    """How many products an import created and updated, and which."""

    inserted: Annotated[int, Meta(ge=0, examples=[2])]
    updated: Annotated[int, Meta(ge=0, examples=[1])]
    first_id: Annotated[Identifier, Meta(description="The lowest id of all.", examples=[18])]
    last_id: Annotated[Identifier, Meta(description="The highest id of all.", examples=[268])]
    inserted_ids: Annotated[
        Sequence[Identifier],
        Meta(
            max_length=MOST_IDS,
            description=f"The ids of new products, ascending: the first {MOST_IDS:,}.",
            examples=[[267, 268]],
        ),
    ]
    updated_ids: Annotated[
        Sequence[Identifier],
        Meta(
            max_length=MOST_IDS,
            description=f"The ids of changed products, ascending: the first {MOST_IDS:,}.",
            examples=[[18]],
        ),
    ]


SandboxResetBody = msgspec.defstruct(
    "SandboxResetBody",
    [
        (kind.plural, Annotated[int, Meta(ge=0, examples=[25])])
        for kind in RESOURCES
        if kind.samples
    ],
    namespace={"__doc__": "How many samples of each kind the sandbox has now."},
    frozen=True,
)


class PingBody(msgspec.Struct, frozen=True):
    """The webhook that is tested."""

    webhook_id: Identifier


EVENT_DATA |= {
    "user.created": UserBody,
    "user.updated": UserBody,
    "user.deleted": UserBody,
    "account.updated": AccountItem,
    "quota.reached": QuotaReachedBody,
    "product.created": PRODUCTS.body_shape,
    "product.updated": PRODUCTS.body_shape,
    "product.deleted": PRODUCTS.body_shape,
    "products.imported": ProductsImportedBody,
    "api_key.created": ApiKeyItem,
    "api_key.rotated": SuccessorKey,
    "api_key.revoked": ApiKeyItem,
    "sandbox.reset": SandboxResetBody,
    PING: PingBody,
}


def event_data() -> dict[str, type[msgspec.Struct]]:
    """`EVENT_DATA` of the types that this installation has."""
    return {name: one for name, one in EVENT_DATA.items() if name in EVENT_SCOPES or name == PING}


EVENT_PREVIOUS |= {
    "user.updated": {"role": "viewer"},
    "account.updated": {"plan": "free"},
    "product.updated": {"price": 19.95},
}


class EventPagination(msgspec.Struct, frozen=True):
    """The end of a page of events, or of the audit log."""

    limit: Annotated[int, Meta(ge=1, le=LARGEST_LIMIT, examples=[25])]
    has_more: Annotated[
        bool,
        Meta(description="May be true for a page below `limit`: a page has at most 1 MiB."),
    ]
    last_id: Annotated[
        int,
        Meta(
            ge=0,
            description="Send it as the next `after` to miss nothing and get nothing twice.",
            examples=[17],
        ),
    ]


class ListedEvents(msgspec.Struct, frozen=True):
    """Events, oldest first."""

    data: list[EventBody]
    pagination: EventPagination


def _after(text: str) -> int:
    number = whole_number(text)
    if number is None:
        raise BrokenRule("must be the id of an event, or 0")
    return number


_Types = Annotated[
    tuple[str, ...] | None,
    Param(
        event_types,
        type="string",
        description="Comma-separated; `user.*` stands for all types of a noun.",
        examples=["product.*,user.created"],
    ),
]


class ListEvents(msgspec.Struct, frozen=True):
    """The query of GET /events."""

    after: Annotated[
        int,
        Param(
            _after,
            type="integer",
            minimum=0,
            maximum=MAX_ID,
            description="The id of the last event that the caller has; 0 to begin with the oldest.",
        ),
    ] = 0
    type: _Types = None
    limit: Limit = 25


class StreamEvents(msgspec.Struct, frozen=True):
    """The query of GET /events/stream."""

    after: Annotated[
        int | None,
        Param(
            _after,
            type="integer",
            minimum=0,
            maximum=MAX_ID,
            description="The id of the last event that the caller has; 0 to begin with the oldest."
            " `Last-Event-ID` takes precedence. Without both, the stream begins with new events.",
        ),
    ] = None
    type: _Types = None


_STREAMED = """id: 17
event: product.deleted
data: {"id":17,"type":"product.deleted","timestamp":"2026-03-15T12:00:00.000Z","data":{"id":3}}

"""

StreamedEvents = Annotated[
    str,
    Meta(
        description="Server-Sent Events with `id`, `event` (the type) and `data` (the event as"
        " JSON). There is a comment at least every 15 seconds.",
        examples=[_STREAMED],
    ),
]


def event_body(event: StoredEvent) -> EventBody:
    """An event as readers and webhooks get it, always with the same bytes."""
    return EventBody(
        event.id,
        event.type,
        timestamp(event.at),
        Raw(event.data),
        UNSET if event.previous is None else Raw(event.previous),
    )


def delivered(event: StoredEvent) -> bytes:
    """The body of an event's deliveries."""
    return encode(event_body(event))


def published(event: Event, now: int) -> list[Published]:
    """The events that are published for a note at `now`, in epoch milliseconds."""
    if isinstance(event, RecordNote):
        made = [event.published()]
    elif isinstance(event, RecordsImported):
        made = [Published(event.action, _text(ProductsImportedBody(**asdict(event))))]
    else:
        made = [publish(event, now) for publish in _PUBLISHERS.get(type(event), ())]
    return [one for one in made if one is not None]


def _text(body: msgspec.Struct | dict[str, Any]) -> str:
    return encode(body).decode()


def _user_changed(event: UserChanged, _now: int) -> Published | None:
    return updated("user.updated", user_body(event.before), user_body(event.user))


def _account_changed(
    event: UserChanged | UserSuspended | UserResumed, _now: int
) -> Published | None:
    return updated("account.updated", account_item(event.before), account_item(event.user))


def _quota_reached(event: QuotaReached, _now: int) -> Published:
    body = QuotaReachedBody(event.user.id, "month", event.percent)
    return Published("quota.reached", _text(body))


def _new_password(event: PasswordChanged | PasswordReset, _now: int) -> Published:
    return Published("user.updated", _text(user_body(event.user)), "{}")


def _key_rotated(event: KeyRotated, now: int) -> Published:
    previous = PreviousKey(event.key.id, timestamp(event.previous_end))
    return Published("api_key.rotated", _text(successor_key(event.successor, previous, now)))


def _tested(event: WebhookTested, _now: int) -> Published:
    return Published(PING, _text(PingBody(event.webhook.id)))


def _of_user(kind: str) -> Callable[[Any, int], Published]:
    return lambda event, _now: Published(kind, _text(user_body(event.user)))


def _of_key(kind: str) -> Callable[[Any, int], Published]:
    return lambda event, now: Published(kind, _text(api_key_item(event.key, now)))


_Publish = Callable[[Any, int], Published | None]
_PUBLISHERS: dict[type[Event], Sequence[_Publish]] = {
    UserCreated: (_of_user("user.created"),),
    UserChanged: (_user_changed, _account_changed),
    UserSuspended: (_account_changed,),
    UserResumed: (_account_changed,),
    QuotaReached: (_quota_reached,),
    PasswordChanged: (_new_password,),
    PasswordReset: (_new_password,),
    UserDeleted: (_of_user("user.deleted"),),
    SandboxReset: (lambda event, _now: Published("sandbox.reset", _text(event.filled)),),
    KeyCreated: (_of_key("api_key.created"),),
    KeyRotated: (_key_rotated,),
    KeyRevoked: (_of_key("api_key.revoked"),),
    WebhookTested: (_tested,),
}
