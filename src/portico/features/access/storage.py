"""API keys: digests, owners and lifetimes. A key itself is never stored."""

from collections.abc import AsyncIterator, Collection
from typing import Literal

import msgspec

from portico.core.oauth import POLL_SECONDS, Client, spelled
from portico.core.sessions import Methods, Proof
from portico.core.times import SECOND
from portico.core.users import Owner
from portico.data.database import (
    IN_ID_LIST,
    LOCKED,
    SKIP_LOCKED,
    AdvisoryLock,
    Database,
    Rank,
    Reader,
    Row,
    Transaction,
    exclusive_lock,
    id_list,
    integer,
)
from portico.data.listing import Keyset, Page, counted_page, page_by_id, page_of_matches
from portico.data.queue import Queue, claiming
from portico.data.table import (
    LOADED_BOOLEAN,
    SCOPES,
    WORDS,
    ColumnForm,
    Table,
    cuts,
    delete_grants,
    in_batches,
    json_form,
    move_forward,
)
from portico.features.access.rules import REMINDED_AHEAD, ApiKey
from portico.features.people.storage import OWNERS, anywhere, lower_for, pattern


class OwnedKey(Owner, frozen=True, kw_only=True):
    """A key together with its owner's current role and state."""

    key: ApiKey


_SCOPES = ColumnForm(
    lambda scopes: None if scopes is None else spelled(scopes),
    lambda text: None if text is None else frozenset(text.split()),
)
_NETWORKS = ColumnForm(
    lambda networks: None if networks is None else " ".join(networks),
    lambda text: None if text is None else tuple(text.split()),
)
API_KEYS = Table(
    "api_keys", ApiKey, forms={"scopes": _SCOPES, "networks": _NETWORKS}, secrets=("key_hash",)
)
_OWNER, _KEY = cuts(OWNERS, API_KEYS)

_COLUMNS = f"{OWNERS.of('u')}, {API_KEYS.of('k')}"
_KEYS = "api_keys AS k"
_WITH_OWNERS = f"{_KEYS} JOIN users AS u ON u.id = k.user_id"
_OWNED_KEYS = f"SELECT {_COLUMNS} FROM {_WITH_OWNERS}"
_FOUND = f"{_COLUMNS} FROM {_WITH_OWNERS} WHERE k.id IN (SELECT id FROM page) ORDER BY k.id DESC"
_BY_HASH = f"{_OWNED_KEYS} WHERE k.key_hash = :hash"
_KEY_PAGE = f"""
SELECT {API_KEYS.columns} FROM api_keys WHERE user_id = :user_id AND id < :below
ORDER BY id DESC LIMIT :limit OFFSET :offset"""
_COUNT_KEYS = "SELECT count(*) FROM api_keys WHERE user_id = :user_id"
_ENDED = "CASE WHEN revoked_at IS NOT NULL OR expires_at <= :now THEN 1 ELSE 0 END"
_OWN = f"""
SELECT count(*) OVER () AS total, {API_KEYS.columns} FROM api_keys WHERE user_id = :user_id
ORDER BY {_ENDED}, id DESC LIMIT :limit OFFSET :offset"""
_COUNT_USABLE = f"SELECT count(*) FROM api_keys WHERE user_id = :user_id AND {_ENDED} = 0"
# Reads every key: for people searching on a page, not for programs. Names are compared as
# `features.events.audit` compares e-mails.
_MATCHES = """
(lower(k.hint) LIKE :pattern ESCAPE '!' OR u.name_key LIKE :pattern ESCAPE '!'
    OR u.email_key LIKE :pattern ESCAPE '!' OR {lower}(k.name) LIKE :pattern ESCAPE '!'
    OR {lower}(k.name) LIKE {lower}(:typed) ESCAPE '!')"""
_MADE_FOR_OTHERS = f"""
{_OWNED_KEYS} WHERE k.maker_id = :maker_id AND k.revoked_at IS NULL
    AND (k.expires_at IS NULL OR k.expires_at > :now)
ORDER BY k.id"""
# Single use: of concurrent rotations of one key exactly one finds `rotated_at` empty.
_ROTATE = """
UPDATE api_keys SET rotated_at = :now,
    expires_at = CASE WHEN expires_at < :until THEN expires_at ELSE :until END
WHERE id = :id AND rotated_at IS NULL AND revoked_at IS NULL
RETURNING expires_at"""
_REVOKE_KEY = "UPDATE api_keys SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL"
# The same as the condition of the index `api_keys_to_remind`, so that it is used.
_TO_REMIND = f"""
reminded_at IS NULL AND revoked_at IS NULL AND rotated_at IS NULL
    AND expires_at - created_at > {REMINDED_AHEAD}"""
