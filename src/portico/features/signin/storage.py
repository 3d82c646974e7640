"""Cookie sessions, and the addresses and devices from which accounts have signed in."""

from collections.abc import AsyncIterator, Mapping

import msgspec

from portico.core.providers import ProviderLink, ProviderVisit
from portico.core.sessions import IDLE_SECONDS, Methods, Session
from portico.core.times import SECOND
from portico.core.users import Owner
from portico.data.database import Database, Rank, Transaction, integer
from portico.data.listing import Page, counted_page
from portico.data.table import WORDS, Table, cuts, in_batches, move_forward
from portico.features.people.storage import OWNERS
from portico.features.signin.rules import (
    AUTHENTICATOR,
    PASSKEY,
    Authenticator,
    Factors,
    Passkey,
    WrongCodes,
)


class OwnedSession(Owner, frozen=True, kw_only=True):
    """A session together with its user's current role and state."""

    session: Session


SESSIONS = Table("sessions", Session, forms={"amr": WORDS}, secrets=("token_hash",))
_OWNER, _SESSION = cuts(OWNERS, SESSIONS)

_BY_HASH = f"""
SELECT {OWNERS.of("u")}, {SESSIONS.of("s")}
FROM sessions AS s JOIN users AS u ON u.id = s.user_id WHERE s.token_hash = :hash"""
_VALID = "expires_at > :now AND last_seen_at > :idle"
_COUNT = f"SELECT count(*) FROM sessions WHERE user_id = :user_id AND {_VALID}"
_LATEST = "SELECT max(id) FROM sessions"
_SEEN = move_forward("sessions", "last_seen_at", "last_seen_at < :at")
_PROVE = """
UPDATE sessions SET amr = :amr, proved_at = :now WHERE id = :id AND user_id = :user_id"""
_DELETE_SESSION = f"DELETE FROM sessions WHERE id = :id RETURNING {SESSIONS.columns}"
_DELETE_OF_USER = """
DELETE FROM sessions WHERE id IN (
    SELECT id FROM sessions WHERE user_id = :user_id AND id <> :except AND id > :after
    ORDER BY id LIMIT :limit)
RETURNING id"""
_KNOWN = "SELECT 1 FROM known_addresses WHERE user_id = :user_id AND address = :address"
_KNOWN_DEVICE = "SELECT 1 FROM known_devices WHERE user_id = :user_id AND token_hash = :hash"
_KNOW_DEVICE = """
INSERT INTO known_devices (user_id, token_hash, last_at) VALUES (:user_id, :hash, :now)
ON CONFLICT (user_id, token_hash) DO UPDATE SET last_at = excluded.last_at"""
_KNOW = """
INSERT INTO known_addresses (user_id, address, last_at) VALUES (:user_id, :address, :now)
ON CONFLICT (user_id, address) DO UPDATE SET last_at = excluded.last_at"""


def living(now: int) -> dict[str, int]:
    """The parameters of statements that select valid sessions."""
    return {"now": now, "idle": now - IDLE_SECONDS * SECOND}


