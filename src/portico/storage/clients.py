"""OAuth clients: what is registered, and the digest of the secret."""

import msgspec

from portico.domain.oauth import Client, spelled
from portico.storage.database import LOCKED, Database, Row, Transaction

_COLUMNS = "id, client_id, secret_hash, user_id, name, redirect_uris, scopes, created_at"
_BY_CLIENT_ID = f"SELECT {_COLUMNS} FROM oauth_clients WHERE client_id = :client_id"
_BY_ID = f"SELECT {_COLUMNS} FROM oauth_clients WHERE id = :id"
_ALL = f"SELECT {_COLUMNS} FROM oauth_clients ORDER BY id"
_INSERT = f"""
INSERT INTO oauth_clients (client_id, secret_hash, user_id, name, redirect_uris, scopes, created_at)
VALUES (:client_id, :secret_hash, :user_id, :name, :redirect_uris, :scopes, :created_at)
RETURNING {_COLUMNS}"""
_UPDATE = """
UPDATE oauth_clients SET secret_hash = :secret_hash, name = :name, redirect_uris = :redirect_uris,
    scopes = :scopes
WHERE id = :id"""
_DELETE = "DELETE FROM oauth_clients WHERE id = :id"


def _values(client: Client) -> dict[str, object]:
    return {
        **{name: getattr(client, name) for name in client.__struct_fields__},
        "redirect_uris": msgspec.json.encode(client.redirect_uris).decode(),
        "scopes": spelled(client.scopes),
    }


def _client(row: Row) -> Client:
    values = [*row]
    values[5] = msgspec.json.decode(row[5], type=tuple[str, ...])
    values[6] = frozenset(row[6].split())
    return Client(*values)


class Clients:
    """The OAuth clients of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def by_client_id(self, client_id: str) -> Client | None:
        """The client that calls itself so."""
        if not client_id.isascii() or not client_id.isprintable():
            return None  # and not every engine takes such text
        row = await self._db.one(_BY_CLIENT_ID, {"client_id": client_id})
        return _client(row) if row else None

    async def get(self, row_id: int, tx: Transaction | None = None) -> Client | None:
        """The client of this row; with `tx`, nobody else changes it until that ends."""
        if tx is None:
            row = await self._db.one(_BY_ID, {"id": row_id})
        else:
            row = await tx.one(_BY_ID + LOCKED[self._db.engine], {"id": row_id})
        return _client(row) if row else None

    async def all(self) -> list[Client]:
        """Every client, oldest first."""
        return [_client(row) for row in await self._db.slow.all(_ALL)]

    async def insert(self, tx: Transaction, client: Client) -> Client:
        """Stores a new client, whose `id` is ignored, and returns it with the one it got."""
        row = await tx.one(_INSERT, _values(client))
        return _client(row)  # type: ignore[arg-type]  # INSERT … RETURNING always has a row

    async def update(self, tx: Transaction, client: Client) -> None:
        """Stores what of a client can change."""
        await tx.run(_UPDATE, _values(client))

    async def delete(self, tx: Transaction, row_id: int) -> None:
        """Removes a client with all that was granted to it."""
        await tx.run(_DELETE, {"id": row_id})
