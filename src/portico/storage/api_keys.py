"""API keys: digests, owners and lifetimes. A key itself is never stored."""

from collections.abc import AsyncIterator

from portico.domain.api_keys import REMINDED_AHEAD, ApiKey
from portico.domain.oauth import spelled
from portico.domain.users import Owner
from portico.storage.counted_pages import counted_page, page_of_matches
from portico.storage.database import SKIP_LOCKED, Database, Rank, Row, Transaction, integer
from portico.storage.listing import Keyset, Page, page_by_id
from portico.storage.queue import claiming
from portico.storage.table import Form, Table, cuts, move_forward
from portico.storage.users import OWNERS, anywhere, lower_for, pattern


class OwnedKey(Owner, frozen=True, kw_only=True):
    """A key together with its owner's current role and state."""

    key: ApiKey


_SCOPES = Form(
    lambda scopes: None if scopes is None else spelled(scopes),
    lambda text: None if text is None else frozenset(text.split()),
)
_NETWORKS = Form(
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
_OWNED = f"SELECT {_COLUMNS} FROM {_WITH_OWNERS}"
_FOUND = f"{_COLUMNS} FROM {_WITH_OWNERS} WHERE k.id IN (SELECT id FROM page) ORDER BY k.id DESC"
_BY_HASH = f"{_OWNED} WHERE k.key_hash = :hash"
_PAGE = f"""
SELECT {API_KEYS.columns} FROM api_keys WHERE user_id = :user_id AND id < :below
ORDER BY id DESC LIMIT :limit OFFSET :offset"""
_COUNT = "SELECT count(*) FROM api_keys WHERE user_id = :user_id"
_ENDED = "CASE WHEN revoked_at IS NOT NULL OR expires_at <= :now THEN 1 ELSE 0 END"
_OWN = f"""
SELECT count(*) OVER () AS total, {API_KEYS.columns} FROM api_keys WHERE user_id = :user_id
ORDER BY {_ENDED}, id DESC LIMIT :limit OFFSET :offset"""
_COUNT_USABLE = f"SELECT count(*) FROM api_keys WHERE user_id = :user_id AND {_ENDED} = 0"
# Reads every key: for people searching on a page, not for programs. Names are compared as
# `storage.audit` compares e-mails.
_MATCHES = """
(lower(k.hint) LIKE :pattern ESCAPE '!' OR u.name_key LIKE :pattern ESCAPE '!'
    OR u.email_key LIKE :pattern ESCAPE '!' OR {lower}(k.name) LIKE :pattern ESCAPE '!'
    OR {lower}(k.name) LIKE {lower}(:typed) ESCAPE '!')"""
_MADE_FOR_OTHERS = f"""
{_OWNED} WHERE k.maker_id = :maker_id AND k.revoked_at IS NULL
    AND (k.expires_at IS NULL OR k.expires_at > :now)
ORDER BY k.id"""
# Single use: of concurrent rotations of one key exactly one finds `rotated_at` empty.
_ROTATE = """
UPDATE api_keys SET rotated_at = :now,
    expires_at = CASE WHEN expires_at < :until THEN expires_at ELSE :until END
WHERE id = :id AND rotated_at IS NULL AND revoked_at IS NULL
RETURNING expires_at"""
_REVOKE = "UPDATE api_keys SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL"
# The same as the condition of the index `api_keys_to_remind`, so that it is used.
_TO_REMIND = f"""
reminded_at IS NULL AND revoked_at IS NULL AND rotated_at IS NULL
    AND expires_at - created_at > {REMINDED_AHEAD}"""
_ENDING = f"""
SELECT id FROM api_keys
WHERE expires_at > :now AND expires_at <= :before AND {_TO_REMIND}
ORDER BY expires_at LIMIT :limit"""
_EARLIER = "(last_used_at IS NULL OR last_used_at < :at)"
_USED = move_forward("api_keys", "last_used_at", _EARLIER)


def _owned(row: Row) -> OwnedKey:
    return OwnedKey(*row[_OWNER], key=API_KEYS.read(row[_KEY]))


class ApiKeys:
    """The API keys of one environment."""

    rank = Rank.REST

    def __init__(self, db: Database) -> None:
        self._db = db

    async def by_hash(self, key_hash: bytes) -> OwnedKey | None:
        """The key with this SHA-256 digest, whatever its state."""
        row = await self._db.one(_BY_HASH, {"hash": key_hash})
        return _owned(row) if row else None

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
        return [_owned(row) for row in rows]

    async def count_usable(self, user_id: int, now: int) -> int:
        """How many keys of a user are neither expired nor revoked."""
        return await integer(self._db.slow, _COUNT_USABLE, {"user_id": user_id, "now": now})

    async def page(
        self, user_id: int, *, offset: int, limit: int, behind: Keyset | None = None
    ) -> Page[ApiKey]:
        """One page of a user's keys, newest first. It begins `behind` a keyset if given, else at
        `offset`."""
        values = {"user_id": user_id}
        statements = _COUNT, _PAGE
        return await page_by_id(
            self._db, API_KEYS, statements, values, offset=offset, limit=limit, behind=behind
        )

    async def search(
        self,
        text: str,
        *,
        key_id: int | None = None,
        unused_since: int | None,
        offset: int,
        limit: int,
    ) -> Page[OwnedKey]:
        """One page of the keys whose name, hint or owner contains this text in any case, newest
        first. `key_id` restricts it to one key, `unused_since` to keys not used since that time.
        The total is 0 past the last page."""
        terms = [
            *([_MATCHES.format(lower=lower_for(self._db.engine, text))] if text else []),
            *([] if unused_since is None else ["coalesce(k.last_used_at, 0) < :before"]),
            *(["k.id = :id"] if key_id else []),
        ]
        where, source = " AND ".join(terms) or "TRUE", _WITH_OWNERS if text else _KEYS
        sql = page_of_matches(
            f"SELECT k.id FROM {source} WHERE {where}", _FOUND, "id DESC", is_slow=bool(text)
        )
        values = {
            "pattern": pattern(text),
            "typed": anywhere(text),
            "id": key_id,
            "before": unused_since,
            "limit": limit,
            "offset": offset,
        }
        rows = await self._db.slow.all(sql, values)
        return counted_page(rows, _owned)

    async def insert(self, tx: Transaction, key: ApiKey, key_hash: bytes) -> ApiKey:
        """Stores a new key and its digest, ignoring its `id`; returns it with the assigned id."""
        return await API_KEYS.add(tx, key, key_hash=key_hash)

    async def rotate(self, tx: Transaction, key_id: int, *, now: int, until: int) -> int | None:
        """Marks a key as rotated, to expire at `until` or earlier; returns when it expires.

        None if it was rotated or revoked before.
        """
        tx.touch(API_KEYS.part(key_id))
        row = await tx.one(_ROTATE, {"id": key_id, "now": now, "until": until})
        return int(row[0]) if row else None

    async def revoke(self, tx: Transaction, key_id: int, *, now: int) -> None:
        """Revokes a key; does nothing if it is revoked already."""
        tx.touch(API_KEYS.part(key_id))
        await tx.run(_REVOKE, {"id": key_id, "now": now})

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
        await tx.run_many(_USED[self._db.engine], uses)
