"""What a list shows, as a file."""

from collections.abc import AsyncGenerator

from portico.contract.envelope import timestamp
from portico.contract.product_files import header, rows
from portico.domain.errors import Unreadable
from portico.domain.search import query_words
from portico.domain.words import Format
from portico.http.messages import Reply, Stream
from portico.pages.products import Asked, asked_of
from portico.pages.site import PageRoute, Visit

_TYPES: dict[str, tuple[Format, str]] = {
    "csv": ("csv", "text/csv; charset=utf-8; header=present"),
    "ndjson": ("ndjson", "application/x-ndjson"),
}


async def export(visit: Visit) -> Reply:
    """GET /products/export: all that the list of the same query shows, oldest first."""
    asked = asked_of(visit)
    if asked.faults or visit.sent("format") not in _TYPES:
        raise Unreadable(
            "This file cannot be made: choose CSV or NDJSON beside a list of products."
        )
    form, media = _TYPES[visit.sent("format")]
    name = f"products-{visit.env.name}-{timestamp(visit.request.now)[:10]}.{form}"
    return Stream(
        200,
        _file(visit, asked, form),
        lambda: None,
        [
            ("content-type", media),
            ("content-disposition", f'attachment; filename="{name}"'),
            ("cache-control", "no-store"),
        ],
    )


async def _file(visit: Visit, asked: Asked, form: Format) -> AsyncGenerator[bytes, None]:
    if head := header(form):
        yield head
    async for batch in visit.env.products.batches(asked.chosen, query_words(asked.search)):
        yield rows(form, batch)


PAGES = (PageRoute("GET", "/products/export", export, "read:products"),)
