"""Where accounts are signed in: browsers by sessions, programs by logins."""

from collections.abc import Mapping

import msgspec

from portico.storage.counted_pages import counted_page
from portico.storage.database import Database
from portico.storage.listing import Page
from portico.storage.sessions import living


class Place(msgspec.Struct, frozen=True):
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
    ) -> Page[Place]:
        """One page of an account's places: the one with this session first, then the most recently
        seen. The total is 0 past the last page."""
        values = {"session_id": session_id, "offset": offset, "limit": limit}
        rows = await self._db.slow.all(_PAGE, {**_of(user_id, now), **values})
        return counted_page(rows, lambda row: Place(*row))

    async def get(self, user_id: int, now: int, by: str, row_id: int) -> Place | None:
        """The place of an account with this session or login, if that is valid."""
        row = await self._db.one(_ONE, {**_of(user_id, now), "kind": by, "id": row_id})
        return Place(*row) if row else None


def _of(user_id: int, now: int) -> Mapping[str, int]:
    return {"user_id": user_id, **living(now)}
