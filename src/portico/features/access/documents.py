"""Clients without registration: a `client_id` that is an https URL names a document about the
client (OAuth Client ID Metadata Document).

It is fetched as webhooks are sent, and kept in memory. A row is made once somebody consents.
"""

import asyncio
import re
from collections import OrderedDict
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from portico.core.errors import BrokenRule, Invalid
from portico.core.networks import Destinations
from portico.core.oauth import MAX_URI_LENGTH, AuthorizationRefused, Client
from portico.core.scopes import SCOPES, VERIFY
from portico.core.times import SECOND, Clock
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

_MAX_AGE = re.compile(r"(?:^|[\s,])max-age=(\d{1,9})(?:$|[\s,])")


class Metadata(msgspec.Struct):
    """What a client says of itself (RFC 7591 §2), as far as it matters here."""

    redirect_uris: list[str]
    client_id: str | None = None
    client_name: str | None = None
    scope: str | None = None
    token_endpoint_auth_method: str | None = None


class _Kept(NamedTuple):
    client: Client
    until: int


def is_document(client_id: str) -> bool:
    """Whether a `client_id` names a document."""
    return client_id.startswith("https://")


class Documents:
    """The documents of clients, in one environment."""

    def __init__(
        self,
        sender: Sender,
        destinations: Destinations,
        clients: Clients,
        clock: Clock,
        hosts: frozenset[str] | None,
    ) -> None:
        """`hosts` are those whose documents count: empty for all, None for none."""
        self._sender = sender
        self._destinations = destinations
        self._clients = clients
        self._clock = clock
        self._hosts = hosts
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._fetching = asyncio.Semaphore(AT_ONCE)

    @property
    def on(self) -> bool:
        """Whether clients may name documents."""
        return self._hosts is not None

    async def client(self, url: str) -> Client:
        """The client that a document describes. Its `id` is 0 until somebody has consented; as long
        as the document differs from what is stored, it has other values. Raises
        `AuthorizationRefused` (`invalid_client`)."""
        kept = self._kept.get(url)
        if kept is None or self._clock() >= kept.until:
            self._check(url)
            async with self._fetching:
                kept = await self._fetch(url)
            self._kept[url] = kept
            self._kept.move_to_end(url)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        row = await self._clients.by_client_id(url)
        if row is None:
            return kept.client
        return msgspec.structs.replace(kept.client, id=row.id, created_at=row.created_at)

    def _check(self, url: str) -> None:
        if self._hosts is None:
            raise _refused("There is no application with this client_id.")
        try:
            parts = urlsplit(url)
            self._destinations.check_url(url)
        except (ValueError, BrokenRule) as fault:
            raise _refused(f"The client_id cannot be fetched: it {fault}.") from None
        path = parts.path.split("/")
        if len(url) > MAX_URI_LENGTH or len(path) < 2 or parts.path == "/" or {".", ".."} & {*path}:
            raise _refused("A client_id that is a URL must have a path, without dot segments.")
        if "@" in parts.netloc or "#" in url or parts.hostname != parts.netloc.partition(":")[0]:
            raise _refused("A client_id that is a URL must have its host in lower case, no user.")
        if self._hosts and parts.hostname not in self._hosts:
            raise _refused(f"Applications of {parts.hostname} are not admitted here.")

    async def _fetch(self, url: str) -> _Kept:
        try:
            found = await self._sender.read(url, longest=LONGEST, seconds=SECONDS)
        except Unsent as error:
            raise _refused(f"The application's document cannot be read: {error.reason}.") from None
        if found.status != 200 or len(found.body) > LONGEST:
            raise _refused("The application's document must answer with 200 and at most 16 KiB.")
        try:
            metadata = msgspec.json.decode(found.body, type=Metadata)
            registration = public_registration(metadata, urlsplit(url).hostname or "")
            facts = checked(registration)
        except (ValueError, RecursionError):
            raise _refused("The application's document is not client metadata in JSON.") from None
        except Invalid as invalid:
            fault = invalid.details[0]
            raise _refused(f"The application's document: {fault.field} {fault.message}.") from None
        if metadata.client_id != url:
            raise _refused("The client_id in the application's document must be its own address.")
        now = self._clock()
        client = Client(
            id=0,
            client_id=url,
            secret_hash=None,
            user_id=None,
            created_at=now,
            origin="document",
            **facts,
        )
        return _Kept(client, now + _lifetime(found.cache_control) * SECOND)


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
