"""What the service answers. Times are aware and in UTC, prices exact."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Generic, Literal, TypeAlias, TypeVar

T = TypeVar("T")

Role: TypeAlias = Literal["admin", "editor", "viewer"]
Status: TypeAlias = Literal["draft", "active", "archived"]
Theme: TypeAlias = Literal["system", "light", "dark"]
KeyType: TypeAlias = Literal["live", "test", "read"]
KeyStatus: TypeAlias = Literal["active", "expired", "revoked"]
Scope: TypeAlias = Literal["read:users", "write:users", "read:products", "write:products", "admin"]
WebhookStatus: TypeAlias = Literal["enabled", "disabled"]
DisabledReason: TypeAlias = Literal["by hand", "gone", "failing"]
DeliveryStatus: TypeAlias = Literal["pending", "delivered", "failed"]
EventType: TypeAlias = Literal[
    "user.created",
    "user.updated",
    "user.deleted",
    "product.created",
    "product.updated",
    "product.deleted",
    "products.imported",
    "api_key.created",
    "api_key.rotated",
    "api_key.revoked",
    "sandbox.reset",
    "ping",
]
"""What has happened; `ping` is told by a webhook's test alone."""


@dataclass(frozen=True, slots=True)
class Pagination:
    """Where a page stands in its list. Where `total_is_exact` is false, there are more items than
    `total_items`."""

    page: int
    limit: int
    total_items: int
    total_pages: int
    total_is_exact: bool = True


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list. Iterating over it gives its items."""

    items: tuple[T, ...]
    pagination: Pagination

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True)
class Image:
    """A picture of a product, and the words that stand for it."""

    url: str
    alt: str = ""


@dataclass(frozen=True, slots=True)
class ProductItem:
    """A product in a list."""

    id: int
    name: str
    description: str
    category: str
    price: Decimal
    currency: str
    in_stock: bool
    stock_quantity: int
    status: Status
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Product(ProductItem):
    """A product by itself.

    `etag` names the state that was read: give it as `if_match` to change the product only if nobody
    else did. It is there after `get`, `create` and `update`.
    """

    images: tuple[Image, ...]
    metadata: Mapping[str, str]
    etag: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class UserItem:
    """A user in a list."""

    id: int
    name: str
    email: str
    role: Role
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class CreatedUser(UserItem):
    """A user as `create` gives it; `etag` as in `Product`."""

    etag: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Preferences:
    """What a user prefers; `language` is a tag such as `en` or `pt-BR`."""

    theme: Theme
    language: str
    notifications: bool


@dataclass(frozen=True, slots=True)
class User(UserItem):
    """A user by itself; `etag` as in `Product`."""

    avatar_url: str | None
    last_login_at: datetime | None
    preferences: Preferences
    etag: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key. `scopes` is None where it carries all that its owner has, and `networks` where it
    may be used from anywhere; `expires_at` where it has no end."""

    id: int
    name: str
    type: KeyType
    hint: str
    scopes: tuple[Scope, ...] | None
    networks: tuple[str, ...] | None
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    status: KeyStatus


@dataclass(frozen=True, slots=True)
class ApiKeyWithSecret(ApiKey):
    """A new API key. `key` is the secret, shown this once: store it now."""

    key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class PreviousKey:
    """The key that a rotation replaced, and when it ends."""

    id: int
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class RotatedKey:
    """The successor of a rotated key. `key` is the secret, shown this once: store it now."""

    id: int
    name: str
    type: KeyType
    hint: str
    created_at: datetime
    expires_at: datetime | None
    previous_key: PreviousKey
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that has happened.

    `id` increases with every event of the environment. `data` is the resource as the API shows it
    by itself, of a deleted one as it was last; `previous`, of an update alone, the old values of
    the fields that changed. Both are as JSON has them, fractions as `Decimal`.
    """

    id: int
    type: EventType
    timestamp: datetime
    data: Mapping[str, Any]
    previous: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class EventPagination:
    """Where a page of events ends: `last_id` is the `after` of the next page."""

    limit: int
    has_more: bool
    last_id: int


@dataclass(frozen=True, slots=True)
class EventPage:
    """One page of events, the oldest first. Iterating over it gives them."""

    items: tuple[Event, ...]
    pagination: EventPagination

    def __iter__(self) -> Iterator[Event]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True)
class Webhook:
    """A receiver that is told of events.

    `types` are those of events, `product.*` for all of a noun, or `*` for all. `disabled_reason` is
    `by hand` where somebody did it, `gone` where the receiver answered 410, and `failing` after
    five days without one success; None while it is enabled. `etag` as in `Product`; None in a list.
    """

    id: int
    url: str
    types: tuple[str, ...]
    description: str
    status: WebhookStatus
    disabled_reason: DisabledReason | None
    created_at: datetime
    updated_at: datetime
    etag: str | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class WebhookWithSecret(Webhook):
    """A webhook with a new secret, shown this once: store it now, for `verify_webhook`."""

    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event on its way to a webhook. What is `last_` is of the last attempt: what the receiver
    answered, why it failed, and how long it took."""

    id: int
    event_id: int
    type: str
    status: DeliveryStatus
    attempts: int
    next_attempt_at: datetime | None
    last_status: int | None
    last_error: str | None
    last_milliseconds: int | None
    created_at: datetime
