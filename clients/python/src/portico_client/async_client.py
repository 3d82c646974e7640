"""The asynchronous client."""

from collections.abc import AsyncIterator, Callable, Mapping
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
from portico_client.drivers import AsyncClosing, AsyncDriver, AsyncOptions
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
from portico_client.streams import AsyncEventStream

T = TypeVar("T")


class AsyncMake(Protocol):
    """Makes a call."""

    async def __call__(self, call: Call[T]) -> T:
        """Returns the call's result. Raises `PorticoError`."""
        ...


class AsyncClient(AsyncClosing):
    """Calls the API of one environment as one account. Tasks of one event loop may share a client;
    each `asyncio.run` has a loop of its own."""

    def __init__(
        self,
        api_key: str | None = None,
        *,
        auth: Credential | None = None,
        base_url: str | None = None,
        auth_url: str | None = None,
        **options: Unpack[AsyncOptions],
    ) -> None:
        """Authenticates with `api_key`, or `auth`, or the key in `PORTICO_API_KEY`.

        `base_url` is the API's address. Default: `PORTICO_BASE_URL`, or
        `https://localhost:8443/v1`. `auth_url` is the authorization server's address. Default:
        `PORTICO_AUTH_URL` unless `base_url` is given, or the base with its last segment replaced by
        `auth`. Raises ValueError for an invalid argument.
        """
        credential = chosen(api_key, auth)
        where = addresses(base_url, auth_url)
        self._driver = AsyncDriver(options)
        self._access = Access(where, self._driver.retries, self._driver.clock, credential)
        self.products = AsyncProducts(self._make)
        self.users = AsyncUsers(self._make)
        self.accounts = AsyncAccounts(self._make)
        self.invitations = AsyncInvitations(self._make)
        self.clients = AsyncOAuthClients(self._make)
        self.audit = AsyncAudit(self._make)
        self.usage = AsyncUsage(self._make)
        self.api_keys = AsyncApiKeys(self._make, self._access.switch)
        self.events = AsyncEvents(self._make, self._follow)
        self.webhooks = AsyncWebhooks(self._make)

    def __repr__(self) -> str:
        return f"<AsyncClient of {self._access.addresses.base}>"

    async def close(self) -> None:
        """Closes the connections. A login or session stays valid: `logout` ends it."""
        await self._driver.close()

    async def logout(self) -> None:
        """Ends this client's login (`Login`) or session (`SessionLogin`), if any; the next call
        signs in again. Raises ValueError for an API key or OAuth tokens."""
        await self._driver.run(self._access.end())

    def kind(self, many: str) -> "AsyncRecords":
        """The records of a kind that the server's operators have declared, such as `orders`."""
        return AsyncRecords(self._make, RecordKind(many))

    async def me(self) -> User:
        """The calling user."""
        return await self._make(USERS.get(ME))

    async def update_me(
        self, *, if_match: str | None = None, **changes: Unpack[UserChanges]
    ) -> User:
        """Changes the calling user's name, avatar, preferences, or password (which requires
        `current_password`). `if_match` works as in `Products.update`."""
        return await self._make(USERS.update(ME, changes, if_match))

    async def plans(self) -> tuple[Plan, ...]:
        """The plans that accounts can have. Needs the scope `admin`."""
        return await self._make(list_plans())

    async def verify(self, **check: Unpack[Check]) -> Verified:
        """Asks whether a credential that a service was sent is valid, and counts the request
        against its account. Needs the scope `verify`."""
        return await self._make(verify(check))

    async def _make(self, call: Call[T]) -> T:
        return await self._driver.run(self._access.make(call))

    def _follow(self, filters: StreamFilters) -> AsyncEventStream:
        following = Following(self._access, self._driver.retries, filters)
        return AsyncEventStream(self._driver, following)


class AsyncListing(Generic[T]):
    """A list that is read page by page, as needed."""

    def __init__(self, make: AsyncMake, kind: Pages[T], filters: Mapping[str, Any]) -> None:
        self._make = make
        self._kind = kind
        self._filters = filters

    async def __aiter__(self) -> AsyncIterator[T]:
        """All items, each once. Items that are added or deleted meanwhile do not shift the others;
        only an item whose sort value changes may appear twice or not at all. Reads 100 items per
        request unless `limit` is given."""
        filters, cursor = at_once(self._filters), None
        while True:
            items, cursor = await self._make(self._kind.behind(filters, cursor))
            for item in items:
                yield item
            if cursor is None:
                return

    async def page(self, number: int) -> Page[T]:
        """One page, counted from 1: 25 items unless `limit` is given. Empty past the end."""
        return await self._make(self._kind.page(self._filters, number))