class Sessions:
    """The cookie sessions of one environment."""

    rank = Rank.REST

    def __init__(self, db: Database) -> None:
        self._db = db

    async def by_hash(self, token_hash: bytes) -> OwnedSession | None:
        """The session with this digest, expired or not."""
        row = await self._db.one(_BY_HASH, {"hash": token_hash})
        return OwnedSession(*row[_OWNER], session=SESSIONS.read(row[_SESSION])) if row else None

    async def get(self, session_id: int, tx: Transaction | None = None) -> Session | None:
        """The session with this id, if any. With `tx` it is locked until the transaction ends."""
        return await SESSIONS.get(self._db, session_id, tx)

    async def count(self, user_id: int, now: int) -> int:
        """How many valid sessions a user has."""
        return await integer(self._db.slow, _COUNT, {"user_id": user_id, **living(now)})

    def batches(self, now: int, user_id: int | None = None) -> AsyncIterator[list[Session]]:
        """Every valid session, or a user's, newest first, in batches."""
        return SESSIONS.batches(
            self._db.slow, _VALID, living(now), user_id=user_id, newest_first=True
        )

    async def latest_id(self) -> int:
        """The highest id of any session, or 0; later sessions have higher ids."""
        return await integer(self._db, _LATEST)

    async def insert(self, tx: Transaction, token_hash: bytes, session: Session) -> Session:
        """Stores a new session, ignoring its `id`, and the digest of its token; returns it with the
        assigned id."""
        return await SESSIONS.add(tx, session, token_hash=token_hash)

    async def record_seen(self, tx: Transaction, seen: dict[int, int]) -> None:
        """Moves the last-seen times of sessions forward: session id to milliseconds."""
        uses = [{"id": session, "at": at} for session, at in seen.items()]
        await tx.run_many(_SEEN[self._db.engine], uses)

    async def prove(
        self, tx: Transaction, session_id: int, user_id: int, amr: Methods, now: int
    ) -> None:
        """Records that a session's owner has proved who they are now, and by which methods."""
        proof = {"id": session_id, "user_id": user_id, "amr": WORDS.store(amr), "now": now}
        await tx.run(_PROVE, proof)

    async def delete(self, tx: Transaction, session_id: int) -> Session | None:
        """Ends a session; returns it if there was one."""
        tx.invalidate(SESSIONS.dependency(session_id))
        row = await tx.one(_DELETE_SESSION, {"id": session_id})
        return SESSIONS.read(row) if row else None

    async def delete_of_user(self, tx: Transaction, user_id: int, *, but: int = 0) -> int:
        """Ends a user's sessions except one; returns how many it ended."""
        values, ended = {"user_id": user_id, "except": but}, 0
        async for ids in in_batches(tx, self._db.engine, _DELETE_OF_USER, values):
            tx.invalidate(*map(SESSIONS.dependency, ids))
            ended += len(ids)
        return ended

    async def knows_address(
        self, user_id: int, address: str, tx: Transaction | None = None
    ) -> bool:
        """Whether the user has signed in from this address before."""
        known = await (tx or self._db).one(_KNOWN, {"user_id": user_id, "address": address})
        return known is not None

    async def knows_device(self, tx: Transaction, user_id: int, token_hash: bytes) -> bool:
        """Whether the user has signed in before from the browser whose cookie has this digest."""
        return await tx.one(_KNOWN_DEVICE, {"user_id": user_id, "hash": token_hash}) is not None

    async def know_device(self, tx: Transaction, user_id: int, token_hash: bytes, now: int) -> None:
        """Records a sign-in of the user from the browser whose cookie has this digest."""
        await tx.run(_KNOW_DEVICE, {"user_id": user_id, "hash": token_hash, "now": now})

    async def know_address(self, tx: Transaction, user_id: int, address: str, now: int) -> None:
        """Records that the user signed in from this address."""
        await tx.run(_KNOW, {"user_id": user_id, "address": address, "now": now})


class PendingSignIn(msgspec.Struct, frozen=True):
    """A sign-in that has passed its first step: at `provider`, or by the password if that is None.
    `expires_at` is in epoch milliseconds."""

    user_id: int
    expires_at: int
    provider: str | None


AUTHENTICATORS = Table("authenticators", Authenticator, fixed=("user_id", "secret", "created_at"))
PASSKEYS = Table(
    "passkeys", Passkey, fixed=("user_id", "credential_id", "public_key", "created_at")
)
PENDING = Table("pending_sign_ins", PendingSignIn, secrets=("token_hash",))

