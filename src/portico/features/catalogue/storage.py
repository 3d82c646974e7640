"""Products: their rows, and their categories."""

from collections.abc import Sequence

from portico.core.text import case_key
from portico.data.database import Database
from portico.data.table import Table
from portico.features.catalogue.products import PRODUCTS as KIND
from portico.features.catalogue.rules import STATUSES, Product
from portico.resource.fields import Field
from portico.resource.store import Records

PRODUCTS: Table[Product] = KIND.table
"""A whole product."""

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


class Products(Records):
    """The products of one environment."""

    def __init__(self, db: Database, count_limit: int | None = None) -> None:
        """`count_limit` is the most products to count for a filter or a search; None counts all."""
        super().__init__(db, KIND, count_limit)

    async def known(self, _field: Field, most: int) -> Sequence[str]:
        """All categories in case-insensitive order; if there are more than `most`, the first ones
        in the engine's own order."""
        rows = await self._db.replica.all(_CATEGORIES, {"most": most})
        return sorted((row[0] for row in rows), key=lambda name: (case_key(name), name))