_ENDING = f"""
SELECT id FROM api_keys
WHERE expires_at > :now AND expires_at <= :before AND {_TO_REMIND}
ORDER BY expires_at LIMIT :limit"""
_EARLIER = "(last_used_at IS NULL OR last_used_at < :at)"
_USED_KEYS = move_forward("api_keys", "last_used_at", _EARLIER)


def _owned_key(row: Row) -> OwnedKey:
    return OwnedKey(*row[_OWNER], key=API_KEYS.read(row[_KEY]))


class ApiKeys:
    """The API keys of one environment."""

    rank = Rank.REST

    def __init__(self, db: Database) -> None:
        self._db = db

    async def by_hash(self, key_hash: bytes) -> OwnedKey | None:
        """The key with this SHA-256 digest, whatever its state."""
        row = await self._db.one(_BY_HASH, {"hash": key_hash})
        return _owned_key(row) if row else None

    async def get(self, key_id: int, tx: Transaction | None = None) -> ApiKey | None:
        """The key with this id, whatever its state. With `tx` it is locked until the transaction
        ends."""
        return await API_KEYS.get(self._db, key_id, tx)

    def batches(self, user_id: int | None = None) -> AsyncIterator[list[ApiKey]]:
        """Every key, or a user's, oldest first, in batches."""
        return API_KEYS.batches(self._db.slow, "TRUE", user_id=user_id)

    async def usable_first(
        self, user_id: int, now: int, *, offset: int, limit: int
    ) -> Page[ApiKey]:
        """One page of a user's keys, newest first, but expired and revoked ones last. The total is
        0 past the last page."""
        values = {"user_id": user_id, "now": now, "offset": offset, "limit": limit}
        rows = await self._db.slow.all(_OWN, values)
        return counted_page(rows, API_KEYS.read)

    async def made_for_others(self, maker_id: int, now: int) -> list[OwnedKey]:
        """The usable keys that this account created for others, oldest first."""
        rows = await self._db.slow.all(_MADE_FOR_OTHERS, {"maker_id": maker_id, "now": now})
        return [_owned_key(row) for row in rows]

    async def count_usable(self, user_id: int, now: int) -> int:
        """How many keys of a user are neither expired nor revoked."""
        return await integer(self._db.slow, _COUNT_USABLE, {"user_id": user_id, "now": now})

    async def page(
        self, user_id: int, *, offset: int, limit: int, behind: Keyset | None = None
    ) -> Page[ApiKey]:
        """One page of a user's keys, newest first. It begins `behind` a keyset if given, else at
        `offset`."""
        values = {"user_id": user_id}
        statements = _COUNT_KEYS, _KEY_PAGE
        return await page_by_id(
            self._db, API_KEYS, statements, values, offset=offset, limit=limit, behind=behind
        )

    async def search(
        self,
        text: str,
        *,
        unused_since: int | None,
        offset: int,
        limit: int,
    ) -> Page[OwnedKey]:
        """One page of the keys whose name, hint or owner contains this text in any case, newest
        first. `unused_since` restricts it to keys not used since that time. The total is 0 past the
        last page."""
        terms = [
            *([_MATCHES.format(lower=lower_for(self._db.engine, text))] if text else []),
            *([] if unused_since is None else ["coalesce(k.last_used_at, 0) < :before"]),
        ]
        where, source = " AND ".join(terms) or "TRUE", _WITH_OWNERS if text else _KEYS
        sql = page_of_matches(
            f"SELECT k.id FROM {source} WHERE {where}", _FOUND, "id DESC", is_slow=bool(text)
        )
        values = {
            "pattern": pattern(text),
            "typed": anywhere(text),
            "before": unused_since,
            "limit": limit,
            "offset": offset,
        }
        rows = await self._db.slow.all(sql, values)
        return counted_page(rows, _owned_key)

    async def insert(self, tx: Transaction, key: ApiKey, key_hash: bytes) -> ApiKey:
        """Stores a new key and its digest, ignoring its `id`; returns it with the assigned id."""
        return await API_KEYS.add(tx, key, key_hash=key_hash)

    async def rotate(self, tx: Transaction, key_id: int, *, now: int, until: int) -> int | None:
        """Marks a key as rotated, to expire at `until` or earlier; returns when it expires.

        None if it was rotated or revoked before.
        """
        tx.invalidate(API_KEYS.dependency(key_id))
        row = await tx.one(_ROTATE, {"id": key_id, "now": now, "until": until})
        return int(row[0]) if row else None

    async def revoke(self, tx: Transaction, key_id: int, *, now: int) -> None:
        """Revokes a key; does nothing if it is revoked already."""
        tx.invalidate(API_KEYS.dependency(key_id))
        await tx.run(_REVOKE_KEY, {"id": key_id, "now": now})

    async def are_ending(self, now: int) -> bool:
        """Whether there are keys for `remind`."""
        values = {"now": now, "before": now + REMINDED_AHEAD, "limit": 1}
        return await self._db.one(_ENDING, values) is not None

    async def remind(self, tx: Transaction, now: int, limit: int) -> list[ApiKey]:
        """Records that the owners of the next keys that expire are reminded of it, and returns
        these keys. No other transaction gets them."""
        values = {"now": now, "before": now + REMINDED_AHEAD, "limit": limit}
        ending = _ENDING + SKIP_LOCKED[self._db.engine]
        return API_KEYS.read_all(
            await tx.all(claiming(API_KEYS, ending, "reminded_at = :now"), values)
        )

    async def record_use(self, tx: Transaction, used: dict[int, int]) -> None:
        """Moves the last-used times of keys forward: key id to milliseconds."""
        uses = [{"id": key, "at": at} for key, at in used.items()]
        await tx.run_many(_USED_KEYS[self._db.engine], uses)


