"""OAuth clients: their registration and the digest of the secret."""

from collections.abc import AsyncIterator

from portico.domain.oauth import Client
from portico.storage.counted_pages import counted_page
from portico.storage.database import Database, Rank, Transaction
from portico.storage.listing import Page
from portico.storage.many_rows import delete_grants
from portico.storage.table import SCOPES, Table, json_form

CLIENTS = Table(
    "oauth_clients",
    Client,
    forms={"redirect_uris": json_form(tuple[str, ...]), "scopes": SCOPES},
    fixed=("client_id", "user_id", "created_at"),
)

_BY_CLIENT_ID = f"SELECT {CLIENTS.columns} FROM oauth_clients WHERE client_id = :client_id"
_PAGE = f"""
SELECT count(*) OVER () AS total, {CLIENTS.columns} FROM oauth_clients
ORDER BY id DESC LIMIT :limit OFFSET :offset"""


class Clients:
    """The OAuth clients of one environment."""

    rank = Rank.CLIENT

    def __init__(self, db: Database) -> None:
        self._db = db

    async def by_client_id(self, client_id: str) -> Client | None:
        """The client with this `client_id`, if any."""
        if not client_id.isascii() or not client_id.isprintable():
            return None  # no client has such an id, and PostgreSQL refuses NUL
        return await CLIENTS.one(self._db, _BY_CLIENT_ID, {"client_id": client_id})

    async def get(self, row_id: int, tx: Transaction | None = None) -> Client | None:
        """The client of this row, if any. With `tx` it is locked until the transaction ends."""
        return await CLIENTS.get(self._db, row_id, tx)

    def batches(self) -> AsyncIterator[list[Client]]:
        """Every client, oldest first, in batches."""
        return CLIENTS.batches(self._db.slow, "TRUE")

    async def page(self, *, offset: int, limit: int) -> Page[Client]:
        """One page of the clients, newest first. The total is 0 past the last page."""
        rows = await self._db.slow.all(_PAGE, {"offset": offset, "limit": limit})
        return counted_page(rows, CLIENTS.read)

    def public(self) -> AsyncIterator[list[Client]]:
        """The clients without a secret, oldest first, in batches."""
        return CLIENTS.batches(self._db.slow, "secret_hash IS NULL")

    async def insert(self, tx: Transaction, client: Client) -> Client:
        """Stores a new client, ignoring its `id`; returns it with the assigned id."""
        tx.touch(CLIENTS.part())
        return await CLIENTS.add(tx, client)

    async def update(self, tx: Transaction, client: Client) -> None:
        """Stores every changeable field of a client again."""
        tx.touch(CLIENTS.part())
        await tx.run(CLIENTS.update, CLIENTS.values(client))

    async def delete(self, tx: Transaction, row_id: int) -> None:
        """Deletes a client with all grants to it."""
        tx.touch_all()  # its grants are not listed here
        await delete_grants(tx, self._db.engine, "client_row_id", row_id)
        await tx.run(CLIENTS.delete, {"id": row_id})
