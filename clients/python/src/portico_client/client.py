# Generated from async_client.py: do not edit it, run clients/python/generate.py.
"""The synchronous client."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar, Unpack

from portico_client.access import Access
from portico_client.calls import (
    ACCOUNTS,
    INVITATIONS,
    KEYS,
    ME,
    OAUTH_CLIENTS,
    PRODUCTS,
    USERS,
    WEBHOOKS,
    AuditPage,
    Call,
    EventPage,
    KindRecord,
    Page,
    Pages,
    RecordKind,
    at_once,
    create_key,
    deliveries_of,
    list_audit,
    list_events,
    list_plans,
    list_usage,
    list_webhooks,
    redeliver,
    renew_invitation,
    rotate_client_secret,
    rotate_key,
    rotate_secret,
    test_webhook,
    verify,
)
from portico_client.connection import addresses, chosen
from portico_client.credentials import Credential
from portico_client.drivers import Closing, Driver, Options
from portico_client.events import Event
from portico_client.following import Following
from portico_client.inputs import (
    AccountChanges,
    ApiKeyFilters,
    AuditFilters,
    Check,
    DeliveryFilters,
    EventFilters,
    InvitationFilters,
    NewApiKey,
    NewInvitation,
    NewOAuthClient,
    NewProduct,
    NewUser,
    NewWebhook,
    OAuthClientChanges,
    OAuthClientFilters,
    ProductChanges,
    ProductFilters,
    StreamFilters,
    UsageFilters,
    UserChanges,
    UserFilters,
    WebhookChanges,
)
from portico_client.models import (
    Account,
    ApiKey,
    ApiKeyWithSecret,
    AuditEntry,
    CreatedUser,
    Delivery,
    Invitation,
    InvitationWithLink,
    OAuthClient,
    OAuthClientWithSecret,
    Plan,
    Product,
    ProductItem,
    RotatedKey,
    UsageRow,
    User,
    UserItem,
    Verified,
    Webhook,
    WebhookWithSecret,
)
from portico_client.streams import EventStream

T = TypeVar("T")


class Make(Protocol):
    """Makes a call."""

    def __call__(self, call: Call[T]) -> T:
        """Returns the call's result. Raises `PorticoError`."""
        ...


class Client(Closing):
    """Calls the API of one environment as one account. Threads may share a client, but processes
    may not: create it after a fork."""

    def __init__(
        self,
        api_key: str | None = None,
        *,
        auth: Credential | None = None,
        base_url: str | None = None,
        auth_url: str | None = None,
        **options: Unpack[Options],
    ) -> None:
        """Authenticates with `api_key`, or `auth`, or the key in `PORTICO_API_KEY`.

        `base_url` is the API's address. Default: `PORTICO_BASE_URL`, or
        `https://localhost:8443/v1`. `auth_url` is the authorization server's address. Default:
        `PORTICO_AUTH_URL` unless `base_url` is given, or the base with its last segment replaced by
        `auth`. Raises ValueError for an invalid argument.
        """
        credential = chosen(api_key, auth)
        where = addresses(base_url, auth_url)
        self._driver = Driver(options)
        self._access = Access(where, self._driver.retries, self._driver.clock, credential)
        self.products = Products(self._make)
        self.users = Users(self._make)
        self.accounts = Accounts(self._make)
        self.invitations = Invitations(self._make)
        self.clients = OAuthClients(self._make)
        self.audit = Audit(self._make)
        self.usage = Usage(self._make)
        self.api_keys = ApiKeys(self._make, self._access.switch)
        self.events = Events(self._make, self._follow)
        self.webhooks = Webhooks(self._make)

    def __repr__(self) -> str:
        return f"<Client of {self._access.addresses.base}>"

    def close(self) -> None:
        """Closes the connections. A login or session stays valid: `logout` ends it."""
        self._driver.close()

    def logout(self) -> None:
        """Ends this client's login (`Login`) or session (`SessionLogin`), if any; the next call
        signs in again. Raises ValueError for an API key or OAuth tokens."""
        self._driver.run(self._access.end())

    def kind(self, many: str) -> "Records":
        """The records of a kind that the server's operators have declared, such as `orders`."""
        return Records(self._make, RecordKind(many))

    def me(self) -> User:
        """The calling user."""
        return self._make(USERS.get(ME))

    def update_me(self, *, if_match: str | None = None, **changes: Unpack[UserChanges]) -> User:
        """Changes the calling user's name, avatar, preferences, or password (which requires
        `current_password`). `if_match` works as in `Products.update`."""
        return self._make(USERS.update(ME, changes, if_match))

    def plans(self) -> tuple[Plan, ...]:
        """The plans that accounts can have. Needs the scope `admin`."""
        return self._make(list_plans())

    def verify(self, **check: Unpack[Check]) -> Verified:
        """Asks whether a credential that a service was sent is valid, and counts the request
        against its account. Needs the scope `verify`."""
        return self._make(verify(check))

    def _make(self, call: Call[T]) -> T:
        return self._driver.run(self._access.make(call))

    def _follow(self, filters: StreamFilters) -> EventStream:
        following = Following(self._access, self._driver.retries, filters)
        return EventStream(self._driver, following)


