# Generated from the OpenAPI document: do not edit it, run clients/python/generate.py.
"""What the service returns. Times are timezone-aware and in UTC; prices are exact."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, TypeAlias, TypedDict

Role: TypeAlias = Literal["admin", "editor", "viewer"] | str
Status: TypeAlias = Literal["active", "archived", "draft"]
Theme: TypeAlias = Literal["dark", "light", "system"]
KeyType: TypeAlias = Literal["live", "read", "test"]
KeyStatus: TypeAlias = Literal["active", "expired", "revoked"]
Scope: TypeAlias = (
    Literal["read:users", "write:users", "read:products", "write:products", "verify", "admin"] | str
)
WebhookStatus: TypeAlias = Literal["disabled", "enabled"]
DisabledReason: TypeAlias = Literal["by hand", "failing", "gone"]
DeliveryStatus: TypeAlias = Literal["delivered", "failed", "pending"]
EventType: TypeAlias = Literal[
    "user.created",
    "user.updated",
    "user.deleted",
    "account.updated",
    "quota.reached",
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
"""The types of events. `ping` is sent only by the test of a webhook."""


@dataclass(frozen=True, slots=True)
class Pagination:
    """The position of a page in its list. If `total_is_exact` is false, there are more items than
    `total_items`."""

    page: int
    limit: int
    total_items: int
    total_pages: int
    total_is_exact: bool = True


@dataclass(frozen=True, slots=True)
class Image:
    """An image of a product, and its alternative text."""

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
    """A single product.

    `etag` identifies the state that was read: pass it as `if_match` to change the product only if
    nobody else has. `get`, `create` and `update` set it.
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
    """A user as `create` returns it; `etag` as in `Product`."""

    etag: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Preferences:
    """A user's preferences. `language` is a tag such as `en` or `pt-BR`."""

    theme: Theme
    language: str
    notifications: bool


@dataclass(frozen=True, slots=True)
class User(UserItem):
    """A single user; `etag` as in `Product`."""

    avatar_url: str | None
    last_login_at: datetime | None
    preferences: Preferences
    etag: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class AccountItem:
    """A user's account as events show it. While `suspended`, its credentials are refused."""

    id: int
    plan: str
    suspended: bool
    suspended_at: datetime | None
    external_id: str | None
    metadata: Mapping[str, str]
    last_login_at: datetime | None


@dataclass(frozen=True, slots=True)
class Account(AccountItem):
    """A user's account; `etag` as in `Product`. `second_factor` says whether signing in needs more
    than the password."""

    second_factor: bool
    etag: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """How many requests the accounts of a plan may make; `per_month` is None for any number."""

    name: str
    per_minute: int
    per_day: int
    per_month: int | None


@dataclass(frozen=True, slots=True)
class Invitation:
    """An invitation that was not accepted yet; `etag` as in `Product`, None in a list."""

    id: int
    email: str
    name: str | None
    role: Role
    plan: str
    inviter_id: int | None
    created_at: datetime
    expires_at: datetime
    etag: str | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class InvitationWithLink(Invitation):
    """An invitation with a new link, which is shown only once."""

    link: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """An application with which users sign in; `etag` as in `Product`, None in a list."""

    client_id: str
    name: str
    redirect_uris: tuple[str, ...]
    scopes: tuple[Scope, ...]
    public: bool
    owner_id: int | None
    first_party: bool
    grants: tuple[Literal["client_credentials", "device_code", "token_exchange"], ...]
    service: str | None
    post_logout_redirect_uris: tuple[str, ...]
    backchannel_logout_uri: str | None
    jwks: Mapping[str, Any] | None
    jwks_uri: str | None
    created_at: datetime
    etag: str | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class OAuthClientWithSecret(OAuthClient):
    """A client with its new secret, which is shown only once; None if the client is public."""

    client_secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class AuditUser:
    """The account of an actor."""

    id: int | None
    email: str | None


