"""The client of the Portico API, typed, for callers that block and for asyncio.

from portico_client import Client

with Client() as client:  # the key is in PORTICO_API_KEY
    for product in client.products.list(category="lighting"):
        print(product.name, product.price)
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from portico_client.apps import AsyncOAuthApp, OAuthApp
from portico_client.async_client import AsyncClient
from portico_client.claims import Claims
from portico_client.client import Client
from portico_client.credentials import Login, OAuthTokens, SessionLogin
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
    Delivery,
    Event,
    EventPage,
    EventPagination,
    Image,
    Page,
    Pagination,
    Preferences,
    PreviousKey,
    Product,
    ProductItem,
    RotatedKey,
    User,
    UserItem,
    Webhook,
    WebhookWithSecret,
)
from portico_client.oauth import Authorization
from portico_client.webhooks import verify_webhook

if TYPE_CHECKING:
    from portico_client.verifiers import AsyncTokenVerifier, TokenVerifier

__all__ = [
    "APIError",
    "ApiKey",
    "ApiKeyFilters",
    "ApiKeyWithSecret",
    "AsyncClient",
    "AsyncOAuthApp",
    "AsyncTokenVerifier",
    "AuthenticationRequired",
    "Authorization",
    "CallbackRejected",
    "Claims",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "Delivery",
    "DeliveryFilters",
    "Duplicate",
    "Event",
    "EventFilters",
    "EventPage",
    "EventPagination",
    "Fault",
    "Gone",
    "Image",
    "InternalError",
    "InvalidDelivery",
    "InvalidToken",
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
    "RateLimited",
    "RequestTimeout",
    "RotatedKey",
    "SecretLost",
    "ServiceUnavailable",
    "SessionLogin",
    "StreamFilters",
    "TokenVerifier",
    "UnexpectedAnswer",
    "UnsupportedMediaType",
    "UntrustedCertificate",
    "User",
    "UserChanges",
    "UserFilters",
    "UserItem",
    "ValidationError",
    "Webhook",
    "WebhookChanges",
    "WebhookWithSecret",
    "verify_webhook",
]
if not TYPE_CHECKING and find_spec("joserfc") is None:
    __all__ = [name for name in __all__ if not name.endswith("TokenVerifier")]


def __getattr__(name: str) -> Any:
    """The verifiers, which need the packages of `portico-client[jwt]`."""
    if name in ("AsyncTokenVerifier", "TokenVerifier"):
        from portico_client import verifiers

        return getattr(verifiers, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
