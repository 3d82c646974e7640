"""API keys: digests, owners and life spans. A key itself is never stored."""

import msgspec

from portico.domain.api_keys import ApiKey
from portico.storage.database import LOCKED, Database, Row, Transaction

COLUMNS = (
    "id, user_id, name, type, hint, created_at, expires_at, last_used_at, revoked_at, rotated_at"
)

_KEY = ", ".join(f"k.{name}" for name in COLUMNS.split(", "))
_OWNED = (
    f"SELECT {_KEY}, u.email, u.name, u.role, u.plan"
    " FROM api_keys AS k JOIN users AS u ON u.id = k.user_id"
)
_BY_HASH = f"{_OWNED} WHERE k.key_hash = :hash"
_ALL = f"{_OWNED} ORDER BY k.id"
_OF_USER = f"{_OWNED} WHERE k.user_id = :user_id ORDER BY k.id"
_BY_ID = f"SELECT {COLUMNS} FROM api_keys WHERE id = :id"
_INSERT = f"""
INSERT INTO api_keys (user_id, name, type, hint, key_hash, created_at, expires_at)
VALUES (:user_id, :name, :type, :hint, :hash, :now, :expires_at)
RETURNING {COLUMNS}"""
# Single use: of concurrent rotations of one key exactly one finds `rotated_at` empty.
_ROTATE = """
UPDATE api_keys SET rotated_at = :now,
    expires_at = CASE WHEN expires_at < :until THEN expires_at ELSE :until END
WHERE id = :id AND rotated_at IS NULL AND revoked_at IS NULL
RETURNING expires_at"""
_REVOKE = "UPDATE api_keys SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL"
_USED = (
    "UPDATE api_keys SET last_used_at = :at WHERE id = :id"
    " AND (last_used_at IS NULL OR last_used_at < :at)"
)


class OwnedKey(msgspec.Struct, frozen=True):
    """A key together with what its owner may do at present."""

    key: ApiKey
    email: str
    name: str
    role: str
    plan: str


def _owned(row: Row) -> OwnedKey:
    return OwnedKey(ApiKey(*row[:-4]), *row[-4:])


class ApiKeys:
    """The API keys of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def by_hash(self, key_hash: bytes) -> OwnedKey | None:
        """The key with this SHA-256 digest, whatever its state."""
        row = await self._db.one(_BY_HASH, {"hash": key_hash})
        return _owned(row) if row else None

    async def get(self, key_id: int, tx: Transaction | None = None) -> ApiKey | None:
        """The key with this id, whatever its state; with `tx`, nobody else changes it until that
        ends."""
        if tx is None:
            row = await self._db.one(_BY_ID, {"id": key_id})
        else:
            row = await tx.one(_BY_ID + LOCKED[self._db.engine], {"id": key_id})
        return ApiKey(*row) if row else None

    async def all(self) -> list[OwnedKey]:
        """Every key, oldest first."""
        return [_owned(row) for row in await self._db.slow.all(_ALL)]

    async def of_user(self, user_id: int) -> list[OwnedKey]:
        """A user's keys, oldest first."""
        return [_owned(row) for row in await self._db.all(_OF_USER, {"user_id": user_id})]

    async def insert(
        self,
        tx: Transaction,
        *,
        user_id: int,
        name: str,
        key_type: str,
        hint: str,
        key_hash: bytes,
        now: int,
        expires_at: int | None,
    ) -> ApiKey:
        """Stores a new key by its digest."""
        row = await tx.one(
            _INSERT,
            {
                "user_id": user_id,
                "name": name,
                "type": key_type,
                "hint": hint,
                "hash": key_hash,
                "now": now,
                "expires_at": expires_at,
            },
        )
        return ApiKey(*row)  # type: ignore[misc]  # INSERT … RETURNING always has a row

    async def rotate(self, tx: Transaction, key_id: int, *, now: int, until: int) -> int | None:
        """Marks a key as rotated, to end at `until` or earlier; returns its end.

        None when it was rotated or revoked before.
        """
        row = await tx.one(_ROTATE, {"id": key_id, "now": now, "until": until})
        return int(row[0]) if row else None

    async def revoke(self, tx: Transaction, key_id: int, *, now: int) -> None:
        """Ends a key at once; a second time changes nothing."""
        await tx.run(_REVOKE, {"id": key_id, "now": now})

    async def record_use(self, tx: Transaction, used: dict[int, int]) -> None:
        """Moves the last-used times of keys forward: key id to milliseconds."""
        await tx.run_many(_USED, [{"id": key, "at": at} for key, at in sorted(used.items())])