class Listing(Generic[T]):
    """A list that is read page by page, as needed."""

    def __init__(self, make: Make, kind: Pages[T], filters: Mapping[str, Any]) -> None:
        self._make = make
        self._kind = kind
        self._filters = filters

    def __iter__(self) -> Iterator[T]:
        """All items, each once. Items that are added or deleted meanwhile do not shift the others;
        only an item whose sort value changes may appear twice or not at all. Reads 100 items per
        request unless `limit` is given."""
        filters, cursor = at_once(self._filters), None
        while True:
            items, cursor = self._make(self._kind.behind(filters, cursor))
            yield from items
            if cursor is None:
                return

    def page(self, number: int) -> Page[T]:
        """One page, counted from 1: 25 items unless `limit` is given. Empty past the end."""
        return self._make(self._kind.page(self._filters, number))


class Products:
    """The catalog."""

    def __init__(self, make: Make) -> None:
        self._make = make

    def list(self, **filters: Unpack[ProductFilters]) -> Listing[ProductItem]:
        """Products, active ones unless `status` is given: newest first, or most relevant first with
        `search`. Sends no request before items or a page are read."""
        return Listing(self._make, PRODUCTS, filters)

    def get(self, product_id: int) -> Product:
        """One product. Raises `NotFound`."""
        return self._make(PRODUCTS.get(product_id))

    def create(
        self, *, idempotency_key: str | None = None, **product: Unpack[NewProduct]
    ) -> Product:
        """Creates a product, as a draft unless `status` is given.

        With an `idempotency_key`, the call can be repeated for 24 hours, even by another process,
        and is carried out once. Without one, only the client's own retries are safe in this way.
        """
        return self._make(PRODUCTS.create(product, idempotency_key))

    def update(
        self,
        product_id: int,
        *,
        if_match: str | None = None,
        **changes: Unpack[ProductChanges],
    ) -> Product:
        """Changes the given fields and leaves the others.

        With the product's `etag` as `if_match`, raises `PreconditionFailed` if the product was
        changed meanwhile. Without it, a call whose response is lost is not retried.

        A credential that may not read what it changes gets no whole answer: the change is made, and
        `UnexpectedAnswer` is raised.
        """
        return self._make(PRODUCTS.update(product_id, changes, if_match))

    def delete(self, product_id: int, *, if_match: str | None = None) -> None:
        """Deletes a product. `if_match` works as in `update`."""
        self._make(PRODUCTS.delete(product_id, if_match))