CLIENTS = Table(
    "oauth_clients",
    Client,
    forms={
        "redirect_uris": json_form(tuple[str, ...]),
        "scopes": SCOPES,
        "first_party": LOADED_BOOLEAN,
        "grants": WORDS,
        "post_logout_redirect_uris": json_form(tuple[str, ...]),
    },
    fixed=("client_id", "user_id", "created_at", "origin"),
)

_BY_CLIENT_ID = f"SELECT {CLIENTS.columns} FROM oauth_clients WHERE client_id = :client_id"
_COUNT_CLIENTS = "SELECT count(*) FROM oauth_clients"
_CLIENT_PAGE = f"""
SELECT {CLIENTS.columns} FROM oauth_clients WHERE id < :below
ORDER BY id DESC LIMIT :limit OFFSET :offset"""


_PUBLIC = "secret_hash IS NULL AND jwks IS NULL AND jwks_uri IS NULL"

UNUSED_AT_ONCE = 50
_UNUSED = """
SELECT id FROM oauth_clients AS c WHERE origin <> 'registered' AND created_at < :before
    AND NOT EXISTS (SELECT 1 FROM grants WHERE client_row_id = c.id)
    AND NOT EXISTS (SELECT 1 FROM consents WHERE client_row_id = c.id)
ORDER BY id LIMIT :limit"""


class Clients:
    """The OAuth clients of one environment."""

    rank = Rank.CLIENT

    def __init__(self, db: Database) -> None:
        self._db = db

    async def by_client_id(self, client_id: str, tx: Transaction | None = None) -> Client | None:
        """The client with this `client_id`, if any. With `tx` it is locked until the transaction
        ends."""
        if not client_id.isascii() or not client_id.isprintable():
            return None  # no client has such an id, and PostgreSQL refuses NUL
        return await CLIENTS.one(self._db, _BY_CLIENT_ID, {"client_id": client_id}, tx)

    async def get(self, row_id: int, tx: Transaction | None = None) -> Client | None:
        """The client of this row, if any. With `tx` it is locked until the transaction ends."""
        return await CLIENTS.get(self._db, row_id, tx)

    def batches(self) -> AsyncIterator[list[Client]]:
        """Every client, oldest first, in batches."""
        return CLIENTS.batches(self._db.slow, "TRUE")

    async def page(self, *, offset: int, limit: int, behind: Keyset | None = None) -> Page[Client]:
        """One page of the clients, newest first. It begins `behind` a keyset if given, else at
        `offset`."""
        statements = _COUNT_CLIENTS, _CLIENT_PAGE
        return await page_by_id(
            self._db, CLIENTS, statements, {}, offset=offset, limit=limit, behind=behind
        )

    def public(self) -> AsyncIterator[list[Client]]:
        """The public clients, oldest first, in batches."""
        return CLIENTS.batches(self._db.slow, _PUBLIC)

    async def insert(self, tx: Transaction, client: Client) -> Client:
        """Stores a new client, ignoring its `id`; returns it with the assigned id."""
        tx.invalidate(CLIENTS.dependency())
        return await CLIENTS.add(tx, client)

    async def update(self, tx: Transaction, client: Client) -> None:
        """Stores every changeable field of a client again."""
        tx.invalidate_all()  # callers by its grants, which are not listed here, have its name
        await tx.run(CLIENTS.update, CLIENTS.values(client))

    async def are_unused(self, before: int) -> bool:
        """Whether there are clients for `forget_unused`."""
        return await self._db.one(_UNUSED, {"before": before, "limit": 1}) is not None

    async def forget_unused(self, tx: Transaction, before: int) -> bool:
        """Deletes clients that nobody here registered, that came before then and that nobody allows
        anything; returns whether there may be more."""
        rows = await tx.all(_UNUSED, {"before": before, "limit": UNUSED_AT_ONCE})
        for row in rows:
            await self.delete(tx, row[0])
        return len(rows) == UNUSED_AT_ONCE

    async def delete(self, tx: Transaction, row_id: int) -> None:
        """Deletes a client with all grants to it."""
        tx.invalidate_all()  # its grants are not listed here
        await delete_grants(tx, self._db.engine, "client_row_id", row_id)
        await tx.run(CLIENTS.delete, {"id": row_id})


