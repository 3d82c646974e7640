"""Products: their lists, which are kept by status, and their categories."""

from collections.abc import Sequence
from typing import Any

from portico.core.text import case_key
from portico.data.database import Database
from portico.data.listing import Keyset, Order, Page
from portico.data.search import query_words
from portico.data.table import Table
from portico.features.catalogue.products import PRODUCTS as KIND
from portico.features.catalogue.products import ProductFilter, filter_of
from portico.features.catalogue.rules import STATUSES, Product
from portico.resource.fields import Field
from portico.resource.store import Records

PRODUCTS: Table[Product] = KIND.table
"""A whole product."""

_NEWEST_FIRST = {
    indexed: Order("id", descending=True, indexed=indexed) for indexed in (False, True)
}

# Steps from one category to the next in the index, without reading every product.
_CATEGORIES = f"""
WITH RECURSIVE known (status, category, nth) AS (
    SELECT status, (SELECT min(category) FROM products WHERE products.status = every.status), 1
    FROM ({" UNION ALL ".join(f"SELECT '{status}' AS status" for status in STATUSES)}) AS every
    UNION ALL
    SELECT status, (
        SELECT min(category) FROM products
        WHERE products.status = known.status AND products.category > known.category
    ), nth + 1 FROM known WHERE category IS NOT NULL AND nth < :most
)
SELECT DISTINCT category FROM known WHERE category IS NOT NULL ORDER BY category LIMIT :most"""


EVERY = ProductFilter(None)


class Products(Records):
    """The products of one environment."""

    def __init__(self, db: Database, count_limit: int | None = None) -> None:
        """`count_limit` is the most products to count for a filter or a search; None counts all."""
        super().__init__(db, KIND, count_limit)

    async def listed(self, query: Any, offset: int, behind: Keyset | None) -> Page[Product]:
        words = query_words(query.search) if query.search else []
        return await self.page(
            filter_of(query), words=words, offset=offset, limit=query.limit, behind=behind
        )

    def narrowed(self, query: Any, where: str) -> tuple[str | None, str | None]:
        chosen = filter_of(query)
        return chosen.status, None if chosen.by_status_alone else where

    async def page(
        self,
        chosen: ProductFilter,
        *,
        words: list[str],
        offset: int,
        limit: int,
        behind: Keyset | None = None,
    ) -> Page[Product]:
        """One page, newest first, or most relevant first if `words` (`data.search`) are given.
        It begins `behind` a keyset if given, else after `offset` rows.

        Its products have no images and metadata.
        """
        where, params = chosen.sql()
        if words:
            # Every indexed word contains the status, so a filter by status reads no products.
            further = None if chosen.by_status_alone else where
            return await self._search.page(
                words, chosen.status, further, params, offset=offset, limit=limit, behind=behind
            )
        every = "TRUE" if chosen.status is None else "key = :status"
        kept = every if chosen.by_status_alone else None
        order = _NEWEST_FIRST[chosen.is_indexed]
        return await self._listing.page(
            where, params, order=order, offset=offset, limit=limit, behind=behind, kept=kept
        )

    async def known(self, _field: Field, most: int) -> Sequence[str]:
        """All categories in case-insensitive order; if there are more than `most`, the first ones
        in the engine's own order."""
        rows = await self._db.replica.all(_CATEGORIES, {"most": most})
        return sorted((row[0] for row in rows), key=lambda name: (case_key(name), name))
