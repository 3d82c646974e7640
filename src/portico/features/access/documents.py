"""Clients without registration: a `client_id` that is an https URL names a document about the
client (OAuth Client ID Metadata Document).

It is fetched as webhooks are sent, and kept in memory, as are the keys at its `jwks_uri`. A row is
made once somebody consents.
"""

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from portico.core.errors import BrokenRule, Invalid
from portico.core.oauth import MAX_URI_LENGTH, AuthorizationRefused, Client
from portico.core.scopes import SCOPES, VERIFY
from portico.core.times import SECOND, Clock
from portico.environment import Environment
from portico.features.access.client_keys import (
    AssertionClaims,
    keys_of,
    published_keys,
    signed_claims,
)
from portico.features.access.clients import Registration, checked
from portico.features.access.storage import Clients
from portico.outbound.exchange import Unsent
from portico.outbound.sender import Sender

LONGEST = 16_384
SECONDS = 5.0
AT_ONCE = 20
"""How many documents are fetched at the same time."""
KEPT = 1_000
"""How many documents are kept."""
LEAST_SECONDS, MOST_SECONDS = 300, 86_400
"""How long a document is kept at least and at most, whatever its `Cache-Control` says."""

log = logging.getLogger(__name__)

T = TypeVar("T")

_MAX_AGE = re.compile(r"(?:^|[\s,])max-age=(\d{1,9})(?:$|[\s,])")


class Metadata(msgspec.Struct):
    """What a client says of itself (RFC 7591 §2), as far as it matters here."""

    redirect_uris: list[str]
    client_id: str | None = None
    client_name: str | None = None
    scope: str | None = None
    token_endpoint_auth_method: str | None = None
    jwks: dict[str, Any] | None = None
    jwks_uri: str | None = None


class _Kept(NamedTuple, Generic[T]):
    read: T
    since: int
    until: int


def is_document(client_id: str) -> bool:
    """Whether a `client_id` names a document."""
    return client_id.startswith("https://")


class _Fetched(Generic[T]):
    """What clients publish, kept as HTTP caching says."""

    def __init__(self, sender: Sender, clock: Clock, read: Callable[[str, bytes], T]) -> None:
        """`read` makes something of an address and what it answered; it may raise ValueError."""
        self._sender = sender
        self._clock = clock
        self._read = read
        self._kept: OrderedDict[str, _Kept[T]] = OrderedDict()
        self._fetching = asyncio.Semaphore(AT_ONCE)

    def kept(self, url: str) -> _Kept[T] | None:
        """What was read there, if it still counts."""
        kept = self._kept.get(url)
        return kept if kept is not None and self._clock() < kept.until else None

    async def fetch(self, url: str) -> _Kept[T]:
        """Reads an address. Raises `AuthorizationRefused` (`invalid_client`)."""
        async with self._fetching:
            try:
                found = await self._sender.read(url, longest=LONGEST, seconds=SECONDS)
            except Unsent as error:
                log.info("%s cannot be read: %s", url, error.reason)
                # Not why: anybody may ask, and learn where names of the network inside lead.
                raise _refused("The application's document cannot be read.") from None
        if found.status != 200 or len(found.body) > LONGEST:
            raise _refused("The application's document must answer with 200 and at most 16 KiB.")
        try:
            read = self._read(url, found.body)
        except (ValueError, RecursionError):
            raise _refused("The application's document is not what it should be.") from None
        now = self._clock()
        kept = _Kept(read, now, now + _lifetime(found.cache_control) * SECOND)
        self._kept[url] = kept
        self._kept.move_to_end(url)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return kept