class Grant(msgspec.Struct, frozen=True):
    """A token family: a user's grant to a client, or a login if there is no client.

    Times are epoch milliseconds; `expires_at` is when its last token expires, `proved_at` when the
    user signed in, by the methods `amr`, in the session `sid`. `resource` is what its tokens are
    for; None: the API.
    """

    id: int
    user_id: int
    client_row_id: int | None
    scopes: frozenset[str]
    address: str
    user_agent: str
    created_at: int
    last_used_at: int
    expires_at: int
    revoked_at: int | None
    amr: Methods
    proved_at: int
    resource: str | None = None
    sid: str | None = None

    @property
    def proof(self) -> Proof:
        """How and when the user signed in."""
        return Proof(self.amr, self.proved_at, self.sid)

    def lives(self, now: int) -> bool:
        """Whether it is neither revoked nor expired at this time, in epoch milliseconds."""
        return self.revoked_at is None and now < self.expires_at


class Token(msgspec.Struct, frozen=True):
    """One issued pair of refresh and access token; `scopes` are the access token's."""

    id: int
    grant_id: int
    scopes: frozenset[str]
    created_at: int
    access_expires_at: int
    refresh_expires_at: int
    used_at: int | None


class OwnedToken(Owner, frozen=True, kw_only=True):
    """A token pair, its grant and client, and their user's current role and state."""

    token: Token
    grant: Grant
    client_id: str | None
    client_name: str | None

    def holds(self, now: int) -> bool:
        """Whether the access token is valid: not expired, its grant not revoked, and its user not
        suspended."""
        if self.suspended_at is not None:
            return False
        return self.grant.revoked_at is None and now < self.token.access_expires_at


class AuthorizationCode(msgspec.Struct, frozen=True):
    """An authorization code; `grant_id` is the grant that it was exchanged for."""

    client_row_id: int
    user_id: int
    redirect_uri: str
    scopes: frozenset[str]
    nonce: str | None
    code_challenge: str | None
    signed_in_at: int
    expires_at: int
    amr: Methods
    grant_id: int | None = None
    resource: str | None = None
    sid: str | None = None

    @property
    def proof(self) -> Proof:
        """How and when the user signed in."""
        return Proof(self.amr, self.signed_in_at, self.sid)


class Consent(msgspec.Struct, frozen=True):
    """What a user in this role has allowed a client, at a redirect URI and for a resource, where
    the API is ''."""

    user_id: int
    client_row_id: int
    redirect_uri: str
    resource: str
    scopes: frozenset[str]
    role: str
    given_at: int


class AllowedApplication(msgspec.Struct, frozen=True):
    """A client that a user has allowed something: all scopes of it, since when, and when it last
    used them (epoch milliseconds)."""

    client_row_id: int
    scopes: frozenset[str]
    since: int
    last_used_at: int


GRANTS = Table("grants", Grant, forms={"scopes": SCOPES, "amr": WORDS})
TOKENS = Table("tokens", Token, forms={"scopes": SCOPES}, secrets=("refresh_hash", "access_hash"))
_OWNER, _TOKEN, _GRANT = cuts(OWNERS, TOKENS, GRANTS)
CONSENTS = Table("consents", Consent, forms={"scopes": SCOPES})
CODES = Table(
    "authorization_codes",
    AuthorizationCode,
    forms={"scopes": SCOPES, "amr": WORDS},
    secrets=("code_hash",),
)

_OWNED = f"""
SELECT {OWNERS.of("u")}, {TOKENS.of("t")}, {GRANTS.of("g")}, c.client_id, c.name
FROM tokens AS t JOIN grants AS g ON g.id = t.grant_id JOIN users AS u ON u.id = g.user_id
    LEFT JOIN oauth_clients AS c ON c.id = g.client_row_id"""
