# Generated from the OpenAPI document: do not edit it, run clients/python/generate.py.
"""The fields of new resources and of changes, and the filters of lists.

A field left out of a change keeps its value; a field left out of a new resource gets the service's
default. A filter that is None counts as left out.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, NotRequired, TypedDict

from portico_client.models import (
    Image,
    KeyType,
    Role,
    Scope,
    Status,
    Theme,
    WebhookStatus,
)


class ProductFilters(TypedDict, total=False):
    """Which products to list. `limit` is the page size, 1 to 100; `search` finds products with
    every word in name or description; `status` defaults to `active`."""

    limit: int | None
    category: str | None
    min_price: Decimal | int | None
    max_price: Decimal | int | None
    in_stock: bool | None
    status: Status | None
    search: str | None


class UserFilters(TypedDict, total=False):
    """Which users to list, and in which order. Default: newest first."""

    limit: int | None
    sort: Literal["name", "email", "created_at"] | None
    order: Literal["asc", "desc"] | None
    role: Role | None
    external_id: str | None


class StreamFilters(TypedDict, total=False):
    """Which events to receive. `after` is the id of the last event that the caller has, 0 for all
    that are kept; `type` is one type or several, comma-separated; `user.*` means all of a noun."""

    after: int | None
    type: str | None


class EventFilters(StreamFilters, total=False):
    """Which events to list, oldest first. `limit` is the page size, 1 to 100."""

    limit: int | None


class NewProduct(TypedDict):
    """A product to create."""

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
    """Changes of a product. `images` and `metadata` are replaced as a whole."""

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
    """A user to create. `role` defaults to `viewer`."""

    name: str
    email: str
    password: str
    role: NotRequired[Role]


class PreferencesChanges(TypedDict, total=False):
    """Changes of a user's preferences."""

    theme: Theme
    language: str
    notifications: bool


class UserChanges(TypedDict, total=False):
    """Changes of a user. Changing one's own e-mail or password requires `current_password`."""

    name: str
    email: str
    role: Role
    avatar_url: str | None
    preferences: PreferencesChanges
    password: str
    current_password: str


class AccountChanges(TypedDict, total=False):
    """Changes of an account. `metadata` is replaced as a whole; None removes `external_id`."""

    plan: str
    suspended: bool
    external_id: str | None
    metadata: Mapping[str, str]


class InvitationFilters(TypedDict, total=False):
    """`limit` is the page size, 1 to 100."""

    limit: int | None


class NewInvitation(TypedDict):
    """An invitation to make. `role` defaults to `viewer`, `plan` to `free`."""

    email: str
    name: NotRequired[str | None]
    role: NotRequired[Role]
    plan: NotRequired[str]


class OAuthClientFilters(TypedDict, total=False):
    """`limit` is the page size, 1 to 100."""

    limit: int | None


class NewOAuthClient(TypedDict):
    """A client to register. A `public` one has no secret."""

    name: str
    redirect_uris: NotRequired[Sequence[str]]
    scopes: NotRequired[Sequence[Scope]]
    public: NotRequired[bool]
    first_party: NotRequired[bool]
    grants: NotRequired[Sequence[Literal["client_credentials", "device_code", "token_exchange"]]]
    service: NotRequired[str | None]
    post_logout_redirect_uris: NotRequired[Sequence[str]]
    backchannel_logout_uri: NotRequired[str | None]
    jwks: NotRequired[Mapping[str, Any] | None]
    jwks_uri: NotRequired[str | None]


class OAuthClientChanges(TypedDict, total=False):
    """Changes of a client. `redirect_uris` and `scopes` are replaced as a whole."""

    name: str
    redirect_uris: Sequence[str]
    scopes: Sequence[Scope]
    first_party: bool
    grants: Sequence[Literal["client_credentials", "device_code", "token_exchange"]]
    service: str | None
    post_logout_redirect_uris: Sequence[str]
    backchannel_logout_uri: str | None
    jwks: Mapping[str, Any] | None
    jwks_uri: str | None


class AuditFilters(TypedDict, total=False):
    """Which entries to list, oldest first: of one `action`, by the user `actor_id`, about one
    `target` such as `product:17`. `limit` is the page size, 1 to 100."""

    after: int | None
    limit: int | None
    action: str | None
    actor_id: int | None
    target: str | None


class UsageFilters(TypedDict, total=False):
    """Whose requests to count, the caller's unless `user_id` is given, `by` hour, day or month;
    those with one key, or to one service."""

    by: Literal["hour", "day", "month"] | None
    user_id: int | None
    key_id: int | None
    service: str | None


class ApiKeyFilters(TypedDict, total=False):
    """Whose keys to list: the caller's unless `user_id` is given. `limit` is the page size, 1 to
    100."""

    limit: int | None
    user_id: int | None


class NewApiKey(TypedDict):
    """A key to create. By default it is unrestricted: it has all scopes of its owner, can be used
    from anywhere, and does not expire."""

    name: str
    type: KeyType
    user_id: NotRequired[int | None]
    scopes: NotRequired[Sequence[Scope] | None]
    networks: NotRequired[Sequence[str] | None]
    expires_at: NotRequired[datetime | None]


class NewWebhook(TypedDict):
    """A webhook to create. `types` are event types; `product.*` means all of a noun, `*` all."""

    url: str
    types: Sequence[str]
    description: NotRequired[str]


class WebhookChanges(TypedDict, total=False):
    """Changes of a webhook. Disabling it drops its pending deliveries."""

    url: str
    types: Sequence[str]
    description: str
    status: WebhookStatus


class Check(TypedDict):
    """What to ask about one request to a service of your own."""

    service: NotRequired[str]
    scope: NotRequired[str]
    cost: NotRequired[int]
    limit: NotRequired[str]
    address: NotRequired[str]
    method: NotRequired[str]
    path: NotRequired[str]
    credential: str


class DeliveryFilters(TypedDict, total=False):
    """`limit` is the page size, 1 to 100."""

    limit: int | None
