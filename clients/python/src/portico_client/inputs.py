"""What is sent: the fields of new resources, of changes, and the filters of lists.

What is left out of a change stays; what is left out of a new resource takes the service's default.
A filter that is None is as if left out.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Literal, NotRequired, TypedDict

from portico_client.models import Image, KeyType, Role, Scope, Status, Theme, WebhookStatus


class ProductFilters(TypedDict, total=False):
    """Which products to list. `limit` is the size of a page, 1 to 100; `search` finds products with
    every word in name or description; `status` is `active` where it is left out."""

    limit: int | None
    category: str | None
    min_price: Decimal | int | None
    max_price: Decimal | int | None
    in_stock: bool | None
    status: Status | None
    search: str | None


class UserFilters(TypedDict, total=False):
    """Which users to list, and in which order; the newest first where nothing is said."""

    limit: int | None
    sort: Literal["name", "email", "created_at"] | None
    order: Literal["asc", "desc"] | None
    role: Role | None


class StreamFilters(TypedDict, total=False):
    """Which events to be told. `after` is the id of the last event that the caller has, 0 for all
    that are kept; `type` takes several, comma-separated, and `user.*` for all of a noun."""

    after: int | None
    type: str | None


class EventFilters(StreamFilters, total=False):
    """Which events to list: the oldest first. `limit` is the size of a page, 1 to 100."""

    limit: int | None


class NewProduct(TypedDict):
    """A product to be made."""

    name: str
    category: str
    price: Decimal | int
    description: NotRequired[str]
    currency: NotRequired[str]
    stock_quantity: NotRequired[int]
    status: NotRequired[Status]
    images: NotRequired[Sequence[Image]]
    metadata: NotRequired[Mapping[str, str]]


class ProductChanges(TypedDict, total=False):
    """Changes of a product; `images` and `metadata` are replaced whole."""

    name: str
    category: str
    price: Decimal | int
    description: str
    currency: str
    stock_quantity: int
    status: Status
    images: Sequence[Image]
    metadata: Mapping[str, str]


class NewUser(TypedDict):
    """A user to be made; a viewer where no role is given."""

    name: str
    email: str
    password: str
    role: NotRequired[Role]


class PreferencesChanges(TypedDict, total=False):
    """Changes of what a user prefers."""

    theme: Theme
    language: str
    notifications: bool


class UserChanges(TypedDict, total=False):
    """Changes of a user. Whoever changes their own password gives `current_password` too."""

    name: str
    email: str
    role: Role
    avatar_url: str | None
    preferences: PreferencesChanges
    password: str
    current_password: str


class ApiKeyFilters(TypedDict, total=False):
    """Whose keys to list: the caller's unless `user_id` is given. `limit` is the size of a page, 1
    to 100."""

    user_id: int | None
    limit: int | None


class NewApiKey(TypedDict):
    """A key to be made. What is left out is as wide as it may be: all scopes of its owner, used
    from anywhere, without an end."""

    name: str
    type: KeyType
    user_id: NotRequired[int | None]
    scopes: NotRequired[Sequence[Scope] | None]
    networks: NotRequired[Sequence[str] | None]
    expires_at: NotRequired[datetime | None]


class NewWebhook(TypedDict):
    """A receiver to be told of events. `types` are those of events, `product.*` for all of a noun,
    or `*` for all."""

    url: str
    types: Sequence[str]
    description: NotRequired[str]


class WebhookChanges(TypedDict, total=False):
    """Changes of a webhook. Disabling it drops what it has not been sent."""

    url: str
    types: Sequence[str]
    description: str
    status: WebhookStatus


class DeliveryFilters(TypedDict, total=False):
    """`limit` is the size of a page, 1 to 100."""

    limit: int | None