_OF_USER = f"SELECT {AUTHENTICATORS.columns} FROM authenticators WHERE user_id = :user_id"
_CODES = "SELECT count(*) FROM recovery_codes WHERE user_id = :user_id"
# Single use: of concurrent uses of a code exactly one finds an earlier step.
_USE = """
UPDATE authenticators SET last_step = :step, last_used_at = :now
WHERE id = :id AND last_step < :step RETURNING id"""
_FACTORS = {AUTHENTICATOR: "authenticators", PASSKEY: "passkeys"}
_RENAME = {
    kind: f"UPDATE {table} SET name = :name WHERE user_id = :user_id AND id = :id"
    for kind, table in _FACTORS.items()
}
_DELETE = {
    kind: f"DELETE FROM {table} WHERE user_id = :user_id AND id = :id"
    for kind, table in _FACTORS.items()
}
_DELETE_ALL = "DELETE FROM authenticators WHERE user_id = :user_id RETURNING id"
_PASSKEYS = f"SELECT {PASSKEYS.columns} FROM passkeys WHERE user_id = :user_id ORDER BY id"
_PASSKEY = f"SELECT {PASSKEYS.columns} FROM passkeys WHERE credential_id = :id"
_COUNT_PASSKEY = """
UPDATE passkeys SET sign_count = :count, last_used_at = :now
WHERE id = :id AND (sign_count < :count OR (sign_count = 0 AND :count = 0)) RETURNING id"""
_DELETE_PASSKEYS = "DELETE FROM passkeys WHERE user_id = :user_id RETURNING id"
_USE_CHALLENGE = """
INSERT INTO used_challenges (challenge_hash, expires_at) VALUES (:hash, :until)
ON CONFLICT DO NOTHING RETURNING expires_at"""
_ADD_CODE = "INSERT INTO recovery_codes (user_id, code_hash) VALUES (:user_id, :hash)"
_HAS_CODE = "SELECT 1 FROM recovery_codes WHERE user_id = :user_id AND code_hash = :hash"
_USE_CODE = """
DELETE FROM recovery_codes WHERE user_id = :user_id AND code_hash = :hash RETURNING user_id"""
_DELETE_CODES = "DELETE FROM recovery_codes WHERE user_id = :user_id"
_WRONG_CODES = "SELECT in_a_row, last_at FROM wrong_codes WHERE user_id = :user_id"
_COUNT_WRONG_CODE = """
INSERT INTO wrong_codes (user_id, in_a_row, last_at) VALUES (:user_id, 1, :now)
ON CONFLICT (user_id) DO UPDATE SET in_a_row = wrong_codes.in_a_row + 1, last_at = :now"""
_FORGET_WRONG_CODES = "DELETE FROM wrong_codes WHERE user_id = :user_id"
_PENDING = f"SELECT {PENDING.columns} FROM pending_sign_ins WHERE token_hash = :hash"
_TAKE_PENDING = f"""
DELETE FROM pending_sign_ins WHERE token_hash = :hash AND expires_at > :now
RETURNING {PENDING.columns}"""
_DELETE_PENDING = "DELETE FROM pending_sign_ins WHERE user_id = :user_id"


