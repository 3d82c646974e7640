"""The operations: which request each sends, and how it reads the response."""

import operator
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Generic, TypeAlias, TypeVar
from urllib.parse import quote, unquote, urlencode

from portico_client.errors import SecretLost
from portico_client.events import Event
from portico_client.flow import Response
from portico_client.models import (
    Account,
    ApiKey,
    ApiKeyWithSecret,
    AuditEntry,
    CreatedUser,
    Delivery,
    EventPagination,
    Invitation,
    InvitationWithLink,
    OAuthClient,
    OAuthClientWithSecret,
    Pagination,
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
from portico_client.reading import data_of, decode, encode, event, reader, unexpected

T = TypeVar("T")
Item = TypeVar("Item")
One = TypeVar("One")
Made = TypeVar("Made")

JSON = {"content-type": "application/json"}
WHOLE_PAGE = 100
"""The default page size for reading a whole list: the maximum, which takes the fewest requests."""

# Neither matches the same text in two ways: with a long link, backtracking would take for ever.
_NEXT = re.compile(r'<([^<>]*)>; *rel="next"')
_CURSOR = re.compile(r"[?&]cursor=([^&]+)")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list. Iterating over it yields its items."""

    items: tuple[T, ...]
    pagination: Pagination

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True)
class EventPage:
    """One page of events, oldest first. Iterating over it yields them."""

    items: tuple[Event, ...]
    pagination: EventPagination

    def __iter__(self) -> Iterator[Event]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One operation. `path` is relative to the base address and includes the query; `read` converts
    a successful response."""

    method: str
    path: str
    read: Callable[[Response], T]
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None


def query(parameters: Mapping[str, Any]) -> str:
    """Parameters as the query of an address, with the `?`; empty if there are none. Parameters that
    are None are left out."""
    pairs = {name: _text(value) for name, value in parameters.items() if value is not None}
    return f"?{urlencode(pairs, quote_via=quote, safe='')}" if pairs else ""


def at_once(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Filters for reading a whole list: with the largest page size unless they have a `limit`."""
    limit = filters.get("limit")
    return {**filters, "limit": WHOLE_PAGE if limit is None else limit}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def body(fields: Mapping[str, Any]) -> bytes:
    """Fields as the body of a request."""
    return encode(fields).encode()


Part: TypeAlias = tuple[tuple[T, ...], str | None]
"""Items of a list, and the cursor of the next ones, or None at the end (RFC 8288)."""


class Pages(Generic[Item]):
    """A list of `Item`s, read by page numbers or by cursors."""

    def __init__(self, path: str, item: type[Item]) -> None:
        self._path = path
        self._item = reader(tuple[item, ...])  # type: ignore[valid-type]  # mypy sees a variable

    def page(self, filters: Mapping[str, Any], number: int) -> Call[Page[Item]]:
        """Reads one page of a list."""
        return Call("GET", self._path + query({**filters, "page": number}), self._read_page)

    def behind(self, filters: Mapping[str, Any], cursor: str | None) -> Call[Part[Item]]:
        """Reads the items after the cursor, or the first ones if it is None."""
        at = {} if cursor is None else {"cursor": cursor}

        def read(response: Response) -> Part[Item]:
            link = _NEXT.search(response.headers.get("link", ""))
            found = link and _CURSOR.search(link[1])
            following = found and unquote(found[1])
            if following is not None and following == cursor:  # an endless loop
                raise unexpected(response)
            return self._read_page(response).items, following

        return Call("GET", self._path + query({**filters, **at}), read)

    def _read_page(self, response: Response) -> Page[Item]:
        try:
            whole = decode(response.content)
            return Page(self._item(whole["data"]), _pagination(whole["pagination"]))
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise unexpected(response) from error


class Kind(Pages[Item], Generic[Item, One, Made]):
    """The operations on one kind of resource. Lists have `Item`s, reading and changing one returns
    a `One`, creating one a `Made`. If a `Made` has a secret, `lost` is the message of `SecretLost`
    for a response that repeats an earlier one without the secret."""

    def __init__(
        self, path: str, item: type[Item], one: type[One], made: type[Made], lost: str = ""
    ) -> None:
        super().__init__(path, item)
        self._one = one
        self._made = made
        self._lost = lost

    def get(self, id_: int | str) -> Call[One]:
        """Reads one."""
        return Call("GET", self.at(id_), self._read_one)

    def create(self, fields: Mapping[str, Any], idempotency_key: str | None) -> Call[Made]:
        """Creates one."""
        headers = {**JSON, **key_header(idempotency_key)}
        return Call("POST", self._path, self.read_made, headers, body(fields))

    def update(self, id_: int | str, changes: Mapping[str, Any], if_match: str | None) -> Call[One]:
        """Changes one."""
        headers = {**JSON, **condition(if_match)}
        return Call("PATCH", self.at(id_), self._read_one, headers, body(changes))

    def delete(self, id_: int | str, if_match: str | None) -> Call[None]:
        """Deletes one."""
        return Call("DELETE", self.at(id_), nothing, condition(if_match))

    def at(self, id_: int | str) -> str:
        """The path of one."""
        return f"{self._path}/{id_ if id_ == ME else operator.index(id_)}"  # type: ignore[arg-type]  # a text other than ME is refused here

    def _read_one(self, response: Response) -> One:
        one: One = tagged(response, self._one)
        return one

    def read_made(self, response: Response) -> Made:
        """Reads a new one. Raises `SecretLost`."""
        if self._lost and is_replayed(response):
            one: Any = self._read_one(response)
            raise SecretLost(self._lost.format(one=one))
        made: Made = tagged(response, self._made)
        return made


def tagged(response: Response, kind: type) -> Any:
    """The `data` of a successful response, with the entity tag if the `kind` has that field."""
    tag = {"etag": response.headers.get("etag")} if hasattr(kind, "etag") else {}
    return data_of(response, kind, **tag)


ME = "me"
"""Used instead of an id for the calling user."""


class KindRecord(dict[str, Any]):
    """A record of a kind that the server's operators have declared: its fields by name, fractions
    as `Decimal`. `etag` identifies the state that was read, as a product's."""

    etag: str | None = None


_KIND = re.compile(r"[a-z][a-z0-9-]*")


class RecordKind(Kind[KindRecord, KindRecord, KindRecord]):
    """The operations on a kind that the server's operators have declared."""

    def __init__(self, many: str) -> None:
        if not _KIND.fullmatch(many):
            raise ValueError(f"{many!r} is not the name of a kind, such as orders")
        super().__init__(f"/{many}", KindRecord, KindRecord, KindRecord)
        self._item = lambda items: tuple(KindRecord(item) for item in items)

    def _read_one(self, response: Response) -> KindRecord:
        data = data_of(response, dict)
        if not isinstance(data, dict):
            raise unexpected(response)
        record = KindRecord(data)
        record.etag = response.headers.get("etag")
        return record

    def read_made(self, response: Response) -> KindRecord:
        """Reads a new one."""
        return self._read_one(response)


class AccountKind(Kind[Account, Account, Account]):
    """The operations on the accounts of users."""

    def at(self, id_: int | str) -> str:
        """The path of a user's account."""
        return f"{super().at(id_)}/account"


class ClientKind(Kind[OAuthClient, OAuthClient, OAuthClientWithSecret]):
    """The operations on OAuth clients, whose id is a text."""

    def at(self, id_: int | str) -> str:
        """The path of a client."""
        return f"{self._path}/{quote(str(id_), safe='')}"

    def read_made(self, response: Response) -> OAuthClientWithSecret:
        """Reads a new one. Raises `SecretLost`, unless it is public."""
        if self._read_one(response).public:
            public: OAuthClientWithSecret = tagged(response, OAuthClientWithSecret)
            return public
        return super().read_made(response)


PRODUCTS = Kind("/products", ProductItem, Product, Product)
USERS = Kind("/users", UserItem, User, CreatedUser)
ACCOUNTS = AccountKind("/users", Account, Account, Account)
KEYS = Kind(
    "/api-keys",
    ApiKey,
    ApiKey,
    ApiKeyWithSecret,
    "the key {one.id} was created, but the response was lost: revoke it",
)
WEBHOOKS = Kind(
    "/webhooks",
    Webhook,
    Webhook,
    WebhookWithSecret,
    "webhook {one.id} has a new secret, but the response was lost: rotate it",
)

INVITATIONS = Kind(
    "/invitations",
    Invitation,
    Invitation,
    InvitationWithLink,
    "invitation {one.id} was made, but the response was lost: renew it",
)
OAUTH_CLIENTS = ClientKind(
    "/clients",
    OAuthClient,
    OAuthClient,
    OAuthClientWithSecret,
    "{one.client_id} has a new secret, but the response was lost: rotate it",
)

_pagination: Callable[[Any], Pagination] = reader(Pagination)


_event_pagination: Callable[[Any], EventPagination] = reader(EventPagination)


def _log(
    path: str,
    filters: Mapping[str, Any],
    items: Callable[[Any], tuple[Any, ...]],
    page: Callable[[tuple[Any, ...], EventPagination], Any],
) -> Call[Any]:
    """Reads one page of what is numbered in order."""

    def read(response: Response) -> Any:
        try:
            whole = decode(response.content)
            found = page(items(whole["data"]), _event_pagination(whole["pagination"]))
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise unexpected(response) from error
        last = found.pagination.last_id
        if found.pagination.has_more and last == filters.get("after", 0):  # an endless loop
            raise unexpected(response)
        return found

    return Call("GET", path + query(filters), read)


def list_events(filters: Mapping[str, Any]) -> Call[EventPage]:
    """Reads one page of events."""
    return _log("/events", filters, lambda data: tuple(map(event, data)), EventPage)


@dataclass(frozen=True, slots=True)
class AuditPage:
    """One page of the audit log, oldest first. Iterating over it yields its entries."""

    items: tuple[AuditEntry, ...]
    pagination: EventPagination

    def __iter__(self) -> Iterator[AuditEntry]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


_entries: Callable[[Any], tuple[AuditEntry, ...]] = reader(tuple[AuditEntry, ...])


def list_audit(filters: Mapping[str, Any]) -> Call[AuditPage]:
    """Reads one page of the audit log."""
    return _log("/audit", filters, _entries, AuditPage)


def list_usage(filters: Mapping[str, Any]) -> Call[tuple[UsageRow, ...]]:
    """Reads how many requests an account made."""
    return Call("GET", "/usage" + query(filters), _data(tuple[UsageRow, ...]))


def renew_invitation(invitation_id: int) -> Call[InvitationWithLink]:
    """Gives an invitation a new link."""
    path = f"{INVITATIONS.at(invitation_id)}/renew"
    return Call("POST", path, INVITATIONS.read_made, key_header(None))


def rotate_client_secret(client_id: str) -> Call[OAuthClientWithSecret]:
    """Gives an OAuth client a new secret."""
    path = f"{OAUTH_CLIENTS.at(client_id)}/rotate-secret"
    return Call("POST", path, OAUTH_CLIENTS.read_made, key_header(None))


def create_key(fields: Mapping[str, Any], idempotency_key: str | None) -> Call[ApiKeyWithSecret]:
    """Creates an API key."""
    end = fields.get("expires_at")
    if isinstance(end, datetime):
        fields = {**fields, "expires_at": end.astimezone().isoformat()}
    return KEYS.create(fields, idempotency_key)


def rotate_key() -> Call[RotatedKey]:
    """Replaces the calling API key."""

    def read(response: Response) -> RotatedKey:
        if is_replayed(response):
            hint = data_of(response, _Hinted).hint
            raise SecretLost(f"the key was rotated, but its successor {hint} was lost on the way")
        rotated: RotatedKey = data_of(response, RotatedKey)
        return rotated

    return Call("POST", "/api-keys/rotate", read, key_header(None))


@dataclass(frozen=True, slots=True)
class _Hinted:
    hint: str


def list_plans() -> Call[tuple[Plan, ...]]:
    """Reads all plans."""
    return Call("GET", "/plans", _data(tuple[Plan, ...]))


def list_webhooks() -> Call[tuple[Webhook, ...]]:
    """Reads all webhooks."""
    return Call("GET", "/webhooks", _data(tuple[Webhook, ...]))


def rotate_secret(webhook_id: int) -> Call[WebhookWithSecret]:
    """Gives a webhook a new secret."""
    path = f"{WEBHOOKS.at(webhook_id)}/rotate-secret"
    return Call("POST", path, WEBHOOKS.read_made, key_header(None))


def test_webhook(webhook_id: int) -> Call[None]:
    """Sends a webhook a `ping`."""
    return Call("POST", f"{WEBHOOKS.at(webhook_id)}/test", nothing, key_header(None))


def deliveries_of(webhook_id: int) -> Pages[Delivery]:
    """The list of a webhook's deliveries."""
    return Pages(f"{WEBHOOKS.at(webhook_id)}/deliveries", Delivery)


def redeliver(webhook_id: int, delivery_id: int) -> Call[None]:
    """Sends the event of a delivery again."""
    path = f"{WEBHOOKS.at(webhook_id)}/deliveries/{operator.index(delivery_id)}/redeliver"
    return Call("POST", path, nothing, key_header(None))


def verify(check: Mapping[str, Any]) -> Call[Verified]:
    """Asks whether a credential is valid, and counts the request against its account."""
    return Call("POST", "/verify", _data(Verified), JSON, body(check))


def _data(kind: Any) -> Callable[[Response], Any]:
    """Reads the `data` of a successful response."""
    return lambda response: data_of(response, kind)


def is_replayed(response: Response) -> bool:
    """Whether a response repeats that of an earlier request with the same key, without secrets."""
    return response.headers.get("idempotent-replayed") == "true"


def key_header(idempotency_key: str | None) -> dict[str, str]:
    """The header by which the service recognizes a repeated request: a new key unless one is
    given."""
    if idempotency_key is None:
        return {"idempotency-key": str(uuid.uuid4())}
    return {"idempotency-key": _sendable("idempotency_key", idempotency_key)}


def condition(if_match: str | None) -> dict[str, str]:
    """The `If-Match` header, if an entity tag is given."""
    return {} if if_match is None else {"if-match": _sendable("if_match", if_match)}


def _sendable(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text, not a {type(value).__name__}")
    if not value.isascii() or not value.isprintable() or not value or value != value.strip():
        raise ValueError(f"{name} must be ASCII characters, without spaces around them")
    return value


def nothing(response: Response) -> None:
    """Reads a response without content. Raises `UnexpectedAnswer` for any other, such as a page
    from a proxy."""
    if response.status not in (202, 204):
        raise unexpected(response)
