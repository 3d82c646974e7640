"""Accounts' links to identity providers, and sign-ins that are under way at a provider."""

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
# Single use: of concurrent returns, in any process, exactly one finds the row.
_TAKE_VISIT = f"""
DELETE FROM provider_visits WHERE token_hash = :hash AND expires_at > :now
RETURNING {VISITS.columns}"""


class ProviderStore:
    """The provider links and visits of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def link(self, issuer: str, subject: str) -> ProviderLink | None:
        """The link of this subject of an issuer, if any."""
        return await LINKS.one(self._db, _BY_SUBJECT, {"issuer": issuer, "subject": subject})

    async def links_of(self, user_id: int, tx: Transaction | None = None) -> list[ProviderLink]:
        """A user's links, oldest first; with `tx`, as the transaction sees them."""
        return LINKS.read_all(await (tx or self._db).all(_OF_USER, {"user_id": user_id}))

    async def add_link(self, tx: Transaction, new: ProviderLink) -> None:
        """Stores a new link, ignoring its `id`. Raises `UniqueViolation` if the subject is linked
        already."""
        await LINKS.add(tx, new)

    async def remove_link(self, tx: Transaction, user_id: int, link_id: int) -> None:
        """Removes a user's link."""
        await tx.run(_UNLINK, {"user_id": user_id, "id": link_id})

    async def add_visit(
        self, tx: Transaction, token_hash: bytes, visit: ProviderVisit, expires_at: int
    ) -> None:
        """Stores a visit and the digest of its token, with `expires_at` in place of its own."""
        visit = msgspec.structs.replace(visit, expires_at=expires_at)
        await VISITS.add(tx, visit, token_hash=token_hash)

    async def visit(self, token_hash: bytes) -> ProviderVisit | None:
        """The visit with this digest, expired or not."""
        return await VISITS.one(self._db, _VISIT, {"hash": token_hash})

    async def take_visit(
        self, tx: Transaction, token_hash: bytes, now: int
    ) -> ProviderVisit | None:
        """Removes and returns a visit; None if it has expired or was removed before."""
        row = await tx.one(_TAKE_VISIT, {"hash": token_hash, "now": now})
        return VISITS.read(row) if row else None