class FactorStore:
    """The second factors of one environment's users."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def of_user(self, user_id: int, tx: Transaction | None = None) -> Factors:
        """A user's factors; with `tx`, as the transaction sees them."""
        reader = tx or self._db
        app = await reader.one(_OF_USER, {"user_id": user_id})
        passkeys = tuple(PASSKEYS.read_all(await reader.all(_PASSKEYS, {"user_id": user_id})))
        if app is None and not passkeys:
            return Factors(None, (), 0)
        codes = await integer(reader, _CODES, {"user_id": user_id})
        return Factors(Authenticator(*app) if app else None, passkeys, codes)

    async def passkey(self, credential_id: bytes) -> Passkey | None:
        """The passkey with this credential id, of any user."""
        return await PASSKEYS.one(self._db, _PASSKEY, {"id": credential_id})

    async def add_passkey(self, tx: Transaction, new: Passkey) -> Passkey:
        """Stores a new passkey, ignoring its `id`; returns it with the assigned id. Raises
        `UniqueViolation` if it is registered already."""
        return await PASSKEYS.add(tx, new)

    async def count_passkey(self, tx: Transaction, row_id: int, count: int, now: int) -> bool:
        """Records a passkey's use; False if it was removed or its counter did not increase."""
        used = {"id": row_id, "count": count, "now": now}
        return await tx.one(_COUNT_PASSKEY, used) is not None

    async def use_challenge(self, tx: Transaction, challenge_hash: bytes, until: int) -> bool:
        """Uses up a challenge, remembering it until it expires; False if it was used before."""
        used = {"hash": challenge_hash, "until": until}
        return await tx.one(_USE_CHALLENGE, used) is not None

    async def add_authenticator(self, tx: Transaction, new: Authenticator) -> Authenticator:
        """Stores a new authenticator, ignoring its `id`; returns it with the assigned id. Raises
        `UniqueViolation` if the user has one."""
        return await AUTHENTICATORS.add(tx, new)

    async def use_step(self, tx: Transaction, authenticator_id: int, step: int, now: int) -> bool:
        """Uses up the code of a step and all earlier ones; False if that was done before."""
        used = {"id": authenticator_id, "step": step, "now": now}
        return await tx.one(_USE, used) is not None

    async def rename(
        self, tx: Transaction, kind: str, user_id: int, row_id: int, name: str
    ) -> None:
        """Renames a user's factor of this kind."""
        await tx.run(_RENAME[kind], {"user_id": user_id, "id": row_id, "name": name})

    async def remove(self, tx: Transaction, kind: str, user_id: int, row_id: int) -> None:
        """Removes a user's factor of this kind."""
        await tx.run(_DELETE[kind], {"user_id": user_id, "id": row_id})

    async def remove_all(self, tx: Transaction, user_id: int) -> int:
        """Removes all of a user's factors and recovery codes; returns how many factors there
        were."""
        await self.set_recovery_codes(tx, user_id, ())
        passkeys = await tx.all(_DELETE_PASSKEYS, {"user_id": user_id})
        return len(passkeys) + len(await tx.all(_DELETE_ALL, {"user_id": user_id}))

    async def set_recovery_codes(
        self, tx: Transaction, user_id: int, hashes: tuple[bytes, ...]
    ) -> None:
        """Replaces a user's recovery codes by those with these digests."""
        await tx.run(_DELETE_CODES, {"user_id": user_id})
        await tx.run_many(_ADD_CODE, [{"user_id": user_id, "hash": one} for one in hashes])

    async def has_recovery_code(self, tx: Transaction, user_id: int, code_hash: bytes) -> bool:
        """Whether this is an unused recovery code of the user's."""
        return await tx.one(_HAS_CODE, {"user_id": user_id, "hash": code_hash}) is not None

    async def use_recovery_code(self, tx: Transaction, user_id: int, code_hash: bytes) -> bool:
        """Uses up a recovery code; False if there is no such code or it was used before."""
        return await tx.one(_USE_CODE, {"user_id": user_id, "hash": code_hash}) is not None

    async def wrong_codes(self, tx: Transaction, user_id: int) -> WrongCodes:
        """The wrong codes of a user who is locked."""
        row = await tx.one(_WRONG_CODES, {"user_id": user_id})
        return WrongCodes(*row) if row else WrongCodes()

    async def count_wrong_code(self, tx: Transaction, user_id: int, now: int) -> None:
        """Counts one more wrong code of a user who is locked."""
        await tx.run(_COUNT_WRONG_CODE, {"user_id": user_id, "now": now})

    async def forget_wrong_codes(self, tx: Transaction, user_id: int) -> None:
        """Counts a user's wrong codes anew."""
        await tx.run(_FORGET_WRONG_CODES, {"user_id": user_id})

    async def add_pending(self, tx: Transaction, token_hash: bytes, new: PendingSignIn) -> None:
        """Stores a pending sign-in and the digest of its token."""
        await PENDING.add(tx, new, token_hash=token_hash)

    async def pending(self, token_hash: bytes) -> PendingSignIn | None:
        """The pending sign-in with this digest, expired or not."""
        return await PENDING.one(self._db, _PENDING, {"hash": token_hash})

    async def take_pending(self, tx: Transaction, token_hash: bytes, now: int) -> bool:
        """Removes a pending sign-in; False if it has expired or was removed before."""
        return await tx.one(_TAKE_PENDING, {"hash": token_hash, "now": now}) is not None

    async def delete_pending_of_user(self, tx: Transaction, user_id: int) -> None:
        """Removes all pending sign-ins of a user."""
        await tx.run(_DELETE_PENDING, {"user_id": user_id})


_INSERT = """
INSERT INTO challenges (token_hash, session_id, expires_at)
VALUES (:hash, :session_id, :expires_at)"""
# Single use: of concurrent requests with one value exactly one finds the row.
_TAKE = """
DELETE FROM challenges
WHERE token_hash = :hash AND session_id = :session_id AND expires_at > :now RETURNING session_id"""


class Challenges:
    """The challenges of one environment's pages."""

    async def insert(
        self, tx: Transaction, token_hash: bytes, *, session_id: int, expires_at: int
    ) -> None:
        """Stores a value issued to a session."""
        values = {"hash": token_hash, "session_id": session_id, "expires_at": expires_at}
        await tx.run(_INSERT, values)

    async def take(self, tx: Transaction, token_hash: bytes, *, session_id: int, now: int) -> bool:
        """Uses up a session's value; False if there is none or it has expired."""
        values = {"hash": token_hash, "session_id": session_id, "now": now}
        return await tx.one(_TAKE, values) is not None


LINKS = Table("provider_links", ProviderLink)
VISITS = Table("provider_visits", ProviderVisit, secrets=("token_hash",))

