"""Uploaded files of products: how far each is processed, and its rejected rows."""

import msgspec

from portico.domain.audit import Actor
from portico.domain.uploads import WAITING, Rejected, Upload
from portico.storage.bell import Bell
from portico.storage.database import Database, Rank, Transaction
from portico.storage.queue import Queue
from portico.storage.table import LOADED_BOOLEAN, Table, json_form

UPLOADS = Table(
    "uploads",
    Upload,
    forms={"actor": json_form(Actor), "updates": LOADED_BOOLEAN},
    fixed=("token", "account_id", "actor", "name", "updates", "size"),
)

_LATEST = f"""
SELECT {UPLOADS.columns} FROM uploads WHERE account_id = :account_id
ORDER BY CASE WHEN state IN ({", ".join(f"'{state}'" for state in WAITING)}) THEN 0 ELSE 1 END,
    id DESC
LIMIT :limit"""
_ALL = f"SELECT {UPLOADS.columns} FROM uploads ORDER BY id"
_UNDER_WAY = "state IN ('checking', 'storing')"
_OTHER = f"SELECT 1 FROM uploads WHERE {_UNDER_WAY} AND seen_at > :since AND id <> :id LIMIT 1"
_MOVE = f"{UPLOADS.update} AND state = :state_before AND line = :line_before RETURNING id"
_REPORT = "SELECT rejected FROM uploads WHERE id = :id"
_TELL = "UPDATE uploads SET rejected = :rejected WHERE id = :id"

_REJECTED = json_form(list[Rejected])


class Uploads:
    """The uploaded files of one environment."""

    rank = Rank.REST

    def __init__(self, db: Database) -> None:
        self._db = db
        self.queue = Queue(db, UPLOADS, due="seen_at", pending=_UNDER_WAY, lane="id = :id_{n}")
        """Each file is a lane. A claim ends `SILENT` after the time of `seen_at`."""
        self.bell = Bell()
        """Rings when a file waits to be checked or stored."""

    async def get(self, upload_id: int, tx: Transaction | None = None) -> Upload | None:
        """The file with this id, if any. With `tx` it is locked until the transaction ends."""
        return await UPLOADS.get(self._db, upload_id, tx)

    async def latest(self, account_id: int, limit: int) -> list[Upload]:
        """The latest files of an account: waiting ones first, then newest first."""
        values = {"account_id": account_id, "limit": limit}
        return UPLOADS.read_all(await self._db.all(_LATEST, values))

    async def all(self) -> list[Upload]:
        """Every file, oldest first. There are few, since each is removed after a day."""
        return UPLOADS.read_all(await self._db.all(_ALL))

    async def other_at_work(self, upload_id: int, since: int) -> bool:
        """Whether another file is being processed, with progress since then."""
        return await self._db.one(_OTHER, {"id": upload_id, "since": since}) is not None

    async def add(self, tx: Transaction, upload: Upload) -> Upload:
        """Stores a new file, ignoring its `id`; returns it with the assigned id."""
        return await UPLOADS.add(tx, upload)

    async def move(self, tx: Transaction, before: Upload, after: Upload) -> bool:
        """Stores a file's progress; False if it is no longer as in `before`, since another process
        has taken it over."""
        values = UPLOADS.values(after)
        known = {"state_before": before.state, "line_before": before.line}
        return await tx.one(_MOVE, {**values, **known}) is not None

    async def rejected(self, upload_id: int) -> list[Rejected]:
        """The rejected rows that are reported."""
        row = await self._db.one(_REPORT, {"id": upload_id})
        return msgspec.json.decode(row[0], type=list[Rejected]) if row else []

    async def tell(self, tx: Transaction, upload_id: int, rejected: list[Rejected]) -> None:
        """Stores the rejected rows to report."""
        await tx.run(_TELL, {"id": upload_id, "rejected": _REJECTED.store(rejected)})

    async def delete(self, tx: Transaction, upload_id: int) -> None:
        """Deletes the row of a file."""
        await tx.run(UPLOADS.delete, {"id": upload_id})