class Records:
    """The records of a kind that the server's operators have declared."""

    def __init__(self, make: Make, kind: RecordKind) -> None:
        self._make = make
        self._kind = kind

    def list(self, **filters: Any) -> Listing[KindRecord]:
        """Records, as the kind sorts them unless `sort` and `order` are given. Sends no request
        before items or a page are read."""
        return Listing(self._make, self._kind, filters)

    def get(self, record_id: int) -> KindRecord:
        """One record. Raises `NotFound`."""
        return self._make(self._kind.get(record_id))

    def create(self, *, idempotency_key: str | None = None, **fields: Any) -> KindRecord:
        """Creates a record. `idempotency_key` works as in `Products.create`."""
        return self._make(self._kind.create(fields, idempotency_key))

    def update(self, record_id: int, *, if_match: str | None = None, **changes: Any) -> KindRecord:
        """Changes the given fields and leaves the others. `if_match` works as in
        `Products.update`."""
        return self._make(self._kind.update(record_id, changes, if_match))

    def delete(self, record_id: int, *, if_match: str | None = None) -> None:
        """Deletes a record. `if_match` works as in `Products.update`."""
        self._make(self._kind.delete(record_id, if_match))


class Users:
    """The users of the environment."""

    def __init__(self, make: Make) -> None:
        self._make = make

    def list(self, **filters: Unpack[UserFilters]) -> Listing[UserItem]:
        """Users, newest first unless `sort` and `order` are given."""
        return Listing(self._make, USERS, filters)

    def get(self, user_id: int) -> User:
        """One user. Raises `NotFound`."""
        return self._make(USERS.get(user_id))

    def create(self, *, idempotency_key: str | None = None, **user: Unpack[NewUser]) -> CreatedUser:
        """Creates a user. `idempotency_key` works as in `Products.create`. Raises `Duplicate` if
        the e-mail is taken."""
        return self._make(USERS.create(user, idempotency_key))

    def update(
        self,
        user_id: int,
        *,
        if_match: str | None = None,
        **changes: Unpack[UserChanges],
    ) -> User:
        """Changes the given fields and leaves the others. `if_match` works as in
        `Products.update`."""
        return self._make(USERS.update(user_id, changes, if_match))

    def delete(self, user_id: int, *, if_match: str | None = None) -> None:
        """Deletes a user. `if_match` works as in `Products.update`."""
        self._make(USERS.delete(user_id, if_match))


class Accounts:
    """The users' accounts: plan, suspension, and what another system knows of them. One's own can
    be read, all else needs the scope `admin`."""

    def __init__(self, make: Make) -> None:
        self._make = make

    def get(self, user_id: int) -> Account:
        """The account of a user. Raises `NotFound`."""
        return self._make(ACCOUNTS.get(user_id))

    def update(
        self,
        user_id: int,
        *,
        if_match: str | None = None,
        **changes: Unpack[AccountChanges],
    ) -> Account:
        """Changes the given fields and leaves the others. `if_match` works as in
        `Products.update`. Raises `Duplicate` if another user has the `external_id`."""
        return self._make(ACCOUNTS.update(user_id, changes, if_match))


class Invitations:
    """Who may make themselves an account. All needs the scope `admin`; only live can invite."""

    def __init__(self, make: Make) -> None:
        self._make = make

    def list(self, **filters: Unpack[InvitationFilters]) -> Listing[Invitation]:
        """Invitations that were not accepted, newest first, expired ones too."""
        return Listing(self._make, INVITATIONS, filters)

    def get(self, invitation_id: int) -> Invitation:
        """One invitation. Raises `NotFound`."""
        return self._make(INVITATIONS.get(invitation_id))

    def create(
        self, *, idempotency_key: str | None = None, **invitation: Unpack[NewInvitation]
    ) -> InvitationWithLink:
        """Invites an e-mail. `idempotency_key` works as in `Products.create`. Raises `Duplicate` if
        it has an account, `SecretLost` if the response was lost."""
        return self._make(INVITATIONS.create(invitation, idempotency_key))

    def renew(self, invitation_id: int) -> InvitationWithLink:
        """Replaces the link of an invitation, also of an expired one. Raises `SecretLost` if the
        response was lost."""
        return self._make(renew_invitation(invitation_id))

    def delete(self, invitation_id: int, *, if_match: str | None = None) -> None:
        """Revokes an invitation. `if_match` works as in `Products.update`."""
        self._make(INVITATIONS.delete(invitation_id, if_match))