_BY_ACCESS = f"{_OWNED} WHERE t.access_hash = :hash"
_BY_REFRESH = f"{_OWNED} WHERE t.refresh_hash = :hash"
_VALID = "revoked_at IS NULL AND expires_at > :now"
_COUNT = f"SELECT count(*) FROM grants WHERE user_id = :user_id AND {_VALID}"
_ALLOWED = f"""
SELECT client_row_id, scopes, created_at AS since, last_used_at FROM grants
WHERE user_id = :user_id AND client_row_id IS NOT NULL AND {_VALID}
UNION ALL SELECT client_row_id, scopes, given_at, given_at FROM consents WHERE user_id = :user_id"""
_APPLICATIONS = f"""
SELECT count(*) OVER () AS total, client_row_id, string_agg(scopes, ' '), min(since),
    max(last_used_at)
FROM ({_ALLOWED}) AS allowed GROUP BY client_row_id
ORDER BY max(since) DESC, client_row_id DESC LIMIT :limit OFFSET :offset"""
_ALLOWS = f"SELECT 1 FROM ({_ALLOWED}) AS allowed WHERE client_row_id = :client_row_id LIMIT 1"
_LOGIN = f"client_row_id IS NULL AND {_VALID}"
_REVOKE = "UPDATE grants SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL RETURNING id"
_REVOKE_OF_USER = """
UPDATE grants SET revoked_at = :now WHERE id IN (
    SELECT id FROM grants WHERE user_id = :user_id AND revoked_at IS NULL AND id > :after
        AND (client_row_id = :client_row_id OR :client_row_id = 0)
    ORDER BY id LIMIT :limit)
RETURNING id"""
_EXTEND = "UPDATE grants SET expires_at = :expires_at, last_used_at = :now WHERE id = :id"
_USED = move_forward("grants", "last_used_at", "last_used_at < :at")
# Single use: of concurrent refreshes with one token exactly one finds `used_at` empty.
_USE = "UPDATE tokens SET used_at = :now WHERE id = :id AND used_at IS NULL RETURNING id"
_LAST_USED = """
SELECT id, used_at FROM tokens WHERE grant_id = :grant_id AND used_at IS NOT NULL
ORDER BY used_at DESC, id DESC LIMIT 1"""
# The time 0 has passed by every clock, also one that is behind.
_END_ACCESS = """
UPDATE tokens SET access_expires_at = 0 WHERE id = :id AND access_expires_at > 0
RETURNING grant_id"""
_END_LOGINS_ACCESS = """
UPDATE tokens SET access_expires_at = 0 WHERE access_expires_at > :since
    AND grant_id IN (SELECT id FROM grants WHERE client_row_id IS NULL)"""
_CODE = f"SELECT {CODES.columns} FROM authorization_codes WHERE code_hash = :hash"
_SPEND_CODE = """
UPDATE authorization_codes SET grant_id = :grant_id
WHERE code_hash = :hash AND grant_id IS NULL"""
_CONSENT = f"""
SELECT {CONSENTS.columns} FROM consents WHERE user_id = :user_id
    AND client_row_id = :client_row_id AND redirect_uri = :redirect_uri AND resource = :resource"""
_REMEMBER_CONSENT = f"""
INSERT INTO consents ({CONSENTS.columns})
VALUES (:user_id, :client_row_id, :redirect_uri, :resource, :scopes, :role, :given_at)
ON CONFLICT (user_id, client_row_id, redirect_uri, resource)
DO UPDATE SET scopes = excluded.scopes, role = excluded.role, given_at = excluded.given_at"""
_FORGET_CONSENT = """
DELETE FROM consents WHERE user_id = :user_id
    AND (client_row_id = :client_row_id OR :client_row_id = 0)"""
_FORGET_CONSENTS_TO = "DELETE FROM consents WHERE client_row_id = :client_row_id"
_FORGET_CODES_OF_USER = """
DELETE FROM authorization_codes WHERE user_id = :user_id
    AND (client_row_id = :client_row_id OR :client_row_id = 0)"""


def _owned_grant(row: Row) -> OwnedToken:
    return OwnedToken(
        *row[_OWNER],
        token=TOKENS.read(row[_TOKEN]),
        grant=GRANTS.read(row[_GRANT]),
        client_id=row[-2],
        client_name=row[-1],
    )


