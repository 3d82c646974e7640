"""The typed client of the Portico API, synchronous and for asyncio.

from portico_client import Client

with Client() as client:  # the key is in PORTICO_API_KEY
    for product in client.products.list(category="lighting"):
        print(product.name, product.price)
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from portico_client.apps import AsyncOAuthApp, OAuthApp
from portico_client.async_client import (
    AsyncApiKeys,
    AsyncClient,
    AsyncEventListing,
    AsyncEvents,
    AsyncListing,
    AsyncProducts,
    AsyncUsers,
    AsyncWebhooks,
)
from portico_client.claims import Claims
from portico_client.client import (
    ApiKeys,
    Client,
    EventListing,
    Events,
    Listing,
    Products,
    Users,
    Webhooks,
)
from portico_client.connection import Authorities
from portico_client.credentials import Credential, Login, OAuthTokens, SessionLogin
from portico_client.drivers import AsyncOptions, Options
from portico_client.errors import (
    APIError,
    AuthenticationRequired,
    CallbackRejected,
    Conflict,
    ConnectionFailed,
    Duplicate,
    Fault,
    Gone,
    InternalError,
    InvalidDelivery,
    InvalidToken,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    OAuthError,
    PayloadTooLarge,
    PermissionDenied,
    PorticoError,
    PreconditionFailed,
    RateLimited,
    RequestTimeout,
    SecretLost,
    ServiceUnavailable,
    UnexpectedAnswer,
    UnsupportedMediaType,
    UntrustedCertificate,
    ValidationError,
)
from portico_client.inputs import (
    ApiKeyFilters,
    DeliveryFilters,
    EventFilters,
    NewApiKey,
    NewProduct,
    NewUser,
    NewWebhook,
    PreferencesChanges,
    ProductChanges,
    ProductFilters,
    StreamFilters,
    UserChanges,
    UserFilters,
    WebhookChanges,
)
from portico_client.models import (
    ApiKey,
    ApiKeyWithSecret,
    CreatedUser,
    Delivery,
    DeliveryStatus,
    DisabledReason,
    Event,
    EventPage,
    EventPagination,
    EventType,
    Image,
    KeyStatus,
    KeyType,
    Page,
    Pagination,
    Preferences,
    PreviousKey,
    Product,
    ProductItem,
    Role,
    RotatedKey,
    Scope,
    Status,
    Theme,
    User,
    UserItem,
    Webhook,
    WebhookStatus,
    WebhookWithSecret,
)
from portico_client.oauth import Authorization
from portico_client.streams import AsyncEventStream, EventStream
from portico_client.webhooks import WebhookHeaders, verify_webhook

if TYPE_CHECKING:
    from portico_client.verifiers import AsyncTokenVerifier, TokenVerifier

__all__ = [
    "APIError",
    "ApiKey",
    "ApiKeyFilters",
    "ApiKeyWithSecret",
    "ApiKeys",
    "AsyncApiKeys",
    "AsyncClient",
    "AsyncEventListing",
    "AsyncEventStream",
    "AsyncEvents",
    "AsyncListing",
    "AsyncOAuthApp",
    "AsyncOptions",
    "AsyncProducts",
    "AsyncTokenVerifier",
    "AsyncUsers",
    "AsyncWebhooks",
    "AuthenticationRequired",
    "Authorities",
    "Authorization",
    "CallbackRejected",
    "Claims",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "CreatedUser",
    "Credential",
    "Delivery",
    "DeliveryFilters",
    "DeliveryStatus",
    "DisabledReason",
    "Duplicate",
    "Event",
    "EventFilters",
    "EventListing",
    "EventPage",
    "EventPagination",
    "EventStream",
    "EventType",
    "Events",
    "Fault",
    "Gone",
    "Image",
    "InternalError",
    "InvalidDelivery",
    "InvalidToken",
    "KeyStatus",
    "KeyType",
    "Listing",
    "Login",
    "MethodNotAllowed",
    "NewApiKey",
    "NewProduct",
    "NewUser",
    "NewWebhook",
    "NotAcceptable",
    "NotFound",
    "OAuthApp",
    "OAuthError",
    "OAuthTokens",
    "Options",
    "Page",
    "Pagination",
    "PayloadTooLarge",
    "PermissionDenied",
    "PorticoError",
    "PreconditionFailed",
    "Preferences",
    "PreferencesChanges",
    "PreviousKey",
    "Product",
    "ProductChanges",
    "ProductFilters",
    "ProductItem",
    "Products",
    "RateLimited",
    "RequestTimeout",
    "Role",
    "RotatedKey",
    "Scope",
    "SecretLost",
    "ServiceUnavailable",
    "SessionLogin",
    "Status",
    "StreamFilters",
    "Theme",
    "TokenVerifier",
    "UnexpectedAnswer",
    "UnsupportedMediaType",
    "UntrustedCertificate",
    "User",
    "UserChanges",
    "UserFilters",
    "UserItem",
    "Users",
    "ValidationError",
    "Webhook",
    "WebhookChanges",
    "WebhookHeaders",
    "WebhookStatus",
    "WebhookWithSecret",
    "Webhooks",
    "verify_webhook",
]
if not TYPE_CHECKING:  # a type checker would accept any name from a module with `__getattr__`
    if find_spec("joserfc") is None:
        __all__ = [name for name in __all__ if not name.endswith("TokenVerifier")]

    def __getattr__(name: str) -> Any:
        """The verifiers, which need the packages of `portico-client[jwt]`."""
        if name in ("AsyncTokenVerifier", "TokenVerifier"):
            from portico_client import verifiers

            return getattr(verifiers, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
