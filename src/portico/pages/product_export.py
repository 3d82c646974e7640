"""The list of products as a file."""

from collections.abc import AsyncGenerator

from portico.contract.product_files import header, rows
from portico.domain.errors import Unreadable
from portico.domain.search import query_words
from portico.domain.words import Format
from portico.http.messages import Reply
from portico.pages.list_files import as_file, format_asked
from portico.pages.products import Asked, asked_of
from portico.pages.site import PageRoute, Visit
from portico.storage.products import Products


async def export(visit: Visit) -> Reply:
    """GET /products/export: all products of the same query, the oldest first."""
    asked = asked_of(visit)
    form = format_asked(visit)
    if asked.faults:
        raise Unreadable("The file cannot be created. Correct the filters, then export again.")
    return as_file(visit, "products", form, _file(visit, asked, form))


async def _file(visit: Visit, asked: Asked, form: Format) -> AsyncGenerator[bytes, None]:
    if head := header(form):
        yield head
    async for batch in visit.env[Products].batches(asked.chosen, query_words(asked.search)):
        yield rows(form, batch)


PAGES = (PageRoute("GET", "/products/export", export, "read:products"),)