class Grants:
    """The grants of one environment."""

    rank = Rank.GRANT

    def __init__(self, db: Database) -> None:
        self._db = db

    async def by_access(self, access_hash: bytes) -> OwnedToken | None:
        """The pair whose access token has this digest, whatever its state."""
        row = await self._db.one(_BY_ACCESS, {"hash": access_hash})
        return _owned_grant(row) if row else None

    async def by_refresh(self, refresh_hash: bytes) -> OwnedToken | None:
        """The pair whose refresh token has this digest, whatever its state."""
        row = await self._db.one(_BY_REFRESH, {"hash": refresh_hash})
        return _owned_grant(row) if row else None

    async def get(self, grant_id: int, tx: Transaction | None = None) -> Grant | None:
        """The grant with this id, if any. With `tx` it is locked until the transaction ends."""
        return await GRANTS.get(self._db, grant_id, tx)

    async def applications(
        self, user_id: int, now: int, *, offset: int, limit: int
    ) -> Page[AllowedApplication]:
        """One page of the clients that a user allows something, the one allowed last first. The
        total is 0 past the last page."""
        values = {"user_id": user_id, "now": now, "offset": offset, "limit": limit}
        rows = await self._db.slow.all(_APPLICATIONS, values)
        return counted_page(
            rows, lambda row: AllowedApplication(row[0], frozenset(row[1].split()), *row[2:])
        )

    async def allows(self, reader: Reader, user_id: int, client_row_id: int, now: int) -> bool:
        """Whether a user allows a client anything."""
        values = {"user_id": user_id, "client_row_id": client_row_id, "now": now}
        return await reader.one(_ALLOWS, values) is not None

    async def count(self, user_id: int, now: int) -> int:
        """How many valid grants a user has."""
        return await integer(self._db.slow, _COUNT, {"user_id": user_id, "now": now})

    def logins(self, now: int, user_id: int | None = None) -> AsyncIterator[list[Grant]]:
        """Every valid login, or a user's, newest first, in batches."""
        return GRANTS.batches(
            self._db.slow, _LOGIN, {"now": now}, user_id=user_id, newest_first=True
        )

    async def insert(self, tx: Transaction, grant: Grant) -> Grant:
        """Stores a new grant, ignoring its `id`; returns it with the assigned id."""
        return await GRANTS.add(tx, grant)

    async def issue(
        self, tx: Transaction, pair: Token, *, refresh_hash: bytes, access_hash: bytes
    ) -> None:
        """Stores a new pair and its digests, and extends its grant to when the pair expires."""
        await TOKENS.add(tx, pair, refresh_hash=refresh_hash, access_hash=access_hash)
        expires_at = max(pair.refresh_expires_at, pair.access_expires_at)
        extended = {"id": pair.grant_id, "expires_at": expires_at, "now": pair.created_at}
        await tx.run(_EXTEND, extended)

    async def use(self, tx: Transaction, token_id: int, now: int) -> bool:
        """Marks a refresh token as used; False if it was used before."""
        return await tx.one(_USE, {"id": token_id, "now": now}) is not None

    async def last_used(self, tx: Transaction, grant_id: int) -> tuple[int, int] | None:
        """Which pair of a grant was refreshed last, and when."""
        row = await tx.one(_LAST_USED, {"grant_id": grant_id})
        return (row[0], row[1]) if row else None

    async def end_access(self, tx: Transaction, token_id: int) -> None:
        """Makes an access token expire at once; its refresh token stays valid."""
        if row := await tx.one(_END_ACCESS, {"id": token_id}):
            tx.invalidate(GRANTS.dependency(row[0]))

    async def end_access_of_logins(self, tx: Transaction, now: int) -> None:
        """Makes the access tokens of all logins expire at once; their refresh tokens stay valid.
        Touches no part: cached owners also depend on the signing keys, which end together with
        these tokens."""
        await tx.run(_END_LOGINS_ACCESS, {"since": now})

    async def revoke(self, tx: Transaction, grant_id: int, now: int) -> bool:
        """Revokes a grant with all its tokens; False if it was revoked before."""
        tx.invalidate(GRANTS.dependency(grant_id))
        return await tx.one(_REVOKE, {"id": grant_id, "now": now}) is not None

    async def revoke_of_user(
        self, tx: Transaction, user_id: int, now: int, client_row_id: int = 0
    ) -> int:
        """Revokes all of a user's grants, or those to one client, with consents and codes; returns
        how many grants it revoked."""
        whose = {"user_id": user_id, "client_row_id": client_row_id}
        await tx.run(_FORGET_CODES_OF_USER, whose)
        await tx.run(_FORGET_DEVICES_OF_USER, whose)
        await tx.run(_FORGET_CONSENT, whose)
        values, revoked = {**whose, "now": now}, 0
        async for ids in in_batches(tx, self._db.engine, _REVOKE_OF_USER, values):
            tx.invalidate(*map(GRANTS.dependency, ids))
            revoked += len(ids)
        return revoked

    async def record_use(self, tx: Transaction, used: dict[int, int]) -> None:
        """Moves the last-used times of grants forward: grant id to milliseconds."""
        uses = [{"id": grant, "at": at} for grant, at in used.items()]
        await tx.run_many(_USED[self._db.engine], uses)

    async def consent(
        self, user_id: int, client_row_id: int, redirect_uri: str, resource: str | None
    ) -> Consent | None:
        """What a user has allowed a client there, if that is remembered."""
        values = {
            "user_id": user_id,
            "client_row_id": client_row_id,
            "redirect_uri": redirect_uri,
            "resource": resource or "",
        }
        return await CONSENTS.one(self._db, _CONSENT, values)

    async def remember_consent(self, tx: Transaction, consent: Consent) -> None:
        """Remembers a consent, instead of an earlier one to the same client there."""
        await tx.run(_REMEMBER_CONSENT, CONSENTS.values(consent))

    async def forget_consents_to(self, tx: Transaction, client_row_id: int) -> None:
        """Forgets what anybody has allowed a client."""
        await tx.run(_FORGET_CONSENTS_TO, {"client_row_id": client_row_id})

    async def add_code(self, tx: Transaction, code_hash: bytes, code: AuthorizationCode) -> None:
        """Stores a new authorization code and its digest."""
        await CODES.add(tx, code, code_hash=code_hash)

    async def code(
        self, code_hash: bytes, tx: Transaction | None = None
    ) -> AuthorizationCode | None:
        """The code with this digest, if any. With `tx` it is locked until the transaction ends."""
        return await CODES.one(self._db, _CODE, {"hash": code_hash}, tx)

    async def spend_code(self, tx: Transaction, code_hash: bytes, grant_id: int) -> None:
        """Exchanges a code for a grant, unless it was exchanged before."""
        await tx.run(_SPEND_CODE, {"hash": code_hash, "grant_id": grant_id})


