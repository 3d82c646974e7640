"""The client for asyncio."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar, Unpack

from portico_client.access import Access
from portico_client.calls import ME, PRODUCTS, USERS, Call, Pages, at_once, list_events
from portico_client.connection import addresses, chosen
from portico_client.credentials import Credential
from portico_client.drivers import AsyncClosing, AsyncDriver, AsyncOptions
from portico_client.following import Following
from portico_client.inputs import (
    ApiKeyFilters,
    DeliveryFilters,
    EventFilters,
    NewApiKey,
    NewProduct,
    NewUser,
    NewWebhook,
    ProductChanges,
    ProductFilters,
    StreamFilters,
    UserChanges,
    UserFilters,
    WebhookChanges,
)
from portico_client.key_calls import KEYS, create_key, get_key, revoke_key, rotate_key
from portico_client.models import (
    ApiKey,
    ApiKeyWithSecret,
    CreatedUser,
    Delivery,
    Event,
    EventPage,
    Page,
    Product,
    ProductItem,
    RotatedKey,
    User,
    UserItem,
    Webhook,
    WebhookWithSecret,
)
from portico_client.streams import AsyncEventStream
from portico_client.webhook_calls import (
    create_webhook,
    delete_webhook,
    deliveries_of,
    get_webhook,
    list_webhooks,
    redeliver,
    rotate_secret,
    test_webhook,
    update_webhook,
)

T = TypeVar("T")


class AsyncMake(Protocol):
    """Makes a call."""

    async def __call__(self, call: Call[T]) -> T:
        """What the call gives. Raises `PorticoError`."""
        ...


class AsyncClient(AsyncClosing):
    """Calls the API of one environment as one account. Tasks of one event loop may share it: each
    `asyncio.run` makes its own."""

    def __init__(
        self,
        api_key: str | None = None,
        *,
        auth: Credential | None = None,
        base_url: str | None = None,
        auth_url: str | None = None,
        **options: Unpack[AsyncOptions],
    ) -> None:
        """Signs in by `api_key`, else by `auth`, else by the key in `PORTICO_API_KEY`.

        `base_url` is the API's address (else `PORTICO_BASE_URL`, else `https://localhost:8443/v1`),
        `auth_url` that of the authorization server (else `PORTICO_AUTH_URL` unless `base_url` is
        given, else `auth` in the place of the base's last part). Raises ValueError where an
        argument is impossible.
        """
        credential = chosen(api_key, auth)
        where = addresses(base_url, auth_url)
        self._driver = AsyncDriver(options)
        self._access = Access(where, self._driver.retries, self._driver.clock, credential)
        self.products = AsyncProducts(self._make)
        self.users = AsyncUsers(self._make)
        self.api_keys = AsyncApiKeys(self._make, self._access.switch)
        self.events = AsyncEvents(self._make, self._follow)
        self.webhooks = AsyncWebhooks(self._make)

    def __repr__(self) -> str:
        return f"<AsyncClient of {self._access.addresses.base}>"

    async def close(self) -> None:
        """Closes the connections. A login or session stays: `logout` ends it."""
        await self._driver.close()

    async def logout(self) -> None:
        """Ends the login (`Login`) or session (`SessionLogin`) that this client has, if any; the
        next call signs in again. Raises ValueError for an API key and OAuth tokens."""
        await self._driver.run(self._access.end())

    async def me(self) -> User:
        """The calling user."""
        return await self._make(USERS.get(ME))

    async def update_me(
        self, *, if_match: str | None = None, **changes: Unpack[UserChanges]
    ) -> User:
        """Changes the calling user: name, avatar, preferences, and the password together with
        `current_password`. `if_match` as in `Products.update`."""
        return await self._make(USERS.update(ME, changes, if_match))

    async def _make(self, call: Call[T]) -> T:
        return await self._driver.run(self._access.make(call))

    def _follow(self, filters: StreamFilters) -> AsyncEventStream:
        following = Following(self._access, self._driver.retries, filters)
        return AsyncEventStream(self._driver, following)


class AsyncListing(Generic[T]):
    """A list that is read as it is needed, page by page."""

    def __init__(self, make: AsyncMake, kind: Pages[T], filters: Mapping[str, Any]) -> None:
        self._make = make
        self._kind = kind
        self._filters = filters

    async def __aiter__(self) -> AsyncIterator[T]:
        """All items, each once. What others add or delete meanwhile moves none of the others; only
        one whose place in the order is changed may come twice, or not. Reads 100 at once unless
        `limit` was given."""
        filters, cursor = at_once(self._filters), None
        while True:
            items, cursor = await self._make(self._kind.behind(filters, cursor))
            for item in items:
                yield item
            if cursor is None:
                return

    async def page(self, number: int) -> Page[T]:
        """One page, counted from 1: 25 items unless `limit` was given. Empty past the end."""
        return await self._make(self._kind.page(self._filters, number))


class AsyncProducts:
    """The catalog."""

    def __init__(self, make: AsyncMake) -> None:
        self._make = make

    def list(self, **filters: Unpack[ProductFilters]) -> AsyncListing[ProductItem]:
        """Active products unless `status` says otherwise; the newest first, or with `search` the
        most relevant first. Nothing is read before it is asked for."""
        return AsyncListing(self._make, PRODUCTS, filters)

    async def get(self, product_id: int) -> Product:
        """One product. Raises `NotFound`."""
        return await self._make(PRODUCTS.get(product_id))

    async def create(
        self, *, idempotency_key: str | None = None, **product: Unpack[NewProduct]
    ) -> Product:
        """Makes a product, a draft unless `status` says otherwise.

        Whoever gives an `idempotency_key` may repeat the call with it for 24 hours, also from
        another process: it is carried out once. Without one, the client's own retries are as safe.
        """
        return await self._make(PRODUCTS.create(product, idempotency_key))

    async def update(
        self,
        product_id: int,
        *,
        if_match: str | None = None,
        **changes: Unpack[ProductChanges],
    ) -> Product:
        """Changes what is given, and leaves the rest.

        With the product's `etag` as `if_match`, raises `PreconditionFailed` if somebody else
        changed it meanwhile; without, a call whose answer is lost is not repeated.
        """
        return await self._make(PRODUCTS.update(product_id, changes, if_match))

    async def delete(self, product_id: int, *, if_match: str | None = None) -> None:
        """Deletes a product; `if_match` as in `update`."""
        await self._make(PRODUCTS.delete(product_id, if_match))


class AsyncUsers:
    """The people who have an account."""

    def __init__(self, make: AsyncMake) -> None:
        self._make = make

    def list(self, **filters: Unpack[UserFilters]) -> AsyncListing[UserItem]:
        """All users, the newest first unless `sort` and `order` say otherwise."""
        return AsyncListing(self._make, USERS, filters)

    async def get(self, user_id: int) -> User:
        """One user. Raises `NotFound`."""
        return await self._make(USERS.get(user_id))

    async def create(
        self, *, idempotency_key: str | None = None, **user: Unpack[NewUser]
    ) -> CreatedUser:
        """Makes a user; `idempotency_key` as in `Products.create`. Raises `Duplicate` where the
        e-mail is taken."""
        return await self._make(USERS.create(user, idempotency_key))

    async def update(
        self,
        user_id: int,
        *,
        if_match: str | None = None,
        **changes: Unpack[UserChanges],
    ) -> User:
        """Changes what is given, and leaves the rest; `if_match` as in `Products.update`."""
        return await self._make(USERS.update(user_id, changes, if_match))

    async def delete(self, user_id: int, *, if_match: str | None = None) -> None:
        """Deletes a user; `if_match` as in `Products.update`."""
        await self._make(USERS.delete(user_id, if_match))


class AsyncApiKeys:
    """API keys: the caller's own, and others' for admins."""

    def __init__(self, make: AsyncMake, switch: Callable[[str], None]) -> None:
        self._make = make
        self._switch = switch

    def list(self, **filters: Unpack[ApiKeyFilters]) -> AsyncListing[ApiKey]:
        """One's own keys or another user's, the newest first, those that have ended too."""
        return AsyncListing(self._make, KEYS, filters)

    async def get(self, key_id: int) -> ApiKey:
        """One key. Raises `NotFound`."""
        return await self._make(get_key(key_id))

    async def create(
        self, *, idempotency_key: str | None = None, **key: Unpack[NewApiKey]
    ) -> ApiKeyWithSecret:
        """Makes a key, which is in the answer's `key`; `idempotency_key` as in `Products.create`.
        Raises `SecretLost` where the answer was lost."""
        return await self._make(create_key(key, idempotency_key))

    async def revoke(self, key_id: int) -> None:
        """Ends a key, from its next request on and for good."""
        await self._make(revoke_key(key_id))

    async def rotate(self, *, switch: bool = False) -> RotatedKey:
        """Replaces the key: the new one is in the answer's `key`, the old one works for 24 hours
        more. With `switch`, this client uses the new one at once.

        Raises `Conflict` for a key that was rotated before, `SecretLost` where the answer was lost.
        """
        rotated = await self._make(rotate_key())
        if switch:
            self._switch(rotated.key)
        return rotated


class AsyncEventListing:
    """Events that are read as they are needed, page by page."""

    def __init__(self, make: AsyncMake, filters: EventFilters) -> None:
        self._make = make
        self._filters = filters

    async def __aiter__(self) -> AsyncIterator[Event]:
        """All events up to the newest, the oldest first. Reads 100 at once unless `limit` was
        given."""
        filters, more = at_once(self._filters), True
        while more:
            page = await self._make(list_events(filters))
            for event in page:
                yield event
            filters["after"], more = page.pagination.last_id, page.pagination.has_more

    async def page(self) -> EventPage:
        """One page: 25 events unless `limit` was given. The next is after its `last_id`."""
        return await self._make(list_events(self._filters))


class AsyncEvents:
    """What has happened, as far as the caller may see it."""

    def __init__(
        self, make: AsyncMake, follow: Callable[[StreamFilters], AsyncEventStream]
    ) -> None:
        self._make = make
        self._follow = follow

    def list(self, **filters: Unpack[EventFilters]) -> AsyncEventListing:
        """Events, the oldest first. Whoever goes on after the last that they have misses none.
        Raises `Gone` where it is older than what is kept, when it is asked for."""
        return AsyncEventListing(self._make, filters)

    def stream(self, **filters: Unpack[StreamFilters]) -> AsyncEventStream:
        """Events as they happen: from its beginning on, or from the first `after` an id."""
        return self._follow(filters)


class AsyncWebhooks:
    """The receivers that are told of events."""

    def __init__(self, make: AsyncMake) -> None:
        self._make = make

    async def list(self) -> tuple[Webhook, ...]:
        """All webhooks, the newest first."""
        return await self._make(list_webhooks())

    async def get(self, webhook_id: int) -> Webhook:
        """One webhook. Raises `NotFound`."""
        return await self._make(get_webhook(webhook_id))

    async def create(
        self, *, idempotency_key: str | None = None, **webhook: Unpack[NewWebhook]
    ) -> WebhookWithSecret:
        """Makes a webhook, which is told of events from then on; `idempotency_key` as in
        `Products.create`. Raises `Conflict` where there are 20, `SecretLost` where the answer was
        lost."""
        return await self._make(create_webhook(webhook, idempotency_key))

    async def update(
        self,
        webhook_id: int,
        *,
        if_match: str | None = None,
        **changes: Unpack[WebhookChanges],
    ) -> Webhook:
        """Changes what is given, and leaves the rest; `if_match` as in `Products.update`."""
        return await self._make(update_webhook(webhook_id, changes, if_match))

    async def delete(self, webhook_id: int, *, if_match: str | None = None) -> None:
        """Deletes a webhook: it is told of nothing any more; `if_match` as in `Products.update`."""
        await self._make(delete_webhook(webhook_id, if_match))

    async def rotate_secret(self, webhook_id: int) -> WebhookWithSecret:
        """Gives a webhook another secret; for 24 hours the one before signs too. Raises
        `SecretLost` where the answer was lost."""
        return await self._make(rotate_secret(webhook_id))

    async def test(self, webhook_id: int) -> None:
        """Sends a webhook an event of type `ping`, once. Raises `Conflict` where it is disabled."""
        await self._make(test_webhook(webhook_id))

    def deliveries(
        self, webhook_id: int, **filters: Unpack[DeliveryFilters]
    ) -> AsyncListing[Delivery]:
        """What a webhook was and is to be sent, the newest first."""
        return AsyncListing(self._make, deliveries_of(webhook_id), filters)

    async def redeliver(self, webhook_id: int, delivery_id: int) -> None:
        """Sends the event of a delivery once more, as a new one. Raises `Gone` where it is no
        longer kept, `Conflict` where the webhook is disabled."""
        await self._make(redeliver(webhook_id, delivery_id))