class AsyncProducts:
    """The catalog."""

    def __init__(self, make: AsyncMake) -> None:
        self._make = make

    def list(self, **filters: Unpack[ProductFilters]) -> AsyncListing[ProductItem]:
        """Products, active ones unless `status` is given: newest first, or most relevant first with
        `search`. Sends no request before items or a page are read."""
        return AsyncListing(self._make, PRODUCTS, filters)

    async def get(self, product_id: int) -> Product:
        """One product. Raises `NotFound`."""
        return await self._make(PRODUCTS.get(product_id))

    async def create(
        self, *, idempotency_key: str | None = None, **product: Unpack[NewProduct]
    ) -> Product:
        """Creates a product, as a draft unless `status` is given.

        With an `idempotency_key`, the call can be repeated for 24 hours, even by another process,
        and is carried out once. Without one, only the client's own retries are safe in this way.
        """
        return await self._make(PRODUCTS.create(product, idempotency_key))

    async def update(
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
        return await self._make(PRODUCTS.update(product_id, changes, if_match))

    async def delete(self, product_id: int, *, if_match: str | None = None) -> None:
        """Deletes a product. `if_match` works as in `update`."""
        await self._make(PRODUCTS.delete(product_id, if_match))


class AsyncRecords:
    """The records of a kind that the server's operators have declared."""

    def __init__(self, make: AsyncMake, kind: RecordKind) -> None:
        self._make = make
        self._kind = kind

    def list(self, **filters: Any) -> AsyncListing[KindRecord]:
        """Records, as the kind sorts them unless `sort` and `order` are given. Sends no request
        before items or a page are read."""
        return AsyncListing(self._make, self._kind, filters)

    async def get(self, record_id: int) -> KindRecord:
        """One record. Raises `NotFound`."""
        return await self._make(self._kind.get(record_id))

    async def create(self, *, idempotency_key: str | None = None, **fields: Any) -> KindRecord:
        """Creates a record. `idempotency_key` works as in `Products.create`."""
        return await self._make(self._kind.create(fields, idempotency_key))

    async def update(
        self, record_id: int, *, if_match: str | None = None, **changes: Any
    ) -> KindRecord:
        """Changes the given fields and leaves the others. `if_match` works as in
        `Products.update`."""
        return await self._make(self._kind.update(record_id, changes, if_match))

    async def delete(self, record_id: int, *, if_match: str | None = None) -> None:
        """Deletes a record. `if_match` works as in `Products.update`."""
        await self._make(self._kind.delete(record_id, if_match))


class AsyncUsers:
    """The users of the environment."""

    def __init__(self, make: AsyncMake) -> None:
        self._make = make

    def list(self, **filters: Unpack[UserFilters]) -> AsyncListing[UserItem]:
        """Users, newest first unless `sort` and `order` are given."""
        return AsyncListing(self._make, USERS, filters)

    async def get(self, user_id: int) -> User:
        """One user. Raises `NotFound`."""
        return await self._make(USERS.get(user_id))

    async def create(
        self, *, idempotency_key: str | None = None, **user: Unpack[NewUser]
    ) -> CreatedUser:
        """Creates a user. `idempotency_key` works as in `Products.create`. Raises `Duplicate` if
        the e-mail is taken."""
        return await self._make(USERS.create(user, idempotency_key))

    async def update(
        self,
        user_id: int,
        *,
        if_match: str | None = None,
        **changes: Unpack[UserChanges],
    ) -> User:
        """Changes the given fields and leaves the others. `if_match` works as in
        `Products.update`."""
        return await self._make(USERS.update(user_id, changes, if_match))

    async def delete(self, user_id: int, *, if_match: str | None = None) -> None:
        """Deletes a user. `if_match` works as in `Products.update`."""
        await self._make(USERS.delete(user_id, if_match))


class AsyncAccounts:
    """The users' accounts: plan, suspension, and what another system knows of them. One's own can
    be read, all else needs the scope `admin`."""

    def __init__(self, make: AsyncMake) -> None:
        self._make = make

    async def get(self, user_id: int) -> Account:
        """The account of a user. Raises `NotFound`."""
        return await self._make(ACCOUNTS.get(user_id))

    async def update(
        self,
        user_id: int,
        *,
        if_match: str | None = None,
        **changes: Unpack[AccountChanges],
    ) -> Account:
        """Changes the given fields and leaves the others. `if_match` works as in
        `Products.update`. Raises `Duplicate` if another user has the `external_id`."""
        return await self._make(ACCOUNTS.update(user_id, changes, if_match))


class AsyncInvitations:
    """Who may make themselves an account. All needs the scope `admin`; only live can invite."""

    def __init__(self, make: AsyncMake) -> None:
        self._make = make

    def list(self, **filters: Unpack[InvitationFilters]) -> AsyncListing[Invitation]:
        """Invitations that were not accepted, newest first, expired ones too."""
        return AsyncListing(self._make, INVITATIONS, filters)

    async def get(self, invitation_id: int) -> Invitation:
        """One invitation. Raises `NotFound`."""
        return await self._make(INVITATIONS.get(invitation_id))

    async def create(
        self, *, idempotency_key: str | None = None, **invitation: Unpack[NewInvitation]
    ) -> InvitationWithLink:
        """Invites an e-mail. `idempotency_key` works as in `Products.create`. Raises `Duplicate` if
        it has an account, `SecretLost` if the response was lost."""
        return await self._make(INVITATIONS.create(invitation, idempotency_key))

    async def renew(self, invitation_id: int) -> InvitationWithLink:
        """Replaces the link of an invitation, also of an expired one. Raises `SecretLost` if the
        response was lost."""
        return await self._make(renew_invitation(invitation_id))

    async def delete(self, invitation_id: int, *, if_match: str | None = None) -> None:
        """Revokes an invitation. `if_match` works as in `Products.update`."""
        await self._make(INVITATIONS.delete(invitation_id, if_match))


class AsyncOAuthClients:
    """The OAuth clients. All needs the scope `admin`."""

    def __init__(self, make: AsyncMake) -> None:
        self._make = make

    def list(self, **filters: Unpack[OAuthClientFilters]) -> AsyncListing[OAuthClient]:
        """Clients, newest first."""
        return AsyncListing(self._make, OAUTH_CLIENTS, filters)

    async def get(self, client_id: str) -> OAuthClient:
        """One client. Raises `NotFound`."""
        return await self._make(OAUTH_CLIENTS.get(client_id))

    async def create(
        self, *, idempotency_key: str | None = None, **client: Unpack[NewOAuthClient]
    ) -> OAuthClientWithSecret:
        """Registers a client. `idempotency_key` works as in `Products.create`. Raises `SecretLost`
        if the response was lost."""
        return await self._make(OAUTH_CLIENTS.create(client, idempotency_key))

    async def update(
        self, client_id: str, *, if_match: str | None = None, **changes: Unpack[OAuthClientChanges]
    ) -> OAuthClient:
        """Changes the given fields and leaves the others. `if_match` works as in
        `Products.update`."""
        return await self._make(OAUTH_CLIENTS.update(client_id, changes, if_match))

    async def delete(self, client_id: str, *, if_match: str | None = None) -> None:
        """Deletes a client, and ends its access to accounts. `if_match` as in `Products.update`."""
        await self._make(OAUTH_CLIENTS.delete(client_id, if_match))

    async def rotate_secret(self, client_id: str) -> OAuthClientWithSecret:
        """Gives a confidential client a new secret; the old one is void at once. Raises
        `SecretLost` if the response was lost."""
        return await self._make(rotate_client_secret(client_id))


class AsyncAuditListing:
    """Entries of the audit log that are read page by page, as needed."""

    def __init__(self, make: AsyncMake, filters: AuditFilters) -> None:
        self._make = make
        self._filters = filters

    async def __aiter__(self) -> AsyncIterator[AuditEntry]:
        """All entries up to the newest, oldest first. Reads 100 per request unless `limit` is
        given."""
        filters, more = at_once(self._filters), True
        while more:
            page = await self._make(list_audit(filters))
            for entry in page:
                yield entry
            filters["after"], more = page.pagination.last_id, page.pagination.has_more

    async def page(self) -> AuditPage:
        """One page: 25 entries unless `limit` is given. Its `pagination.last_id` is the next
        `after`."""
        return await self._make(list_audit(self._filters))


class AsyncAudit:
    """The audit log. It needs the scope `admin`."""

    def __init__(self, make: AsyncMake) -> None:
        self._make = make

    def list(self, **filters: Unpack[AuditFilters]) -> AsyncAuditListing:
        """Entries, oldest first. A reader that continues `after` the last entry it has misses none.
        Reading raises `Gone` if entries after that one were removed."""
        return AsyncAuditListing(self._make, filters)


class AsyncUsage:
    """How many requests accounts made."""

    def __init__(self, make: AsyncMake) -> None:
        self._make = make

    async def list(
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
        return await self._make(list_usage({**filters, **texts}))


class AsyncApiKeys:
    """API keys: the caller's own, and for admins also those of others."""

    def __init__(self, make: AsyncMake, switch: Callable[[str], None]) -> None:
        self._make = make
        self._switch = switch

    def list(self, **filters: Unpack[ApiKeyFilters]) -> AsyncListing[ApiKey]:
        """The caller's keys or another user's, newest first, including expired and revoked ones."""
        return AsyncListing(self._make, KEYS, filters)

    async def get(self, key_id: int) -> ApiKey:
        """One key. Raises `NotFound`."""
        return await self._make(KEYS.get(key_id))

    async def create(
        self, *, idempotency_key: str | None = None, **key: Unpack[NewApiKey]
    ) -> ApiKeyWithSecret:
        """Creates a key, which is in the `key` of the result. `idempotency_key` works as in
        `Products.create`. Raises `SecretLost` if the response was lost."""
        return await self._make(create_key(key, idempotency_key))

    async def revoke(self, key_id: int) -> None:
        """Revokes a key for good, from its next request on."""
        await self._make(KEYS.delete(key_id, None))

    async def rotate(self, *, switch: bool = False) -> RotatedKey:
        """Replaces the client's key. The new key is in the `key` of the result; the old one works
        for 24 more hours. With `switch`, this client uses the new one immediately.

        Raises `Conflict` if the key was rotated before, `SecretLost` if the response was lost.
        """
        rotated = await self._make(rotate_key())
        if switch:
            self._switch(rotated.key)
        return rotated


class AsyncEventListing:
    """Events that are read page by page, as needed."""

    def __init__(self, make: AsyncMake, filters: EventFilters) -> None:
        self._make = make
        self._filters = filters

    async def __aiter__(self) -> AsyncIterator[Event]:
        """All events up to the newest, oldest first. Reads 100 per request unless `limit` is
        given."""
        filters, more = at_once(self._filters), True
        while more:
            page = await self._make(list_events(filters))
            for event in page:
                yield event
            filters["after"], more = page.pagination.last_id, page.pagination.has_more

    async def page(self) -> EventPage:
        """One page: 25 events unless `limit` is given. Its `pagination.last_id` is the next
        `after`."""
        return await self._make(list_events(self._filters))


class AsyncEvents:
    """The events that the caller may see."""

    def __init__(
        self, make: AsyncMake, follow: Callable[[StreamFilters], AsyncEventStream]
    ) -> None:
        self._make = make
        self._follow = follow

    def list(self, **filters: Unpack[EventFilters]) -> AsyncEventListing:
        """Events, oldest first. A reader that continues `after` the last event it has misses none.
        Reading raises `Gone` if that event is older than those that are kept."""
        return AsyncEventListing(self._make, filters)

    def stream(self, **filters: Unpack[StreamFilters]) -> AsyncEventStream:
        """Events as they happen: those from now on, or those `after` an id."""
        return self._follow(filters)


class AsyncWebhooks:
    """The webhooks, which send events to receivers."""

    def __init__(self, make: AsyncMake) -> None:
        self._make = make

    async def list(self) -> tuple[Webhook, ...]:
        """All webhooks, newest first."""
        return await self._make(list_webhooks())

    async def get(self, webhook_id: int) -> Webhook:
        """One webhook. Raises `NotFound`."""
        return await self._make(WEBHOOKS.get(webhook_id))

    async def create(
        self, *, idempotency_key: str | None = None, **webhook: Unpack[NewWebhook]
    ) -> WebhookWithSecret:
        """Creates a webhook, which is sent events from then on. `idempotency_key` works as in
        `Products.create`. Raises `Conflict` if there are 20 webhooks already, `SecretLost` if the
        response was lost."""
        return await self._make(WEBHOOKS.create(webhook, idempotency_key))

    async def update(
        self,
        webhook_id: int,
        *,
        if_match: str | None = None,
        **changes: Unpack[WebhookChanges],
    ) -> Webhook:
        """Changes the given fields and leaves the others. `if_match` works as in
        `Products.update`."""
        return await self._make(WEBHOOKS.update(webhook_id, changes, if_match))

    async def delete(self, webhook_id: int, *, if_match: str | None = None) -> None:
        """Deletes a webhook and ends its deliveries. `if_match` as in `Products.update`."""
        await self._make(WEBHOOKS.delete(webhook_id, if_match))

    async def rotate_secret(self, webhook_id: int) -> WebhookWithSecret:
        """Gives a webhook a new secret; for 24 hours the old one signs too. Raises `SecretLost` if
        the response was lost."""
        return await self._make(rotate_secret(webhook_id))

    async def test(self, webhook_id: int) -> None:
        """Sends a webhook an event of type `ping`, once. Raises `Conflict` if it is disabled."""
        await self._make(test_webhook(webhook_id))

    def deliveries(
        self, webhook_id: int, **filters: Unpack[DeliveryFilters]
    ) -> AsyncListing[Delivery]:
        """The deliveries of a webhook, newest first, including pending ones."""
        return AsyncListing(self._make, deliveries_of(webhook_id), filters)

    async def redeliver(self, webhook_id: int, delivery_id: int) -> None:
        """Sends the event of a delivery again, as a new delivery. Raises `Gone` if the event is no
        longer kept, `Conflict` if the webhook is disabled."""
        await self._make(redeliver(webhook_id, delivery_id))
