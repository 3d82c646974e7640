"""Accounts' links to other providers, and browsers that are on their way there or back."""

import msgspec

from portico.domain.providers import ProviderLink, ProviderVisit
from portico.storage.database import Database, Transaction
from portico.storage.table import Table

LINKS = Table("provider_links", ProviderLink)
VISITS = Table("provider_visits", ProviderVisit, secrets=("token_hash",))

_BY_SUBJECT = (
    f"SELECT {LINKS.columns} FROM provider_links WHERE issuer = :issuer AND subject = :subject"
)
_OF_USER = f"SELECT {LINKS.columns} FROM provider_links WHERE user_id = :user_id ORDER BY id"
_UNLINK = "DELETE FROM provider_links WHERE user_id = :user_id AND id = :id"
_VISIT = f"SELECT {VISITS.columns} FROM provider_visits WHERE token_hash = :hash"
# Single use: of concurrent returns, whatever process serves them, exactly one finds the row.
_TAKE_VISIT = f"""
DELETE FROM provider_visits WHERE token_hash = :hash AND expires_at > :now
RETURNING {VISITS.columns}"""


class ProviderStore:
    """What one environment knows of other providers' users."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def link(self, issuer: str, subject: str) -> ProviderLink | None:
        """Whose link this is."""
        return await LINKS.one(self._db, _BY_SUBJECT, {"issuer": issuer, "subject": subject})

    async def links_of(self, user_id: int, tx: Transaction | None = None) -> list[ProviderLink]:
        """A user's links, oldest first; with `tx`, as that sees them."""
        every = self._db.all if tx is None else tx.all
        return LINKS.read_all(await every(_OF_USER, {"user_id": user_id}))

    async def add_link(self, tx: Transaction, new: ProviderLink) -> None:
        """Stores a new link, whose id is ignored. Raises `UniqueViolation` where the subject is
        linked already."""
        await LINKS.add(tx, new)

    async def remove_link(self, tx: Transaction, user_id: int, link_id: int) -> None:
        """Removes a user's link."""
        await tx.run(_UNLINK, {"user_id": user_id, "id": link_id})

    async def add_visit(
        self, tx: Transaction, token_hash: bytes, visit: ProviderVisit, expires_at: int
    ) -> None:
        """Stores a visit that ends at another time than it says, by its digest."""
        visit = msgspec.structs.replace(visit, expires_at=expires_at)
        await VISITS.add(tx, visit, token_hash=token_hash)

    async def visit(self, token_hash: bytes) -> ProviderVisit | None:
        """The visit with this digest, whether it has expired or not."""
        return await VISITS.one(self._db, _VISIT, {"hash": token_hash})

    async def take_visit(
        self, tx: Transaction, token_hash: bytes, now: int
    ) -> ProviderVisit | None:
        """Ends a visit; None where it has expired or was taken before."""
        row = await tx.one(_TAKE_VISIT, {"hash": token_hash, "now": now})
        return VISITS.read(row) if row else None