class OAuthClients:
    """The OAuth clients. All needs the scope `admin`."""

    def __init__(self, make: Make) -> None:
        self._make = make

    def list(self, **filters: Unpack[OAuthClientFilters]) -> Listing[OAuthClient]:
        """Clients, newest first."""
        return Listing(self._make, OAUTH_CLIENTS, filters)

    def get(self, client_id: str) -> OAuthClient:
        """One client. Raises `NotFound`."""
        return self._make(OAUTH_CLIENTS.get(client_id))

    def create(
        self, *, idempotency_key: str | None = None, **client: Unpack[NewOAuthClient]
    ) -> OAuthClientWithSecret:
        """Registers a client. `idempotency_key` works as in `Products.create`. Raises `SecretLost`
        if the response was lost."""
        return self._make(OAUTH_CLIENTS.create(client, idempotency_key))

    def update(
        self, client_id: str, *, if_match: str | None = None, **changes: Unpack[OAuthClientChanges]
    ) -> OAuthClient:
        """Changes the given fields and leaves the others. `if_match` works as in
        `Products.update`."""
        return self._make(OAUTH_CLIENTS.update(client_id, changes, if_match))

    def delete(self, client_id: str, *, if_match: str | None = None) -> None:
        """Deletes a client, and ends its access to accounts. `if_match` as in `Products.update`."""
        self._make(OAUTH_CLIENTS.delete(client_id, if_match))

    def rotate_secret(self, client_id: str) -> OAuthClientWithSecret:
        """Gives a confidential client a new secret; the old one is void at once. Raises
        `SecretLost` if the response was lost."""
        return self._make(rotate_client_secret(client_id))


class AuditListing:
    """Entries of the audit log that are read page by page, as needed."""

    def __init__(self, make: Make, filters: AuditFilters) -> None:
        self._make = make
        self._filters = filters

    def __iter__(self) -> Iterator[AuditEntry]:
        """All entries up to the newest, oldest first. Reads 100 per request unless `limit` is
        given."""
        filters, more = at_once(self._filters), True
        while more:
            page = self._make(list_audit(filters))
            yield from page
            filters["after"], more = page.pagination.last_id, page.pagination.has_more

    def page(self) -> AuditPage:
        """One page: 25 entries unless `limit` is given. Its `pagination.last_id` is the next
        `after`."""
        return self._make(list_audit(self._filters))


class Audit:
    """The audit log. It needs the scope `admin`."""

    def __init__(self, make: Make) -> None:
        self._make = make

    def list(self, **filters: Unpack[AuditFilters]) -> AuditListing:
        """Entries, oldest first. A reader that continues `after` the last entry it has misses none.
        Reading raises `Gone` if entries after that one were removed."""
        return AuditListing(self._make, filters)


class Usage:
    """How many requests accounts made."""

    def __init__(self, make: Make) -> None:
        self._make = make

    def list(
        self,
        *,
        from_: datetime | None = None,
        to: datetime | None = None,
        **filters: Unpack[UsageFilters],
    ) -> tuple[UsageRow, ...]:
        """The caller's hours, days or months with requests, oldest first, or those of another user,
        which needs the scope `admin`; from `from_` to before `to`, if given."""
        bounds = {"from": from_, "to": to}
        texts = {name: at and at.astimezone().isoformat() for name, at in bounds.items()}
        return self._make(list_usage({**filters, **texts}))


class ApiKeys:
    """API keys: the caller's own, and for admins also those of others."""

    def __init__(self, make: Make, switch: Callable[[str], None]) -> None:
        self._make = make
        self._switch = switch

    def list(self, **filters: Unpack[ApiKeyFilters]) -> Listing[ApiKey]:
        """The caller's keys or another user's, newest first, including expired and revoked ones."""
        return Listing(self._make, KEYS, filters)

    def get(self, key_id: int) -> ApiKey:
        """One key. Raises `NotFound`."""
        return self._make(KEYS.get(key_id))

    def create(
        self, *, idempotency_key: str | None = None, **key: Unpack[NewApiKey]
    ) -> ApiKeyWithSecret:
        """Creates a key, which is in the `key` of the result. `idempotency_key` works as in
        `Products.create`. Raises `SecretLost` if the response was lost."""
        return self._make(create_key(key, idempotency_key))

    def revoke(self, key_id: int) -> None:
        """Revokes a key for good, from its next request on."""
        self._make(KEYS.delete(key_id, None))

    def rotate(self, *, switch: bool = False) -> RotatedKey:
        """Replaces the client's key. The new key is in the `key` of the result; the old one works
        for 24 more hours. With `switch`, this client uses the new one immediately.

        Raises `Conflict` if the key was rotated before, `SecretLost` if the response was lost.
        """
        rotated = self._make(rotate_key())
        if switch:
            self._switch(rotated.key)
        return rotated