class DeviceCode(msgspec.Struct, frozen=True):
    """What a program on a device asks for (RFC 8628), and how a user has decided, if one has:
    `scopes` are those that they have allowed then. `wait_ms` is how long the program waits between
    two requests."""

    user_code: str
    client_row_id: int
    scopes: frozenset[str]
    resource: str | None
    expires_at: int
    wait_ms: int
    polled_at: int = 0
    decision: Literal["allow", "deny"] | None = None
    user_id: int | None = None
    signed_in_at: int = 0
    amr: Methods = ()

    @property
    def proof(self) -> Proof:
        """How and when the user signed in."""
        return Proof(self.amr, self.signed_in_at)


DEVICE_CODES = Table(
    "device_codes", DeviceCode, forms={"scopes": SCOPES, "amr": WORDS}, secrets=("code_hash",)
)

_DEVICE_CODE = f"SELECT {DEVICE_CODES.columns} FROM device_codes WHERE code_hash = :hash"
_UNDECIDED = "user_code = :user_code AND decision IS NULL AND expires_at > :now"
_TO_DECIDE = f"SELECT {DEVICE_CODES.columns} FROM device_codes WHERE {_UNDECIDED}"
# Single use: of concurrent decisions on one code exactly one finds `decision` empty.
_DECIDE = f"""
UPDATE device_codes SET decision = :decision, user_id = :user_id, scopes = :scopes,
    signed_in_at = :signed_in_at, amr = :amr
WHERE {_UNDECIDED} RETURNING user_code"""
_POLL = """
UPDATE device_codes SET polled_at = :now
WHERE code_hash = :hash AND polled_at + wait_ms <= :now RETURNING user_code"""
_SLOW_DOWN = """
UPDATE device_codes SET polled_at = :now, wait_ms = wait_ms + :more WHERE code_hash = :hash"""
_TAKE = "DELETE FROM device_codes WHERE code_hash = :hash AND decision = 'allow' RETURNING scopes"
_FORGET_DEVICES_OF_USER = """
DELETE FROM device_codes WHERE user_id = :user_id
    AND (client_row_id = :client_row_id OR :client_row_id = 0)"""


class DeviceCodes:
    """The codes of devices, in one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def add(self, tx: Transaction, code_hash: bytes, code: DeviceCode) -> None:
        """Stores a new code and its digest. Raises `UniqueViolation` if there is such a
        `user_code`."""
        await DEVICE_CODES.add(tx, code, code_hash=code_hash)

    async def by_hash(self, code_hash: bytes) -> DeviceCode | None:
        """The code with this digest, if any, whatever its state."""
        return await DEVICE_CODES.one(self._db, _DEVICE_CODE, {"hash": code_hash})

    async def to_decide(self, user_code: str, now: int) -> DeviceCode | None:
        """The code that waits for somebody's decision, if there is one."""
        return await DEVICE_CODES.one(self._db, _TO_DECIDE, {"user_code": user_code, "now": now})

    async def decide(self, tx: Transaction, decided: DeviceCode, now: int) -> bool:
        """Stores a decision; False if the code no longer waits for one."""
        values = {**DEVICE_CODES.values(decided), "now": now}
        return await tx.one(_DECIDE, values) is not None

    async def poll(self, tx: Transaction, code_hash: bytes, now: int) -> bool:
        """Notes that a program asks for the decision; False if it has not waited long enough, and
        must wait longer from now on."""
        if await tx.one(_POLL, {"hash": code_hash, "now": now}) is not None:
            return True
        await tx.run(_SLOW_DOWN, {"hash": code_hash, "now": now, "more": POLL_SECONDS * SECOND})
        return False

    async def take(self, tx: Transaction, code_hash: bytes) -> bool:
        """Removes a code that somebody has allowed; False if it was taken before."""
        return await tx.one(_TAKE, {"hash": code_hash}) is not None


