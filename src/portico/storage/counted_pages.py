"""Pages of lists without a kept total: each is counted in the statement that reads it."""

from collections.abc import Callable
from typing import TypeVar

from portico.storage.database import Row
from portico.storage.listing import Page

T = TypeVar("T")


def counted_page(rows: list[Row], read: Callable[[Row], T]) -> Page[T]:
    """A page of rows whose first column is the total; the total is 0 past the last page."""
    return Page([read(row[1:]) for row in rows], rows[0][0] if rows else 0)


def page_of_matches(matching: str, page: str, order: str, *, is_slow: bool) -> str:
    """The SELECT of a page of rows with the total in the first column. `matching` is the SELECT of
    the matching ids and of what they are ordered by. `page` is the end of a SELECT, from its
    columns on, of the rows whose ids are in the table `page`.

    The matches are found twice, or once with their ids kept if finding them `is_slow`. The window
    function `count(*) OVER ()` would keep whole rows.
    """
    kept = "MATERIALIZED" if is_slow else "NOT MATERIALIZED"
    return f"""
WITH matching AS {kept} ({matching}),
page AS (SELECT id FROM matching ORDER BY {order} LIMIT :limit OFFSET :offset)
SELECT (SELECT count(*) FROM matching) AS total, {page}"""