class Documents:
    """The documents of clients, in one environment."""

    def __init__(self, env: Environment, sender: Sender) -> None:
        self._env = env
        self._metadata = _Fetched(sender, env.clock, self._described)
        self._keys = _Fetched(sender, env.clock, lambda _, body: published_keys(body))

    async def client(self, url: str) -> Client:
        """The client that a document describes. Its `id` is 0 until somebody has consented; as long
        as the document differs from what is stored, it has other values. Raises
        `AuthorizationRefused` (`invalid_client`)."""
        kept = self._metadata.kept(url)
        if kept is None:
            self._check(url)
            kept = await self._metadata.fetch(url)
        row = await self._env[Clients].by_client_id(url)
        if row is None:
            return kept.read
        return msgspec.structs.replace(kept.read, id=row.id, created_at=row.created_at)

    async def claims(self, client: Client, assertion: str) -> AssertionClaims | None:
        """The claims of an assertion that a client has signed; None if it has not. A key that is
        not known is looked for at its `jwks_uri`, but not again within five minutes. Raises
        `AuthorizationRefused` (`invalid_client`)."""
        if client.origin == "document":
            client = await self.client(client.client_id)
        if client.jwks is not None:
            return signed_claims(assertion, keys_of(client.jwks))
        url = client.jwks_uri
        if url is None:
            return None
        kept = self._keys.kept(url)
        if kept is not None:
            claims = signed_claims(assertion, kept.read)
            if claims is not None or self._env.clock() < kept.since + LEAST_SECONDS * SECOND:
                return claims
        return signed_claims(assertion, (await self._keys.fetch(url)).read)

    def _check(self, url: str) -> None:
        settings = self._env.settings
        if not settings.client_id_documents:
            raise _refused("There is no application with this client_id.")
        try:
            parts = urlsplit(url)
            self._env.destinations.check_url(url)
        except (ValueError, BrokenRule) as fault:
            raise _refused(f"The client_id cannot be fetched: it {fault}.") from None
        path = parts.path.split("/")
        if len(url) > MAX_URI_LENGTH or len(path) < 2 or parts.path == "/" or {".", ".."} & {*path}:
            raise _refused("A client_id that is a URL must have a path, without dot segments.")
        if "@" in parts.netloc or "#" in url or parts.hostname != parts.netloc.partition(":")[0]:
            raise _refused("A client_id that is a URL must have its host in lower case, no user.")
        if settings.client_id_hosts and parts.hostname not in settings.client_id_hosts:
            raise _refused(f"Applications of {parts.hostname} are not admitted here.")

    def _described(self, url: str, body: bytes) -> Client:
        try:
            metadata = msgspec.json.decode(body, type=Metadata)
            registration = own_registration(metadata, urlsplit(url).hostname or "")
            facts = checked(registration)
            if registration.jwks_uri is not None:
                self._env.destinations.check_url(registration.jwks_uri)
        except (ValueError, RecursionError):
            raise _refused("The application's document is not client metadata in JSON.") from None
        except BrokenRule as rule:
            raise _refused(f"The application's document: jwks_uri {rule}.") from None
        except Invalid as invalid:
            fault = invalid.details[0]
            raise _refused(f"The application's document: {fault.field} {fault.message}.") from None
        if metadata.client_id != url:
            raise _refused("The client_id in the application's document must be its own address.")
        return Client(
            id=0,
            client_id=url,
            secret_hash=None,
            user_id=None,
            created_at=self._env.clock(),
            origin="document",
            **facts,
        )


def own_registration(metadata: Metadata, otherwise: str) -> Registration:
    """As `public_registration`, for a client that may have keys of its own."""
    if metadata.token_endpoint_auth_method != "private_key_jwt":  # noqa: S105 - no password
        return public_registration(metadata, otherwise)
    named = msgspec.structs.replace(metadata, token_endpoint_auth_method=None)
    keys = None if metadata.jwks is None else msgspec.json.encode(metadata.jwks).decode()
    if keys is None and metadata.jwks_uri is None:
        raise ValueError("private_key_jwt needs jwks or jwks_uri")
    return public_registration(named, otherwise)._replace(jwks=keys, jwks_uri=metadata.jwks_uri)


def public_registration(metadata: Metadata, otherwise: str) -> Registration:
    """What a client without a secret registers by itself; `otherwise` is its name if it has none.
    It may ask for every scope but the most powerful ones. Raises `ValueError`."""
    if metadata.token_endpoint_auth_method not in (None, "none"):
        raise ValueError("token_endpoint_auth_method must be none")
    open_to_all = [scope for scope in SCOPES if scope not in ("admin", VERIFY)]
    if metadata.scope is not None:
        asked = metadata.scope.split()
        open_to_all = [scope for scope in open_to_all if scope in asked]
    name = (metadata.client_name or "").strip()
    return Registration(name or otherwise, metadata.redirect_uris, " ".join(open_to_all))


def _lifetime(cache_control: str) -> int:
    found = _MAX_AGE.search(cache_control.lower())
    if found is None or "no-store" in cache_control.lower():
        return LEAST_SECONDS
    return min(max(int(found[1]), LEAST_SECONDS), MOST_SECONDS)


def _refused(message: str) -> AuthorizationRefused:
    return AuthorizationRefused("invalid_client", message)
