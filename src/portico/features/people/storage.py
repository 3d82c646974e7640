"""The rows of users. What a caller may do with them is decided elsewhere."""

from collections.abc import AsyncIterator, Iterable, Sequence

import msgspec

from portico.change import Change
from portico.core.text import case_key
from portico.core.users import AccountState, Owner, User, email_key
from portico.data.database import (
    IN_ID_LIST,
    NOTHING,
    AdvisoryLock,
    Database,
    Engine,
    Rank,
    Transaction,
    exclusive_lock,
    id_list,
    integer,
    keep_unwritten,
)
from portico.data.listing import (
    Keyset,
    Listing,
    Order,
    Page,
    counted_page,
    page_by_id,
    page_of_matches,
)
from portico.data.sqlite.connection import CASE_KEY
from portico.data.table import (
    BOOLEAN,
    LOADED_BOOLEAN,
    Table,
    delete_grants,
    delete_in_batches,
    in_batches,
)
from portico.features.people.rules import Invitation
from portico.resource.compiled import OWN
from portico.resource.declared import Record
from portico.resource.fields import MOMENT

USERS = Table(
    "users",
    User,
    forms={"notifications": BOOLEAN},
    keys={"name_key": lambda user: case_key(user.name), "email_key": lambda u: email_key(u.email)},
    fixed=("account_id", "created_at"),
)
OWNERS = Table("users", Owner)
_SHARED = Table("users", AccountState)

SORTS = {"name": "name_key", "email": "email_key", "created_at": "created_at"}
"""The sort keys of a list and their columns."""

NEWEST_FIRST = Order("created_at", descending=True)

_BY_EMAIL = f"SELECT {USERS.columns} FROM users WHERE email_key = :key"
_BY_ACCOUNT = f"SELECT {USERS.columns} FROM users WHERE account_id = :id"
_BY_EXTERNAL_ID = f"SELECT {USERS.columns} FROM users WHERE external_id = :id"
_COUNT_MIRRORS = "SELECT count(*) FROM users WHERE account_id IS NOT NULL"
_STANDING_OF_MIRRORS = f"""
SELECT account_id, {_SHARED.columns} FROM users
WHERE account_id > :after ORDER BY account_id LIMIT :limit"""
_STANDING = f"SELECT id, {_SHARED.columns} FROM users WHERE id"
# Of two transactions that each remove an admin, the second must see the effect of the first.
_LOCK_ADMINS = exclusive_lock(AdvisoryLock.ADMINS)
_EMAILS = "SELECT id, email FROM users WHERE id"
_ADMIN = "role = 'admin' AND suspended_at IS NULL"
_COUNT_ADMINS = f"SELECT count(*) FROM users WHERE {_ADMIN} AND id <> :id"
_ADMINS = f"SELECT {USERS.columns} FROM users WHERE {_ADMIN} ORDER BY id"
_FIRST_ADMIN = f"{_ADMINS} LIMIT 1"
_ANY_ADMIN = "SELECT 1 FROM users WHERE role = 'admin' LIMIT 1"
# Reads every name and e-mail: for people searching on a page, not for programs.
_MATCHES = "(name_key LIKE :pattern ESCAPE '!' OR email_key LIKE :pattern ESCAPE '!')"
_STATES = {True: "suspended_at IS NOT NULL", False: "suspended_at IS NULL"}
_WILD = str.maketrans({"!": "!!", "%": "!%", "_": "!_"})
# Tables, besides the grants, in which one user may have very many rows, with their primary keys. On
# PostgreSQL, keys and sessions go with their user: each one deleted by itself would be told to
# every process.
_UNTOLD = {
    "idempotency_keys": "user_id, route, key_hash",
    "known_addresses": "user_id, address",
    "known_devices": "user_id, token_hash",
}
_MANY: dict[Engine, dict[str, str]] = {
    "sqlite": {"sessions": "id", "api_keys": "id", **_UNTOLD},
    "postgres": _UNTOLD,
}
USERS_AT_ONCE = 2_000
"""The most users that one statement deletes: PostgreSQL looks into 17 other tables for each."""

