"""Signing keys: public keys to publish, and encrypted private keys."""

import msgspec

from portico.storage.database import LOCKED, AdvisoryLock, Database, Transaction, alone
from portico.storage.table import Table


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
_LOCK = alone(AdvisoryLock.SIGNING_KEYS)
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

    async def insert(
        self,
        tx: Transaction,
        *,
        kid: str,
        public_key: str,
        private_key: bytes,
        created_at: int,
        signs_at: int,
    ) -> SigningKey:
        """Stores a new key."""
        tx.touch(SIGNING_KEYS.part())
        key = SigningKey(0, kid, public_key, private_key, created_at, signs_at, retires_at=None)
        return await SIGNING_KEYS.add(tx, key)

    async def retire_others(self, tx: Transaction, key_id: int, at: int) -> None:
        """Makes every other key retire at `at`, unless it retires earlier."""
        tx.touch(SIGNING_KEYS.part())
        await tx.run(_RETIRE, {"except": key_id, "at": at})
