"""Second factors: authenticators, passkeys, recovery codes, and sign-ins waiting for a factor."""

import msgspec

from portico.domain.factors import Authenticator, Factors, Passkey, WrongCodes
from portico.storage.database import Database, Transaction, integer
from portico.storage.table import Table


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
_RENAME = "UPDATE authenticators SET name = :name WHERE user_id = :user_id AND id = :id"
_DELETE = "DELETE FROM authenticators WHERE user_id = :user_id AND id = :id"
_DELETE_ALL = "DELETE FROM authenticators WHERE user_id = :user_id RETURNING id"
_PASSKEYS = f"SELECT {PASSKEYS.columns} FROM passkeys WHERE user_id = :user_id ORDER BY id"
_PASSKEY = f"SELECT {PASSKEYS.columns} FROM passkeys WHERE credential_id = :id"
_COUNT_PASSKEY = """
UPDATE passkeys SET sign_count = :count, last_used_at = :now
WHERE id = :id AND (sign_count < :count OR (sign_count = 0 AND :count = 0)) RETURNING id"""
_RENAME_PASSKEY = "UPDATE passkeys SET name = :name WHERE user_id = :user_id AND id = :id"
_DELETE_PASSKEY = "DELETE FROM passkeys WHERE user_id = :user_id AND id = :id"
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

    async def rename_passkey(self, tx: Transaction, user_id: int, row_id: int, name: str) -> None:
        """Renames a user's passkey."""
        await tx.run(_RENAME_PASSKEY, {"user_id": user_id, "id": row_id, "name": name})

    async def remove_passkey(self, tx: Transaction, user_id: int, row_id: int) -> None:
        """Removes a user's passkey."""
        await tx.run(_DELETE_PASSKEY, {"user_id": user_id, "id": row_id})

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

    async def rename(self, tx: Transaction, user_id: int, row_id: int, name: str) -> None:
        """Renames a user's authenticator."""
        await tx.run(_RENAME, {"user_id": user_id, "id": row_id, "name": name})

    async def remove(self, tx: Transaction, user_id: int, row_id: int) -> None:
        """Removes a user's authenticator."""
        await tx.run(_DELETE, {"user_id": user_id, "id": row_id})

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

    async def has_recovery_code(
        self, user_id: int, code_hash: bytes, tx: Transaction | None = None
    ) -> bool:
        """Whether this is an unused recovery code of the user's; with `tx`, as the transaction sees
        it."""
        code = {"user_id": user_id, "hash": code_hash}
        return await (tx or self._db).one(_HAS_CODE, code) is not None

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