_DELETE_SOME_BUT_MIRRORS = """
DELETE FROM users WHERE id IN (
    SELECT id FROM users WHERE account_id IS NULL AND id > :after ORDER BY id LIMIT :limit)
RETURNING id"""


def pattern(text: str) -> str:
    """The LIKE pattern that finds a text in any case, anywhere in a case-folded key."""
    return anywhere(case_key(text))


def anywhere(text: str) -> str:
    """The LIKE pattern that finds exactly this text, anywhere."""
    return f"%{text.translate(_WILD)}%"


def lower_for(engine: Engine, text: str) -> str:
    """The SQL function that lowers columns to compare with this text: SQLite's own `lower` handles
    only ASCII."""
    return CASE_KEY if engine == "sqlite" and not text.isascii() else "lower"


class Users:
    """The users of one environment."""

    rank = Rank.USER

    def __init__(self, db: Database) -> None:
        self._db = db
        self._listing = Listing(db.replica, USERS)

    async def get(self, user_id: int, tx: Transaction | None = None) -> User | None:
        """The user with this id, if any. With `tx` it is locked until the transaction ends."""
        return await USERS.get(self._db, user_id, tx)

    async def by_email(self, email: str, tx: Transaction | None = None) -> User | None:
        """The user with this e-mail in any case or Unicode form, if any; `tx` as in `get`."""
        return await USERS.one(self._db, _BY_EMAIL, {"key": email_key(email)}, tx)

    async def by_account(self, account_id: int, tx: Transaction | None = None) -> User | None:
        """The sandbox mirror of a live account, if any; `tx` as in `get`."""
        return await USERS.one(self._db, _BY_ACCOUNT, {"id": account_id}, tx)

    async def by_external_id(self, external_id: str) -> User | None:
        """The user whom another system calls this, if any."""
        return await USERS.one(self._db, _BY_EXTERNAL_ID, {"id": external_id})

    async def first_admin(self) -> User | None:
        """The admin with the lowest id who is not suspended, if any."""
        return await USERS.one(self._db, _FIRST_ADMIN, NOTHING)

    async def has_admin(self) -> bool:
        """Whether there is an admin. Works on the schema of any release."""
        return await self._db.one(_ANY_ADMIN) is not None

    async def count_mirrors(self) -> int:
        """How many sandbox mirrors of live accounts there are."""
        return await integer(self._db, _COUNT_MIRRORS)

    async def mirror_statuses(self, after: int, limit: int) -> dict[int, AccountState]:
        """What the next `limit` mirrors share with their accounts, by account id, above `after`."""
        rows = await self._db.slow.all(_STANDING_OF_MIRRORS, {"after": after, "limit": limit})
        return {row[0]: _SHARED.read(row[1:]) for row in rows}

    async def statuses(self, ids: Sequence[int]) -> dict[int, AccountState]:
        """What the existing users with these ids share with their mirrors, by id."""
        engine = self._db.engine
        rows = await self._db.slow.all(f"{_STANDING} {IN_ID_LIST[engine]}", id_list(engine, ids))
        return {row[0]: _SHARED.read(row[1:]) for row in rows}

    async def page(
        self,
        *,
        role: str | None,
        order: Order,
        offset: int,
        limit: int,
        behind: Keyset | None = None,
    ) -> Page[User]:
        """One page of the users with this role, or of all. It begins `behind` a keyset if given,
        else at `offset`."""
        where, kept = ("role = :role", "key = :role") if role else ("TRUE", "TRUE")
        params = {"role": role} if role else NOTHING
        return await self._listing.page(
            where, params, order=order, offset=offset, limit=limit, behind=behind, kept=kept
        )

    async def search(
        self,
        text: str,
        *,
        role: str | None,
        suspended: bool | None = None,
        order: Order = NEWEST_FIRST,
        offset: int,
        limit: int,
    ) -> Page[User]:
        """One page of the users whose name or e-mail contains this text in any case. `suspended`
        restricts it to suspended or other users. The total is 0 past the last page."""
        terms = [
            *([_MATCHES] if text else []),
            *(["role = :role"] if role else []),
            *([] if suspended is None else [_STATES[suspended]]),
        ]
        where = " AND ".join(terms) or "TRUE"
        by = order.clause()
        sql = page_of_matches(
            f"SELECT id, {order.column} FROM users WHERE {where}",
            f"{USERS.columns} FROM users WHERE id IN (SELECT id FROM page) ORDER BY {by}",
            by,
            is_slow=bool(text),
        )
        values = {"pattern": pattern(text), "role": role, "limit": limit, "offset": offset}
        return counted_page(await self._db.replica.slow.all(sql, values), USERS.read)

    def batches(self, role: str | None) -> AsyncIterator[list[User]]:
        """Every user with this role, or every user, oldest first, in batches."""
        where = "(:role = '' OR role = :role)"
        return USERS.batches(self._db.slow, where, {"role": role or ""})

    async def emails(self, ids: Iterable[int]) -> dict[int, str]:
        """The e-mails of the existing users with these ids, by id."""
        engine = self._db.engine
        rows = await self._db.slow.all(f"{_EMAILS} {IN_ID_LIST[engine]}", id_list(engine, ids))
        return {row[0]: row[1] for row in rows}

    async def insert(self, tx: Transaction, user: User) -> User:
        """Stores a new user, ignoring its `id`; returns it with the assigned id.

        Raises `UniqueViolation` if the e-mail is taken.
        """
        return await USERS.add(tx, user)

    async def update(self, tx: Transaction, user: User) -> None:
        """Stores every field of a user again. Raises `UniqueViolation` if the e-mail is taken."""
        tx.invalidate(USERS.dependency(user.id))
        await tx.run(USERS.update, USERS.values(user))

    async def delete(self, tx: Transaction, user_id: int) -> None:
        """Deletes a user with everything they own."""
        tx.invalidate(USERS.dependency(user_id))
        engine, owner = self._db.engine, {"user_id": user_id}
        await delete_grants(tx, engine, "user_id", user_id)
        for table, key in _MANY[engine].items():
            await delete_in_batches(tx, engine, table, key, "user_id = :user_id", owner)
        await tx.run(USERS.delete, {"id": user_id})

    async def lock_all(self, tx: Transaction) -> None:
        """Prevents others from creating, changing and deleting users until `tx` ends. Raises
        `Unavailable`."""
        await keep_unwritten(tx, self._db.engine, "users")

    async def delete_all_but_mirrors(self, tx: Transaction) -> None:
        """Deletes every user that is not the mirror of a live account."""
        tx.invalidate_all()
        some = _DELETE_SOME_BUT_MIRRORS
        async for _ in in_batches(tx, self._db.engine, some, NOTHING, most=USERS_AT_ONCE):
            pass

    async def admins(self) -> list[User]:
        """Every admin who is not suspended."""
        return USERS.read_all(await self._db.slow.all(_ADMINS))

    async def other_admins(self, tx: Transaction, user_id: int) -> int:
        """How many admins who are not suspended there are besides this user. The number stays true
        until `tx` ends."""
        await tx.one(_LOCK_ADMINS[self._db.engine])
        return await integer(tx, _COUNT_ADMINS, {"id": user_id})


