"""Whether credentials of any kind that were authenticated before are still valid."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from portico.core.caller import Principal
from portico.core.sessions import IDLE_SECONDS
from portico.core.times import SECOND
from portico.data.database import IN_ID_LIST, Database, Dependency, Transaction, id_list
from portico.data.table import Table
from portico.features.access.storage import API_KEYS, GRANTS, SIGNING_KEYS
from portico.features.people.storage import USERS
from portico.features.signin.storage import SESSIONS


class _Kind(NamedTuple):
    """A kind of credential: its rows `c` with their owners `u`, the condition that a row is not
    revoked, and when it expires."""

    rows: str
    living: str
    end: str


_KINDS = {
    "api_key": _Kind(
        "api_keys AS c JOIN users AS u ON u.id = c.user_id", "c.revoked_at IS NULL", "c.expires_at"
    ),
    "session": _Kind("sessions AS c JOIN users AS u ON u.id = c.user_id", "TRUE", "c.expires_at"),
    "token": _Kind(
        "tokens AS c JOIN grants AS g ON g.id = c.grant_id JOIN users AS u ON u.id = g.user_id",
        "g.revoked_at IS NULL",
        "c.access_expires_at",
    ),
}

# The credential is not revoked or expired, and its owner has the same role and is not suspended.
HOLDS = {
    name: f"""EXISTS (
    SELECT 1 FROM {kind.rows} WHERE c.id = :holder AND {kind.living} AND u.role = :role
        AND u.suspended_at IS NULL
        AND ({kind.end} IS NULL OR {kind.end} > :now))"""
    for name, kind in _KINDS.items()
}
"""A condition for each kind, with the parameters of `held`."""

_IDLE_END = f"c.last_seen_at + {IDLE_SECONDS * SECOND}"
_IDLE_SESSION = f"CASE WHEN {_IDLE_END} < c.expires_at THEN {_IDLE_END} ELSE c.expires_at END"
_ENDS = """
SELECT c.id, u.role, {end} FROM {rows}
WHERE c.id {given} AND {living} AND u.suspended_at IS NULL"""


class AccountStatus(NamedTuple):
    """The state of a valid credential: its owner's role, and when it expires, None for never."""

    role: str
    until: int | None


Holder = tuple[str, int]
"""A kind of credential, and the id of its row."""


def holder(principal: Principal) -> Holder:
    """The kind and row of a caller's credential."""
    if principal.token_id is not None:
        return "token", principal.token_id
    return principal.credential, principal.credential_id


_TABLES: dict[str, Table[Any]] = {"api_key": API_KEYS, "session": SESSIONS}


def parts(principal: Principal) -> tuple[Dependency, ...]:
    """The parts on which a cached caller depends: the account, the row of the key, session or
    grant, and for a JWT the signing keys."""
    table = _TABLES.get(principal.credential, GRANTS)
    rows = USERS.dependency(principal.user_id), table.dependency(principal.credential_id)
    return (*rows, SIGNING_KEYS.dependency()) if principal.credential == "jwt" else rows


def held(principal: Principal, now: int) -> tuple[str, dict[str, object]]:
    """The key in `HOLDS` for a credential, and the parameters of that condition."""
    kind, row_id = holder(principal)
    return kind, {"holder": row_id, "role": principal.role, "now": now}


class LiveCredentials:
    """The valid credentials of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def holds(self, principal: Principal, now: int, tx: Transaction | None = None) -> bool:
        """Whether a credential is still valid and its owner has the same role. Ignores how long a
        session was idle."""
        kind, values = held(principal, now)
        return await (tx or self._db).one(f"SELECT 1 WHERE {HOLDS[kind]}", values) is not None

    async def statuses(self, holders: Iterable[Holder]) -> dict[Holder, AccountStatus]:
        """The state of these credentials, by one statement for each kind. Leaves out those that
        were revoked or whose owner is suspended or deleted. A session also expires when it was idle
        for too long."""
        ids: dict[str, list[int]] = defaultdict(list)
        for kind, row_id in holders:
            ids[kind].append(row_id)
        found: dict[Holder, AccountStatus] = {}
        for kind, given in ids.items():
            rows = await self._db.all(self._ends(kind), id_list(self._db.engine, given))
            found |= {(kind, row[0]): AccountStatus(row[1], row[2]) for row in rows}
        return found

    def _ends(self, kind: str) -> str:
        rows, living, end = _KINDS[kind]
        end = _IDLE_SESSION if kind == "session" else end
        return _ENDS.format(end=end, rows=rows, given=IN_ID_LIST[self._db.engine], living=living)