@dataclass(frozen=True, slots=True)
class AuditClient:
    """The OAuth client that acted for the account, as it was called then."""

    client_id: str
    name: str


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An entry of the audit log: who did what, when and from where. `user` is None if no account is
    known, `client` unless by an OAuth token."""

    id: int
    at: datetime
    action: str
    user: AuditUser | None
    credential: str
    credential_id: int | None
    client: AuditClient | None
    address: str | None
    target: str | None
    target_id: str | None
    details: Mapping[str, Any]
    request_id: str | None


@dataclass(frozen=True, slots=True)
class UsageRow:
    """The requests since `start`: all, those that were refused with 429, and what all took of the
    account's limits."""

    start: datetime
    requests: int
    refused: int
    cost: int


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key. `scopes` is None if it has all scopes of its owner, `networks` is None if it can
    be used from anywhere, and `expires_at` is None if it does not expire."""

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
    """A new API key. `key` is the secret, shown only once: store it now."""

    key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class PreviousKey:
    """The key that a rotation replaced, and when it expires."""

    id: int
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class RotatedKey:
    """The successor of a rotated key. `key` is the secret, shown only once: store it now."""

    id: int
    name: str
    type: KeyType
    hint: str
    created_at: datetime
    expires_at: datetime | None
    previous_key: PreviousKey
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SuccessorKey(ApiKey):
    """The `ApiKey` that succeeds a rotated one, without its secret."""

    previous_key: PreviousKey


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook, which sends events to a receiver.

    `types` are event types, `product.*` for all of a noun, or `*` for all. `disabled_reason` is
    `by hand`, or `gone` if the receiver answered 410, or `failing` after five days without a
    successful delivery; None while it is enabled. `etag` as in `Product`; None in a list.
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
    """A webhook with a new secret, which is shown only once: store it for `verify_webhook`."""

    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Delivery:
    """The delivery of an event to a webhook. The `last_` fields describe the last attempt: the
    receiver's status, why it failed, and how long it took."""

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


@dataclass(frozen=True, slots=True)
class QuotaReached:
    """How much of a limit an account has used: told once for each window and percent."""

    user_id: int
    window: Literal["month"]
    percent: Literal[80, 100]


class PreviousUser(TypedDict, total=False):
    """The old values of a user's fields that changed. It is empty after a new password."""

    id: int
    name: str
    email: str
    role: Role
    created_at: datetime
    avatar_url: str | None
    last_login_at: datetime | None
    preferences: Preferences


class PreviousAccount(TypedDict, total=False):
    """The old values of an account's fields that changed."""

    id: int
    plan: str
    suspended: bool
    suspended_at: datetime | None
    external_id: str | None
    metadata: Mapping[str, str]
    last_login_at: datetime | None


class PreviousProduct(TypedDict, total=False):
    """The old values of a product's fields that changed."""

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
    images: tuple[Image, ...]
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ProductsImported:
    """How many products an import created and updated, their lowest and highest ids, and the first
    10,000 ids of each, ascending."""

    inserted: int
    updated: int
    first_id: int
    last_id: int
    inserted_ids: tuple[int, ...]
    updated_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SandboxReset:
    """How many samples of each kind the sandbox has now."""

    users: int
    products: int


@dataclass(frozen=True, slots=True)
class Ping:
    """The webhook that is tested."""

    webhook_id: int


@dataclass(frozen=True, slots=True)
class VerifiedUser:
    """Whose credential it is."""

    id: int
    name: str
    role: str
    plan: str


@dataclass(frozen=True, slots=True)
class VerifiedCredential:
    """A verified credential. `scopes` are those that its user's role has too."""

    kind: Literal["api_key", "jwt", "oauth", "session"]
    id: int
    name: str | None
    scopes: tuple[str, ...]
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class VerifiedLimit:
    """The window with the least left. `reset` is in Unix seconds."""

    limit: int
    remaining: int
    reset: int
    retry_after: int


@dataclass(frozen=True, slots=True)
class Verified:
    """What the caller would have got: `code` is `VALID`, or the error code."""

    valid: bool
    code: str
    message: str
    user: VerifiedUser | None
    credential: VerifiedCredential | None
    limit: VerifiedLimit | None


@dataclass(frozen=True, slots=True)
class EventPagination:
    """The position of a page of events. `last_id` is the `after` of the next page."""

    limit: int
    has_more: bool
    last_id: int