INVITATIONS = Table(
    "invitations",
    Invitation,
    forms={"signed_up": LOADED_BOOLEAN, "mailed": LOADED_BOOLEAN},
    keys={"email_key": lambda one: email_key(one.email)},
    secrets=("token_hash",),
)

_INVITATION_BY_HASH = f"SELECT {INVITATIONS.columns} FROM invitations WHERE token_hash = :hash"
_OF_EMAIL = f"SELECT {INVITATIONS.columns} FROM invitations WHERE email_key = :email_key"
_COUNT_BY_ADMINS = "SELECT count(*) FROM invitations WHERE signed_up = 0"
_BY_ADMINS = f"""
SELECT {INVITATIONS.columns} FROM invitations WHERE signed_up = 0 AND id < :below
ORDER BY id DESC LIMIT :limit OFFSET :offset"""
_COUNT_PENDING = "SELECT count(*) FROM invitations WHERE signed_up = 0 AND expires_at > :now"
# Single use: of concurrent uses exactly one finds the row.
_TAKE_INVITATION = f"""
DELETE FROM invitations WHERE token_hash = :hash AND expires_at > :now
RETURNING {INVITATIONS.columns}"""
# A sign-up does not replace an admin's invitation until that has expired.
_PUT = f"""
INSERT INTO invitations ({", ".join(INVITATIONS.written)})
VALUES ({", ".join(f":{column}" for column in INVITATIONS.written)})
ON CONFLICT (email_key) DO UPDATE
SET {", ".join(f"{column} = excluded.{column}" for column in INVITATIONS.written)}
WHERE invitations.signed_up >= excluded.signed_up OR invitations.expires_at <= excluded.created_at
RETURNING {INVITATIONS.columns}"""
_TAKE_OF_EMAIL = f"""
DELETE FROM invitations WHERE email_key = :email_key RETURNING {INVITATIONS.columns}"""
_TAKE_OF_INVITER = f"""
DELETE FROM invitations WHERE inviter_id = :inviter_id RETURNING {INVITATIONS.columns}"""