class Logout(msgspec.Struct, frozen=True):
    """A client that is yet to be told that a session of a user has ended, or all of theirs if `sid`
    is None. `attempts` have begun; `next_attempt_at` is in epoch milliseconds."""

    id: int
    client_row_id: int
    user_id: int
    sid: str | None
    attempts: int
    next_attempt_at: int


LOGOUTS = Table("logouts", Logout)

# Not DISTINCT at the top: PostgreSQL would take the parameter for text. No row of a client is
# locked, and so none refers to one.
_ANNOUNCE = """
INSERT INTO logouts (client_row_id, user_id, sid, attempts, next_attempt_at)
SELECT client_row_id, user_id, sid, 0, :now FROM (
    SELECT DISTINCT g.client_row_id, g.user_id, g.sid
    FROM grants AS g JOIN oauth_clients AS c ON c.id = g.client_row_id
    WHERE c.backchannel_logout_uri IS NOT NULL AND {which}
) AS ended
RETURNING id"""
_ANNOUNCE_SESSION = _ANNOUNCE.format(which="g.user_id = :user_id AND g.sid = :sid")
_ANNOUNCE_USER = _ANNOUNCE.format(
    which="g.user_id = :user_id AND g.revoked_at IS NULL AND g.expires_at > :now"
    " AND (g.client_row_id = :client_row_id OR :client_row_id = 0)"
)
_DUE_CLIENTS = """
SELECT client_row_id FROM logouts WHERE next_attempt_at <= :before AND NOT (client_row_id {full})
GROUP BY client_row_id ORDER BY min(next_attempt_at) LIMIT :limit"""


class Logouts:
    """The clients of one environment that are yet to be told of ended sessions."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.queue = Queue(
            db, LOGOUTS, channel="client_row_id = :client_row_id_{n}", counted="attempts"
        )
        """Each client is a channel."""

    async def of_session(self, tx: Transaction, user_id: int, sid: str, now: int) -> bool:
        """Queues the clients that the user has signed in to in this session; returns whether there
        are any."""
        values = {"user_id": user_id, "sid": sid, "now": now}
        return bool(await tx.all(_ANNOUNCE_SESSION, values))

    async def of_user(
        self, tx: Transaction, user_id: int, now: int, client_row_id: int = 0
    ) -> bool:
        """Queues one client, or all, for every session with a valid grant to it; returns whether
        there are any."""
        values = {"user_id": user_id, "client_row_id": client_row_id, "now": now}
        return bool(await tx.all(_ANNOUNCE_USER, values))

    async def due_clients(self, before: int, but: Collection[int], limit: int) -> list[int]:
        """The clients with something due by then, the longest due first, except some."""
        engine = self._db.engine
        sql = _DUE_CLIENTS.format(full=IN_ID_LIST[engine])
        values = {"before": before, "limit": limit, **id_list(engine, but)}
        return [row[0] for row in await self._db.all(sql, values)]


class SigningKey(msgspec.Struct, frozen=True):
    """A key pair; `public_key` is a JWK (RFC 7517), `private_key` encrypted PKCS #8.

    It signs from `signs_at` until a later key does, and verifies until `retires_at`.
    """

    id: int
    kid: str
    public_key: str
    private_key: bytes
    created_at: int
    signs_at: int
    retires_at: int | None


SIGNING_KEYS = Table("signing_keys", SigningKey)

_ALL = f"SELECT {SIGNING_KEYS.columns} FROM signing_keys ORDER BY signs_at, id"
# An empty table has no rows to lock, and several processes may start at the same time.
_LOCK = exclusive_lock(AdvisoryLock.SIGNING_KEYS)
_RETIRE = """
UPDATE signing_keys SET retires_at = :at
WHERE id <> :except AND (retires_at IS NULL OR retires_at > :at)"""


class SigningKeys:
    """The signing keys of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def all(self) -> list[SigningKey]:
        """Every key, in the order in which they sign."""
        return SIGNING_KEYS.read_all(await self._db.all(_ALL))

    async def locked(self, tx: Transaction) -> list[SigningKey]:
        """Every key, locked: no other transaction adds one until `tx` ends."""
        await tx.one(_LOCK[self._db.engine])
        rows = await tx.all(_ALL + LOCKED[self._db.engine])
        return SIGNING_KEYS.read_all(rows)

    async def insert(self, tx: Transaction, key: SigningKey) -> SigningKey:
        """Stores a new key, ignoring its `id`; returns it with the assigned id."""
        tx.invalidate(SIGNING_KEYS.dependency())
        return await SIGNING_KEYS.add(tx, key)

    async def retire_others(self, tx: Transaction, key_id: int, at: int) -> None:
        """Makes every other key retire at `at`, unless it retires earlier."""
        tx.invalidate(SIGNING_KEYS.dependency())
        await tx.run(_RETIRE, {"except": key_id, "at": at})
