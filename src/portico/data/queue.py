"""Queues: rows that a process claims once they are due, and that are due again if it dies.

A column has the time at which a row is due. A claim moves it to the end of the claim, and so does
renewing, trying again later and releasing: whatever becomes of a process, its rows are due at some
time.
"""

from collections.abc import Iterable, Mapping, Sequence
from string import ascii_lowercase
from typing import Any, Generic, TypeVar

import msgspec

from portico.core.times import SECOND
from portico.data.database import SKIP_LOCKED, Database, Transaction
from portico.data.table import Table

R = TypeVar("R", bound=msgspec.Struct)

Room = tuple[Mapping[str, object], int]
"""The parameters of a channel, and for how many of its rows there is room. At most 26 channels are
used at a time."""


def claiming(table: Table[Any], due: str, changes: str) -> str:
    """The statement that makes `changes` to the rows whose ids the statement `due` selects, and
    returns them. If `due` ends in `SKIP_LOCKED`, no two transactions get the same row."""
    # MATERIALIZED: PostgreSQL might otherwise evaluate the CTE once per row, and claim others each
    # time.
    return (
        f"WITH due AS MATERIALIZED ({due}) UPDATE {table.name} SET {changes}"
        f" WHERE id IN (SELECT id FROM due) RETURNING {table.columns}"
    )


class Queue(Generic[R]):
    """One queue of an environment. Times are epoch milliseconds."""

    def __init__(
        self,
        db: Database,
        table: Table[R],
        *,
        due: str = "next_attempt_at",
        pending: str = "true",
        channel: str = "true",
        counted: str = "",
    ) -> None:
        """`due` is the column, `pending` the condition of rows that are in the queue, and `channel`
        that of one channel, whose parameters end in `_{n}`. A claim adds one to the column
        `counted`."""
        self.name = table.name
        self._db = db
        self._table = table
        of_channel = f"FROM {table.name} WHERE {pending} AND {channel}"
        self._each = (
            f"SELECT id FROM (SELECT id {of_channel} AND {due} <= :now"
            f" ORDER BY {due} LIMIT :room_{{n}}{SKIP_LOCKED[db.engine]}) AS lane_{{n}}"
        )
        self._next = f"SELECT {{place}}, min({due}) {of_channel}"
        self._changes = f"{due} = :until" + (f", {counted} = {counted} + 1" if counted else "")
        self._move = f"UPDATE {table.name} SET {due} = :at WHERE id = :id AND {pending}"

    async def next_due(self, rooms: Sequence[Room]) -> dict[int, int]:
        """When the first row of each channel is or was due, by the place of the channel. Lanes
        without rows are left out."""
        rows = await self._db.all(*_for_each(self._next, rooms))
        return {place: due for place, due in rows if due is not None}

    async def claim(
        self, tx: Transaction, rooms: Sequence[Room], *, now: int, until: int
    ) -> list[R]:
        """Claims due rows, at most as many of each channel as there is room for. No other process
        gets them before `until`, when they are due again."""
        each, params = _for_each(self._each, rooms)
        statement = claiming(self._table, each, self._changes)
        return self._table.read_all(await tx.all(statement, {**params, "now": now, "until": until}))

    async def move(self, tx: Transaction, ids: Iterable[int], at: int) -> None:
        """Makes rows that are still in the queue due at this time: their claim is renewed, they are
        tried again later, or they are released."""
        await tx.run_many(self._move, [{"id": one, "at": at} for one in ids])

    async def finish(self, tx: Transaction, row_id: int, again: int | None) -> None:
        """Removes a row that was worked on, or makes it due `again` at this time."""
        if again is None:
            await tx.run(self._table.delete, {"id": row_id})
        else:
            await self.move(tx, [row_id], again)


def _for_each(sql: str, rooms: Sequence[Room]) -> tuple[str, dict[str, object]]:
    """The union of a statement for each channel, and all their parameters."""
    statements = []
    params: dict[str, object] = {}
    for place, (n, (channel, room)) in enumerate(zip(ascii_lowercase, rooms, strict=False)):
        statements.append(sql.format(n=n, place=place))
        params |= {f"{name}_{n}": value for name, value in channel.items()} | {f"room_{n}": room}
    return " UNION ALL ".join(statements), params


class Retries(msgspec.Struct, frozen=True):
    """`waits` are the seconds before the second attempt and each one after it. `spread` is the
    fraction by which a wait is randomly longer or shorter, so that retries do not coincide."""

    waits: tuple[int, ...]
    spread: float = 0.0

    def next(
        self, now: int, attempts: int, *, chance: float = 0.5, at_least: int = 0
    ) -> int | None:
        """When to try again after so many failed attempts, in epoch milliseconds; None: never.
        `chance` is a random number from 0 to 1; `at_least` is the shortest wait, in seconds."""
        if attempts > len(self.waits):
            return None
        wait = self.waits[attempts - 1] * (1 - self.spread + 2 * self.spread * chance)
        return now + round(SECOND * max(wait, at_least))


DELIVERIES = Retries((5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400), spread=0.2)
MAILS = Retries((2, 15, 120, 600, 1_800, *[3_600] * 23))
"""For a day, which is how long a mail is kept."""
