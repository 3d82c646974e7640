"""Which credentials still hold, whatever they are: for those that were looked at before."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from portico.domain.caller import Principal
from portico.domain.sessions import IDLE_SECONDS
from portico.domain.times import SECOND
from portico.storage.api_keys import API_KEYS
from portico.storage.database import AMONG, Database, Transaction, among
from portico.storage.grants import GRANTS
from portico.storage.parts import Part
from portico.storage.sessions import SESSIONS
from portico.storage.signing_keys import SIGNING_KEYS
from portico.storage.table import Table
from portico.storage.users import USERS


class _Kind(NamedTuple):
    """A kind of credential: its rows, `c`, with their owners, `u`; those that were not ended by
    somebody; and when they end by themselves."""

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

# Whose credential it is still has the same role and is not suspended, and it has not ended.
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


class Standing(NamedTuple):
    """How a credential stands: its owner's role, and when it ends, None for never."""

    role: str
    until: int | None


Holder = tuple[str, int]
"""A kind of credential, and the id of its row."""


def holder(principal: Principal) -> Holder:
    """What a caller's credential is known by."""
    if principal.token_id is not None:
        return "token", principal.token_id
    return principal.credential, principal.credential_id


_TABLES: dict[str, Table[Any]] = {"api_key": API_KEYS, "session": SESSIONS}


def parts(principal: Principal) -> tuple[Part, ...]:
    """What the version of what is known of a caller moves with: their account, the key, session or
    grant, and of what is signed the signing keys."""
    table = _TABLES.get(principal.credential, GRANTS)
    rows = USERS.part(principal.user_id), table.part(principal.credential_id)
    return (*rows, SIGNING_KEYS.part()) if principal.credential == "jwt" else rows


def held(principal: Principal, now: int) -> tuple[str, dict[str, object]]:
    """Which of `HOLDS` is to be asked for a credential, and its parameters."""
    kind, row_id = holder(principal)
    return kind, {"holder": row_id, "role": principal.role, "now": now}


class LiveCredentials:
    """The credentials of one environment that have not been ended."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def holds(self, principal: Principal, now: int, tx: Transaction | None = None) -> bool:
        """Whether a credential has not ended, and its owner has the same role. To a session it does
        not matter here when somebody used it last."""
        kind, values = held(principal, now)
        return await (tx or self._db).one(f"SELECT 1 WHERE {HOLDS[kind]}", values) is not None

    async def standing(self, holders: Iterable[Holder]) -> dict[Holder, Standing]:
        """How these credentials stand, in a statement for each kind; those that were ended, or
        whose owner is suspended or gone, are left out. A session ends when nobody has used it for
        too long."""
        ids: dict[str, list[int]] = defaultdict(list)
        for kind, row_id in holders:
            ids[kind].append(row_id)
        found: dict[Holder, Standing] = {}
        for kind, given in ids.items():
            rows = await self._db.all(self._ends(kind), among(self._db.engine, given))
            found |= {(kind, row[0]): Standing(row[1], row[2]) for row in rows}
        return found

    def _ends(self, kind: str) -> str:
        rows, living, end = _KINDS[kind]
        end = _IDLE_SESSION if kind == "session" else end
        return _ENDS.format(end=end, rows=rows, given=AMONG[self._db.engine], living=living)