class Invitations:
    """The invitations of one environment: at most one for each e-mail."""

    rank = Rank.REST

    def __init__(self, db: Database) -> None:
        self._db = db

    async def get(self, invitation_id: int, tx: Transaction | None = None) -> Invitation | None:
        """The invitation with this id, if any. With `tx` it is locked until the transaction
        ends."""
        return await INVITATIONS.get(self._db, invitation_id, tx)

    async def by_hash(self, token_hash: bytes) -> Invitation | None:
        """The invitation whose link has this digest, expired or not; it stays usable."""
        return await INVITATIONS.one(self._db, _INVITATION_BY_HASH, {"hash": token_hash})

    async def of_email(self, email: str) -> Invitation | None:
        """The invitation for an e-mail, expired or not."""
        return await INVITATIONS.one(self._db, _OF_EMAIL, {"email_key": email_key(email)})

    async def by_admins(
        self, *, offset: int, limit: int, behind: Keyset | None = None
    ) -> Page[Invitation]:
        """One page of the invitations by admins, including expired ones, newest first. It begins
        `behind` a keyset if given, else at `offset`."""
        statements = _COUNT_BY_ADMINS, _BY_ADMINS
        return await page_by_id(
            self._db, INVITATIONS, statements, {}, offset=offset, limit=limit, behind=behind
        )

    async def count_pending(self, now: int) -> int:
        """How many invitations by admins have not expired."""
        return await integer(self._db.slow, _COUNT_PENDING, {"now": now})

    async def put(
        self, tx: Transaction, token_hash: bytes, invitation: Invitation
    ) -> Invitation | None:
        """Stores an invitation, ignoring its `id`, in place of any other for its e-mail; returns it
        as stored. Stores nothing and returns None for a sign-up whose e-mail an admin has
        invited."""
        values = {**INVITATIONS.values(invitation), "token_hash": token_hash}
        row = await tx.one(_PUT, values)
        return INVITATIONS.read(row) if row else None

    async def take(self, tx: Transaction, token_hash: bytes, now: int) -> Invitation | None:
        """Uses up and returns an invitation, if it exists and has not expired."""
        row = await tx.one(_TAKE_INVITATION, {"hash": token_hash, "now": now})
        return INVITATIONS.read(row) if row else None

    async def delete(self, tx: Transaction, invitation_id: int) -> None:
        """Deletes an invitation, so that its link no longer works."""
        await tx.run(INVITATIONS.delete, {"id": invitation_id})

    async def take_of_email(self, tx: Transaction, email: str) -> Invitation | None:
        """Removes the invitation for an e-mail, expired or not; returns it, if there was one."""
        row = await tx.one(_TAKE_OF_EMAIL, {"email_key": email_key(email)})
        return INVITATIONS.read(row) if row else None

    async def take_of_inviter(self, tx: Transaction, inviter_id: int) -> list[Invitation]:
        """Removes and returns the invitations by this admin, expired or not."""
        return INVITATIONS.read_all(await tx.all(_TAKE_OF_INVITER, {"inviter_id": inviter_id}))