_BY_SUBJECT = (
    f"SELECT {LINKS.columns} FROM provider_links WHERE issuer = :issuer AND subject = :subject"
)
_PROVIDERS_OF_USER = (
    f"SELECT {LINKS.columns} FROM provider_links WHERE user_id = :user_id ORDER BY id"
)
_UNLINK = "DELETE FROM provider_links WHERE user_id = :user_id AND id = :id"
_VISIT = f"SELECT {VISITS.columns} FROM provider_visits WHERE token_hash = :hash"
# Single use: of concurrent returns, in any process, exactly one finds the row.
_TAKE_VISIT = f"""
DELETE FROM provider_visits WHERE token_hash = :hash AND expires_at > :now
RETURNING {VISITS.columns}"""


class ProviderStore:
    """The provider links and visits of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def link(self, issuer: str, subject: str) -> ProviderLink | None:
        """The link of this subject of an issuer, if any."""
        return await LINKS.one(self._db, _BY_SUBJECT, {"issuer": issuer, "subject": subject})

    async def links_of(self, user_id: int, tx: Transaction | None = None) -> list[ProviderLink]:
        """A user's links, oldest first; with `tx`, as the transaction sees them."""
        return LINKS.read_all(await (tx or self._db).all(_PROVIDERS_OF_USER, {"user_id": user_id}))

    async def add_link(self, tx: Transaction, new: ProviderLink) -> None:
        """Stores a new link, ignoring its `id`. Raises `UniqueViolation` if the subject is linked
        already."""
        await LINKS.add(tx, new)

    async def remove_link(self, tx: Transaction, user_id: int, link_id: int) -> None:
        """Removes a user's link."""
        await tx.run(_UNLINK, {"user_id": user_id, "id": link_id})

    async def add_visit(self, tx: Transaction, token_hash: bytes, visit: ProviderVisit) -> None:
        """Stores a visit and the digest of its token."""
        await VISITS.add(tx, visit, token_hash=token_hash)

    async def visit(self, token_hash: bytes) -> ProviderVisit | None:
        """The visit with this digest, expired or not."""
        return await VISITS.one(self._db, _VISIT, {"hash": token_hash})

    async def take_visit(
        self, tx: Transaction, token_hash: bytes, now: int
    ) -> ProviderVisit | None:
        """Removes and returns a visit; None if it has expired or was removed before."""
        row = await tx.one(_TAKE_VISIT, {"hash": token_hash, "now": now})
        return VISITS.read(row) if row else None


class KnownDevice(msgspec.Struct, frozen=True):
    """A place where an account is signed in: `by` is "session" or "login", `id` the id of that row.
    Times are epoch milliseconds."""

    by: str
    id: int
    user_agent: str
    address: str
    since: int
    seen: int


_PLACES = """
SELECT 'session' AS kind, id, user_agent, address, created_at, last_seen_at AS seen_at
FROM sessions WHERE user_id = :user_id AND expires_at > :now AND last_seen_at > :idle
UNION ALL
SELECT 'login', id, user_agent, address, created_at, last_used_at
FROM grants WHERE user_id = :user_id AND client_row_id IS NULL AND revoked_at IS NULL
    AND expires_at > :now"""
_PAGE = f"""
SELECT count(*) OVER () AS total, places.* FROM ({_PLACES}) AS places
ORDER BY CASE WHEN kind = 'session' AND id = :session_id THEN 0 ELSE 1 END,
    seen_at DESC, kind DESC, id DESC
LIMIT :limit OFFSET :offset"""
_ONE = f"SELECT * FROM ({_PLACES}) AS places WHERE kind = :kind AND id = :id"


class Devices:
    """The places where accounts of one environment are signed in."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def page(
        self, user_id: int, now: int, *, session_id: int, offset: int, limit: int
    ) -> Page[KnownDevice]:
        """One page of an account's places: the one with this session first, then the most recently
        seen. The total is 0 past the last page."""
        values = {"session_id": session_id, "offset": offset, "limit": limit}
        rows = await self._db.slow.all(_PAGE, {**_of(user_id, now), **values})
        return counted_page(rows, lambda row: KnownDevice(*row))

    async def get(self, user_id: int, now: int, by: str, row_id: int) -> KnownDevice | None:
        """The place of an account with this session or login, if that is valid."""
        row = await self._db.one(_ONE, {**_of(user_id, now), "kind": by, "id": row_id})
        return KnownDevice(*row) if row else None


def _of(user_id: int, now: int) -> Mapping[str, int]:
    return {"user_id": user_id, **living(now)}
