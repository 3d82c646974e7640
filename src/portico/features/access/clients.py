"""Use cases of OAuth clients: register, change, authenticate."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hmac import compare_digest
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from portico.change import Change
from portico.core.audit import Author
from portico.core.errors import BrokenRule, Fault, Invalid, NotFound, Unavailable, invalid
from portico.core.oauth import (
    EXTRA_GRANTS,
    MAX_URIS,
    AuthorizationRefused,
    Client,
    Origin,
    client_name,
    client_scopes,
    is_page_of,
    page_origin,
    redirect_uri,
    spelled,
)
from portico.core.secrets import CLIENT_SECRET, digest, mint
from portico.core.text import text_fault
from portico.core.users import User
from portico.data.database import Version
from portico.environment import Environment
from portico.features.access.client_keys import key_set
from portico.features.access.rules import (
    ClientChanged,
    ClientCreated,
    ClientDeleted,
    ClientRefused,
    ClientSecretRenewed,
)
from portico.features.access.storage import CLIENTS, Clients
from portico.features.people.storage import Users

Check = Callable[[Client], None]
"""Checks `If-Match` against the stored client. Raises `PreconditionFailed`."""

UNKNOWN = "The client is unknown or its secret is wrong."


class Unproven(AuthorizationRefused):
    """A request that names a confidential client and does not prove to be it."""

    def __init__(self, client: Client, message: str = UNKNOWN) -> None:
        super().__init__("invalid_client", message)
        self.client = client


class Registered(NamedTuple):
    """A client and its new secret, which is not stored; None for one without."""

    client: Client
    secret: str | None


class Registration(NamedTuple):
    """The metadata of a client, as people write it. `scopes` are space-separated."""

    name: str
    redirect_uris: Sequence[str]
    scopes: str
    first_party: bool = False
    grants: tuple[str, ...] = ()
    service: str | None = None
    post_logout_redirect_uris: Sequence[str] = ()
    backchannel_logout_uri: str | None = None
    jwks: str | None = None
    jwks_uri: str | None = None

    @property
    def signs(self) -> bool:
        return self.jwks is not None or self.jwks_uri is not None


async def register_client(
    env: Environment,
    owner: User | None,
    wanted: Registration,
    *,
    public: bool,
    by: Author,
    origin: Origin = "registered",
) -> Registered:
    """Registers a client. Raises `Invalid` with every fault, and `NotFound` if the owner was
    deleted."""
    facts = checked(wanted)
    check_kind(env, wanted, public=public)
    secret = None if public or wanted.signs else mint(CLIENT_SECRET, env.random)
    client_id = f"client_{env.random(12).hex()}"

    async def work(change: Change) -> Registered:
        if owner is not None and await change.lock(env[Users], owner.id) is None:
            raise NotFound("The owner's account was deleted.")
        client = Client(
            id=0,
            client_id=client_id,
            secret_hash=digest(secret) if secret else None,
            user_id=owner.id if owner else None,
            created_at=change.now,
            origin=origin,
            **facts,
        )
        client = await env[Clients].insert(change.tx, client)
        change.note(ClientCreated(client))
        return Registered(client, secret)

    return await env.change(by, work)


async def change_client(
    env: Environment, row_id: int, values: Mapping[str, Any], check: Check, *, by: Author
) -> Client:
    """Replaces those fields of a client's `Registration` that are among the values. Raises
    `NotFound`, `Invalid` and what `check` raises."""

    async def work(change: Change) -> Client:
        before = _found(await change.lock(env[Clients], row_id))
        stored = {field: getattr(before, field) for field in Registration._fields}
        stored["scopes"] = spelled(before.scopes)
        wanted = Registration(**{**stored, **values})
        check_kind(env, wanted, public=before.public, before=before)
        client = msgspec.structs.replace(before, **checked(wanted))
        check(before)
        if client == before:
            return client
        await env[Clients].update(change.tx, client)
        change.note(ClientChanged(client, before))
        return client

    return await env.change(by, work)


async def renew_secret(env: Environment, row_id: int, *, by: Author) -> Registered:
    """Gives a confidential client a new secret; the old one stops working at once.

    Raises `NotFound`, and `Invalid` for a client without one.
    """
    secret = mint(CLIENT_SECRET, env.random)

    async def work(change: Change) -> Registered:
        client = _found(await change.lock(env[Clients], row_id))
        if client.secret_hash is None:
            raise Invalid("This client has no secret.")
        client = msgspec.structs.replace(client, secret_hash=digest(secret))
        await env[Clients].update(change.tx, client)
        change.note(ClientSecretRenewed(client))
        return Registered(client, secret)

    return await env.change(by, work)


async def read_client(env: Environment, client_id: str) -> Client:
    """The client with this `client_id`. Raises `NotFound`."""
    return _found(await env[Clients].by_client_id(client_id))


async def delete_client(
    env: Environment, row_id: int, *, by: Author, check: Check = lambda _: None
) -> Client:
    """Deletes a client and ends its grants. Raises `NotFound` and what `check` raises."""

    async def work(change: Change) -> Client:
        client = _found(await change.lock(env[Clients], row_id))
        check(client)
        await env[Clients].delete(change.tx, row_id)
        change.note(ClientDeleted(client))
        return client

    return await env.change(by, work)


async def authenticate_client(env: Environment, client_id: str, secret: str | None) -> Client:
    """The client with this id and secret, or the public client without one (RFC 6749 §2.3).

    Raises `AuthorizationRefused` (`invalid_client`).
    """
    client = await env[Clients].by_client_id(client_id)
    if client is None or not admitted(env, client):
        raise AuthorizationRefused("invalid_client", UNKNOWN)
    if client.signs:
        raise Unproven(client, "This client proves who it is by a client_assertion.")
    if client.secret_hash is None:
        if secret:
            raise AuthorizationRefused(
                "invalid_client", "This client is public: do not send a secret."
            )
        return client
    if not secret or not compare_digest(client.secret_hash, digest(secret)):
        raise Unproven(client)
    return client


def admitted(env: Environment, client: Client) -> bool:
    """Whether the settings still admit a client that was not registered here."""
    settings = env.settings
    if client.origin == "document":
        host = urlsplit(client.client_id).hostname
        hosts = settings.client_id_hosts
        return settings.client_id_documents and (not hosts or host in hosts)
    return client.origin == "registered" or settings.client_registration


class PageOrigins:
    """The origins of public clients' pages, taken from their redirect URIs.

    Cached while the version of the clients stays the same.
    """

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._version = -1
        self._part_version: Version | None = None
        self._origins: frozenset[str] = frozenset()

    async def has(self, origin: str) -> bool:
        """Whether a public client has pages at this origin. While the database is unavailable, the
        cached origins count."""
        version = self._env.db.version(CLIENTS.dependency())
        if version != self._version:
            with suppress(Unavailable):
                await self._renew()
                self._version = version
        return is_page_of(self._origins, origin)

    async def _renew(self) -> None:
        # On SQLite every commit changes `Database.version`, but only those of clients change this.
        version = await self._env.db.version_of(CLIENTS.dependency())
        if version is not None and version == self._part_version:
            return
        origins: set[str] = set()
        async for clients in self._env[Clients].public():
            uris = (uri for client in clients for uri in client.redirect_uris)
            origins.update(filter(None, map(page_origin, uris)))
        self._origins, self._part_version = frozenset(origins), version


async def note_refusal(env: Environment, client: Client, by: Author) -> None:
    """Notes that a request named this client without its secret."""
    await env.change.note(by, ClientRefused(client))


def _found(client: Client | None) -> Client:
    if client is None:
        raise NotFound("There is no such client.")
    return client


def check_kind(
    env: Environment, wanted: Registration, *, public: bool, before: Client | None = None
) -> None:
    """Raises `Invalid` where a client of this kind may not have what is wanted. What it has already
    may stay where only the settings no longer permit it."""
    faults: list[Fault] = []
    web = all(uri.startswith("https://") for uri in wanted.redirect_uris)
    may_pose = public and (not web or "device_code" in wanted.grants)
    if wanted.first_party and may_pose:
        faults.append(
            Fault("first_party", "must be confidential, or have redirect URIs with https alone")
        )
    if before is not None and wanted.signs != before.signs:
        faults.append(Fault("jwks", "must stay set, or unset: register another client"))
    if public and (wanted.service or wanted.signs or {*wanted.grants} - {"device_code"}):
        faults.append(Fault("public", "must be confidential for this"))
    if unknown := sorted(set(wanted.grants) - EXTRA_GRANTS.keys()):
        faults.append(
            Fault("grants", f"must be some of {', '.join(EXTRA_GRANTS)}, not {unknown[0]}")
        )
    service = wanted.service
    unknown_service = service and service not in env.settings.declared.services
    if unknown_service and (before is None or service != before.service):
        faults.append(Fault("service", "is not declared"))
    for field in ("backchannel_logout_uri", "jwks_uri"):
        uri = getattr(wanted, field)
        if uri and (before is None or uri != getattr(before, field)):
            try:
                env.destinations.check_url(uri)
            except BrokenRule as rule:
                faults.append(Fault(field, str(rule)))
    if faults:
        raise invalid(*faults)


def _storable_name(text: str) -> str:
    # Those that clients tell of themselves come straight from JSON, where no field checks them.
    if fault := text_fault(text):
        raise BrokenRule(fault)
    return client_name(text)


def checked(wanted: Registration) -> dict[str, Any]:
    """The metadata as fields of a `Client`. Raises `Invalid` with every fault."""
    faults: list[Fault] = []
    facts = wanted._asdict()

    def apply(field: str, rule: Callable[[str], object]) -> None:
        try:
            facts[field] = rule(facts[field])
        except BrokenRule as broken:
            faults.append(Fault(field, str(broken)))

    apply("name", _storable_name)
    least = 0 if wanted.grants or wanted.service else 1
    for field, fewest in (("redirect_uris", least), ("post_logout_redirect_uris", 0)):
        uris = tuple(dict.fromkeys(facts[field]))
        if not fewest <= len(uris) <= MAX_URIS:
            faults.append(Fault(field, f"must be {fewest} to {MAX_URIS} addresses"))
        for uri in uris[:MAX_URIS]:  # of more, nobody reads the faults
            try:
                redirect_uri(uri)
            except BrokenRule as broken:
                faults.append(Fault(field, f"{uri[:100]} {broken}"))
        facts[field] = uris
    apply("scopes", client_scopes)
    if wanted.jwks is not None:
        apply("jwks", key_set)
    if wanted.jwks is not None and wanted.jwks_uri is not None:
        faults.append(Fault("jwks_uri", "must be omitted where jwks is sent"))
    if faults:
        raise invalid(*faults)
    return facts