class EventListing:
    """Events that are read page by page, as needed."""

    def __init__(self, make: Make, filters: EventFilters) -> None:
        self._make = make
        self._filters = filters

    def __iter__(self) -> Iterator[Event]:
        """All events up to the newest, oldest first. Reads 100 per request unless `limit` is
        given."""
        filters, more = at_once(self._filters), True
        while more:
            page = self._make(list_events(filters))
            yield from page
            filters["after"], more = page.pagination.last_id, page.pagination.has_more

    def page(self) -> EventPage:
        """One page: 25 events unless `limit` is given. Its `pagination.last_id` is the next
        `after`."""
        return self._make(list_events(self._filters))


class Events:
    """The events that the caller may see."""

    def __init__(self, make: Make, follow: Callable[[StreamFilters], EventStream]) -> None:
        self._make = make
        self._follow = follow

    def list(self, **filters: Unpack[EventFilters]) -> EventListing:
        """Events, oldest first. A reader that continues `after` the last event it has misses none.
        Reading raises `Gone` if that event is older than those that are kept."""
        return EventListing(self._make, filters)

    def stream(self, **filters: Unpack[StreamFilters]) -> EventStream:
        """Events as they happen: those from now on, or those `after` an id."""
        return self._follow(filters)


class Webhooks:
    """The webhooks, which send events to receivers."""

    def __init__(self, make: Make) -> None:
        self._make = make

    def list(self) -> tuple[Webhook, ...]:
        """All webhooks, newest first."""
        return self._make(list_webhooks())

    def get(self, webhook_id: int) -> Webhook:
        """One webhook. Raises `NotFound`."""
        return self._make(WEBHOOKS.get(webhook_id))

    def create(
        self, *, idempotency_key: str | None = None, **webhook: Unpack[NewWebhook]
    ) -> WebhookWithSecret:
        """Creates a webhook, which is sent events from then on. `idempotency_key` works as in
        `Products.create`. Raises `Conflict` if there are 20 webhooks already, `SecretLost` if the
        response was lost."""
        return self._make(WEBHOOKS.create(webhook, idempotency_key))

    def update(
        self,
        webhook_id: int,
        *,
        if_match: str | None = None,
        **changes: Unpack[WebhookChanges],
    ) -> Webhook:
        """Changes the given fields and leaves the others. `if_match` works as in
        `Products.update`."""
        return self._make(WEBHOOKS.update(webhook_id, changes, if_match))

    def delete(self, webhook_id: int, *, if_match: str | None = None) -> None:
        """Deletes a webhook and ends its deliveries. `if_match` as in `Products.update`."""
        self._make(WEBHOOKS.delete(webhook_id, if_match))

    def rotate_secret(self, webhook_id: int) -> WebhookWithSecret:
        """Gives a webhook a new secret; for 24 hours the old one signs too. Raises `SecretLost` if
        the response was lost."""
        return self._make(rotate_secret(webhook_id))

    def test(self, webhook_id: int) -> None:
        """Sends a webhook an event of type `ping`, once. Raises `Conflict` if it is disabled."""
        self._make(test_webhook(webhook_id))

    def deliveries(self, webhook_id: int, **filters: Unpack[DeliveryFilters]) -> Listing[Delivery]:
        """The deliveries of a webhook, newest first, including pending ones."""
        return Listing(self._make, deliveries_of(webhook_id), filters)

    def redeliver(self, webhook_id: int, delivery_id: int) -> None:
        """Sends the event of a delivery again, as a new delivery. Raises `Gone` if the event is no
        longer kept, `Conflict` if the webhook is disabled."""
        self._make(redeliver(webhook_id, delivery_id))
