"""The catalogue: the list of products, and a product with its actions."""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlencode

import msgspec

from portico.domain import products
from portico.domain.errors import BrokenRule, NotFound
from portico.domain.money import price_written
from portico.domain.products import STATUSES, Image, Product
from portico.domain.search import query_words
from portico.domain.words import FORMATS
from portico.http.messages import Reply
from portico.pages.filters import named
from portico.pages.forms import Form
from portico.pages.lists import list_of
from portico.pages.paging import PER_PAGE, offset_of, pages_of
from portico.pages.product_verbs import VERBS, verbs_for
from portico.pages.site import PageRoute, Visit
from portico.storage.listing import Beginning, Page
from portico.storage.products import ProductFilter, Products

COUNTING = "counting"
"""The id of the element that asks for the total of a search while the user types."""

MAX_CATEGORIES = 200
"""How many categories a field suggests; others can be typed."""

_MAX_SEARCH = 200
_STOCK = {"yes": True, "no": False}
FILTERS = ("search", "status", "category", "min_price", "max_price", "stock", "page")


class Asked(NamedTuple):
    """A query of the list: its filter, the search, what the fields show, and their faults."""

    chosen: ProductFilter
    search: str
    shown: dict[str, str]
    faults: Mapping[str, str]

    def query(self, page: int) -> str:
        """The query string of a page of the same list."""
        shown = {name: text for name, text in self.shown.items() if text}
        return urlencode(shown | ({"page": page} if page > 1 else {}))


def asked_of(visit: Visit) -> Asked:
    """The query of the address."""
    shown = {name: visit.sent(name).strip() for name in FILTERS if name != "page"}
    shown["search"] = shown["search"][:_MAX_SEARCH]
    shown["status"] = shown["status"] if shown["status"] in STATUSES else ""
    form = Form({name: [text] for name, text in shown.items()})
    low = form.optional("min_price", price_written)

    def highest(text: str) -> int:
        if (price := price_written(text)) < (low or 0):
            raise BrokenRule("must not be below the other price")
        return price

    chosen = ProductFilter(
        status=shown["status"] or None,
        category=form.optional("category", products.category),
        min_price=low,
        max_price=form.optional("max_price", highest),
        in_stock=_STOCK.get(shown["stock"]),
    )
    return Asked(chosen, shown["search"], shown, form.faults)


async def _page(visit: Visit, asked: Asked, number: int) -> Page[Product]:
    return await visit.env[Products].page(
        asked.chosen,
        words=query_words(asked.search),
        offset=offset_of(number),
        limit=PER_PAGE,
    )


async def _found(visit: Visit, asked: Asked) -> tuple[int, Beginning[Product]]:
    """A page's number and its products, none if a filter is faulty. A search while the user types
    is not counted: the page then asks for the total itself."""
    if asked.faults:
        return 1, Beginning([], 0)
    number = max(visit.sent_number("page") or 1, 1)
    words = query_words(asked.search)
    header = visit.request.header
    if header("hx-request") and header("hx-trigger") != COUNTING and words and number == 1:
        return 1, await visit.env[Products].beginning(asked.chosen, words, PER_PAGE)
    found = await _page(visit, asked, number)
    last = pages_of(found.total)
    if number > last > 0:
        number, found = last, await _page(visit, asked, last)
    return number, Beginning(found.rows, found.total, found.exact)


async def show_all(visit: Visit) -> Reply:
    """GET /products: the newest first, or by relevance. A page beyond the last gives the last."""
    asked = asked_of(visit)
    number, found = await _found(visit, asked)
    return visit.page(
        "products.html",
        "Products",
        products=found.rows,
        total=found.total,
        exact=found.exact,
        number=number,
        last=number if found.total is None else pages_of(found.total),
        counting=COUNTING,
        asked=asked,
        filtered=any(asked.shown.values()),
        narrow=any(asked.shown[name] for name in ("category", "min_price", "max_price", "stock")),
        statuses=STATUSES,
        verbs=VERBS.values(),
        formats=FORMATS,
        categories=await visit.env[Products].categories(MAX_CATEGORIES),
        may_change=may_change(visit),
    )


def may_change(visit: Visit) -> bool:
    """Whether the user may change products."""
    return "write:products" in visit.request.caller.scopes


async def product_of(visit: Visit, product_id: int) -> Product:
    """A product. Raises `NotFound`."""
    product = await visit.env[Products].get(product_id)
    if product is None:
        raise NotFound(f"There is no product {product_id}. It may have been deleted.")
    return product


def images_of(product: Product) -> list[Image]:
    """The images of a product."""
    return msgspec.json.decode(product.images, type=list[Image])


def metadata_of(product: Product) -> dict[str, str]:
    """The metadata of a product."""
    return msgspec.json.decode(product.metadata, type=dict[str, str])


async def show(visit: Visit) -> Reply:
    """GET /products/{id}."""
    product = await product_of(visit, visit.request.resource_id)
    return visit.page(
        "product.html",
        named(product.name, product.id),
        product=product,
        images=images_of(product),
        metadata=metadata_of(product),
        verbs=verbs_for(product.status),
        may_change=may_change(visit),
        came_from=list_of(visit, FILTERS),
    )


PAGES = (
    PageRoute("GET", "/products", show_all, "read:products"),
    PageRoute("GET", "/products/{id}", show, "read:products"),
)