NOWHERE = ""
"""Stored in place of an address if a token was handed over."""


class EmailToken(msgspec.Struct, frozen=True):
    """A token's purpose. `email` is where it was sent; `mailed` is whether that was by mail, and
    not into a file that the operator reads. `giver_id` is the admin who handed it over, if any."""

    user_id: int
    purpose: str
    email: str
    expires_at: int
    mailed: bool = False
    giver_id: int | None = None


EMAIL_TOKENS = Table(
    "email_tokens", EmailToken, forms={"mailed": LOADED_BOOLEAN}, secrets=("token_hash",)
)

_BY_HASH = f"SELECT {EMAIL_TOKENS.columns} FROM email_tokens WHERE token_hash = :hash"
# Single use: of concurrent uses exactly one finds the row.
_TAKE = f"""
DELETE FROM email_tokens WHERE token_hash = :hash AND purpose = :purpose AND expires_at > :now
RETURNING {EMAIL_TOKENS.columns}"""
_DELETE_OF_USER = """
DELETE FROM email_tokens
WHERE user_id = :user_id AND (:purpose = '' OR purpose = :purpose)"""
_DELETE_SENT = f"""
DELETE FROM email_tokens
WHERE user_id = :user_id AND purpose = :purpose AND email <> '{NOWHERE}'"""
_DELETE_OF_GIVER = "DELETE FROM email_tokens WHERE giver_id = :giver_id"


class EmailTokens:
    """The e-mailed tokens of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def by_hash(self, token_hash: bytes) -> EmailToken | None:
        """The token with this digest, expired or not; it stays usable."""
        return await EMAIL_TOKENS.one(self._db, _BY_HASH, {"hash": token_hash})

    async def insert(self, tx: Transaction, token_hash: bytes, token: EmailToken) -> None:
        """Stores a new token and its digest."""
        await EMAIL_TOKENS.add(tx, token, token_hash=token_hash)

    async def take(
        self, tx: Transaction, token_hash: bytes, *, purpose: str, now: int
    ) -> EmailToken | None:
        """Uses up and returns a token, if there is one for this purpose that has not expired."""
        row = await tx.one(_TAKE, {"hash": token_hash, "purpose": purpose, "now": now})
        return EMAIL_TOKENS.read(row) if row else None

    async def delete_of_user(self, tx: Transaction, user_id: int, *, purpose: str = "") -> None:
        """Deletes a user's tokens of one purpose, or of all."""
        await tx.run(_DELETE_OF_USER, {"user_id": user_id, "purpose": purpose})

    async def delete_sent(self, tx: Transaction, user_id: int, purpose: str) -> None:
        """Deletes a user's tokens of one purpose, except those that were handed over."""
        await tx.run(_DELETE_SENT, {"user_id": user_id, "purpose": purpose})

    async def delete_of_giver(self, tx: Transaction, giver_id: int) -> None:
        """Deletes the tokens that an admin handed over."""
        await tx.run(_DELETE_OF_GIVER, {"giver_id": giver_id})


class UserRecord(Record):
    """A user, without credentials."""


class _Users:
    """What references and rules know of the kind."""

    table_name = "users"

    def record(self, user: User) -> UserRecord:
        """The record that rules get."""
        names = ("id", "name", "email", "role", "plan")
        times = {name: MOMENT.given(getattr(user, name)) for name in OWN[1:]}
        return UserRecord(**{name: getattr(user, name) for name in names}, **times)


class RuledUsers:
    """Users, which rules can read but not change."""

    kind = _Users()

    def __init__(self, db: Database) -> None:
        self._db = db

    async def seen(self, _change: Change, user_id: int) -> User | None:
        """The user with this id, not locked."""
        return await USERS.one(self._db, USERS.by_id, {"id": user_id})
