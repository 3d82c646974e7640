"""Cookie sessions, and the addresses and devices from which accounts have signed in."""

from collections.abc import AsyncIterator

from portico.domain.proofs import Methods
from portico.domain.sessions import IDLE_SECONDS, Session
from portico.domain.times import SECOND
from portico.domain.users import Owner
from portico.storage.database import Database, Rank, Transaction, integer
from portico.storage.many_rows import in_batches
from portico.storage.table import WORDS, Table, cuts, move_forward
from portico.storage.users import OWNERS


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
_DELETE = "DELETE FROM sessions WHERE id = :id RETURNING id"
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

    async def insert(
        self,
        tx: Transaction,
        *,
        user_id: int,
        token_hash: bytes,
        address: str,
        user_agent: str,
        amr: Methods,
        now: int,
        expires_at: int,
        proved_at: int,
    ) -> Session:
        """Stores a new session and the digest of its token."""
        session = Session(
            id=0,
            user_id=user_id,
            address=address,
            user_agent=user_agent,
            created_at=now,
            last_seen_at=now,
            expires_at=expires_at,
            amr=amr,
            proved_at=proved_at,
        )
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

    async def delete(self, tx: Transaction, session_id: int) -> bool:
        """Ends a session; returns whether there was one."""
        tx.touch(SESSIONS.part(session_id))
        return await tx.one(_DELETE, {"id": session_id}) is not None

    async def delete_of_user(self, tx: Transaction, user_id: int, *, but: int = 0) -> int:
        """Ends a user's sessions except one; returns how many it ended."""
        values, ended = {"user_id": user_id, "except": but}, 0
        async for ids in in_batches(tx, self._db.engine, _DELETE_OF_USER, values):
            tx.touch(*map(SESSIONS.part, ids))
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
