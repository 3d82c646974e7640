"""Users: their rows, and nothing about what a caller may do with them."""

from portico.domain.text import case_key
from portico.domain.users import User, email_key
from portico.storage.database import LOCKED, NOTHING, Database, Params, Row, Transaction
from portico.storage.listing import Listing, Order, Page

COLUMNS = (
    "id, name, email, role, plan, avatar_url, theme, language, notifications, account_id,"
    " password_hash, last_login_at, created_at, updated_at, email_verified_at"
)

SORTS = {"name": "name_key", "email": "email_key", "created_at": "created_at"}
"""What a list may be sorted by, and the column that holds it."""

_BY_ID = f"SELECT {COLUMNS} FROM users WHERE id = :id"
_BY_EMAIL = f"SELECT {COLUMNS} FROM users WHERE email_key = :key"
_BY_ACCOUNT = f"SELECT {COLUMNS} FROM users WHERE account_id = :id"
_MIRRORS = f"SELECT {COLUMNS} FROM users WHERE account_id IS NOT NULL"
# Of two transactions that each take away an admin, the second must see what the first has done.
_LOCK_ADMINS = {
    "sqlite": "SELECT 1",
    "postgres": "SELECT pg_advisory_xact_lock(7041777, hashtext(current_schema()))",
}
_COUNT_ADMINS = "SELECT count(*) FROM users WHERE role = 'admin' AND id <> :id"
_FIRST_ADMIN = f"SELECT {COLUMNS} FROM users WHERE role = 'admin' ORDER BY id LIMIT 1"
_INSERT = f"""
INSERT INTO users (name, name_key, email, email_key, role, plan, avatar_url, theme, language,
    notifications, account_id, password_hash, last_login_at, created_at, updated_at,
    email_verified_at)
VALUES (:name, :name_key, :email, :email_key, :role, :plan, :avatar_url, :theme, :language,
    :notifications, :account_id, :password_hash, :last_login_at, :created_at, :updated_at,
    :email_verified_at)
RETURNING {COLUMNS}"""
_UPDATE = """
UPDATE users SET name = :name, name_key = :name_key, email = :email, email_key = :email_key,
    role = :role, plan = :plan, avatar_url = :avatar_url, theme = :theme, language = :language,
    notifications = :notifications, password_hash = :password_hash,
    last_login_at = :last_login_at, updated_at = :updated_at,
    email_verified_at = :email_verified_at
WHERE id = :id"""
# Reads every name and e-mail: for people who look for somebody, not for programs.
_SEARCH = f"""
SELECT count(*) OVER () AS total, {COLUMNS} FROM users
WHERE (name_key LIKE :pattern ESCAPE '!' OR email_key LIKE :pattern ESCAPE '!')
    AND (:role = '' OR role = :role)
ORDER BY created_at DESC, id DESC LIMIT :limit OFFSET :offset"""
_WILD = str.maketrans({"!": "!!", "%": "!%", "_": "!_"})
_DELETE = "DELETE FROM users WHERE id = :id"
_DELETE_ALL_BUT_MIRRORS = "DELETE FROM users WHERE account_id IS NULL"


def _row(user: User) -> dict[str, object]:
    values = {name: getattr(user, name) for name in user.__struct_fields__}
    values["name_key"] = case_key(user.name)
    values["email_key"] = email_key(user.email)
    values["notifications"] = int(user.notifications)
    return values


def _user(row: Row | None) -> User:
    return User(*row)  # type: ignore[misc]  # a row has COLUMNS in the order of User's fields


class Users:
    """The users of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._listing = Listing(db, "users", COLUMNS)

    async def get(self, user_id: int, tx: Transaction | None = None) -> User | None:
        """The user with this id, if any; with `tx`, nobody else changes it until that ends."""
        return await self._one(_BY_ID, {"id": user_id}, tx)

    async def by_email(self, email: str, tx: Transaction | None = None) -> User | None:
        """The user with this e-mail in any case or Unicode form, if any; `tx` as in `get`."""
        return await self._one(_BY_EMAIL, {"key": email_key(email)}, tx)

    async def by_account(self, account_id: int, tx: Transaction | None = None) -> User | None:
        """The sandbox mirror of a live account, if any; `tx` as in `get`."""
        return await self._one(_BY_ACCOUNT, {"id": account_id}, tx)

    async def first_admin(self) -> User | None:
        """The oldest admin."""
        return await self._one(_FIRST_ADMIN, NOTHING, None)

    async def mirrors(self) -> list[User]:
        """Every sandbox mirror of a live account."""
        return [_user(row) for row in await self._db.all(_MIRRORS)]

    async def page(self, *, role: str | None, order: Order, offset: int, limit: int) -> Page[User]:
        """One page of the users with this role, or of all."""
        page = await self._listing.page(
            "role = :role" if role else "TRUE",
            {"role": role} if role else NOTHING,
            order=order,
            offset=offset,
            limit=limit,
            kept="key = :role" if role else "TRUE",
        )
        return Page([_user(row) for row in page.rows], page.total)

    async def search(self, text: str, *, role: str | None, offset: int, limit: int) -> Page[User]:
        """One page of the users whose name or e-mail holds this text in any case, newest first; the
        total is 0 beyond the last page."""
        rows = await self._db.slow.all(
            _SEARCH,
            {
                "pattern": f"%{case_key(text).translate(_WILD)}%",
                "role": role or "",
                "limit": limit,
                "offset": offset,
            },
        )
        return Page([_user(row[1:]) for row in rows], rows[0][0] if rows else 0)

    async def insert(self, tx: Transaction, user: User) -> User:
        """Stores a new user, whose id is ignored, and returns it with the one it got.

        Raises `UniqueViolation` when the e-mail is taken.
        """
        row = await tx.one(_INSERT, _row(user))
        return _user(row)

    async def update(self, tx: Transaction, user: User) -> None:
        """Stores every field of a user again. Raises `UniqueViolation` when the e-mail is taken."""
        await tx.run(_UPDATE, _row(user))

    async def delete(self, tx: Transaction, user_id: int) -> None:
        """Removes a user with all that is theirs."""
        await tx.run(_DELETE, {"id": user_id})

    async def delete_all_but_mirrors(self, tx: Transaction) -> None:
        """Removes every user that mirrors no live account."""
        await tx.run(_DELETE_ALL_BUT_MIRRORS)

    async def other_admins(self, tx: Transaction, user_id: int) -> int:
        """How many admins there are besides this user, until `tx` ends."""
        await tx.one(_LOCK_ADMINS[self._db.engine])
        row = await tx.one(_COUNT_ADMINS, {"id": user_id})
        return int(row[0]) if row else 0

    async def _one(self, sql: str, params: Params, tx: Transaction | None) -> User | None:
        if tx is None:
            row = await self._db.one(sql, params)
        else:
            row = await tx.one(sql + LOCKED[self._db.engine], params)
        return _user(row) if row else None
