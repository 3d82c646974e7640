"""The catalogue: the list of products, and a product with its actions."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

import msgspec

from portico.core.errors import (
    BrokenRule,
    Conflict,
    Invalid,
    NotFound,
    PorticoError,
    Unavailable,
    Unreadable,
)
from portico.core.ids import parse_id
from portico.core.money import price_written
from portico.core.text import counted
from portico.core.words import FORMATS, Format
from portico.data.listing import Beginning, Page
from portico.data.search import query_words
from portico.environment import Environment
from portico.features.catalogue.files import PRODUCTS, rows
from portico.features.catalogue.products import PRODUCTS as KIND
from portico.features.catalogue.products import Image, ProductFilter
from portico.features.catalogue.rules import STATUSES, Product
from portico.features.catalogue.storage import Products
from portico.resource.changes import change_record, delete_record, unchecked
from portico.resource.file_rows import header
from portico.resource.inputs import reading
from portico.web.messages import Reply
from portico.web.pages.filters import named
from portico.web.pages.forms import Form
from portico.web.pages.list_files import as_file, format_asked
from portico.web.pages.paging import PER_PAGE, back_to_list, list_of, offset_of, pages_of
from portico.web.pages.search import Searched
from portico.web.pages.site import PageRoute, Visit, addressed


class Verb(NamedTuple):
    """A status change: its button, its notice and its consequence, for one product and for
    several."""

    name: str
    words: str
    done: str
    status: str
    means: str
    means_for_several: str


_SHOWN = (
    "Makes it active, so that the API lists it.",
    "They become active, so that the API lists them.",
)
PUBLISH = Verb("publish", "Publish", "published", "active", *_SHOWN)
ACTIVATE = Verb("activate", "Activate", "activated", "active", *_SHOWN)
ARCHIVE = Verb(
    "archive", "Archive", "archived", "archived",
    "The API will list it only when asked for archived products. Nothing is deleted.",
    "The API will list them only when asked for archived products. Nothing is deleted.",
)  # fmt: skip
VERBS = {verb.name: verb for verb in (PUBLISH, ACTIVATE, ARCHIVE)}


def _verb(old: str, new: str) -> Verb:
    """The name of the change from one status to another."""
    if new == "archived":
        return ARCHIVE
    return PUBLISH if old == "draft" else ACTIVATE


_FROM = {
    verb: [
        old for old in STATUSES for new in KIND.states[0].following[old] if _verb(old, new) is verb
    ]
    for verb in VERBS.values()
}


def verbs_for(status: str) -> list[Verb]:
    """The status changes that a product with this status allows."""
    return [verb for verb in VERBS.values() if status in _FROM[verb]]


def allows(status: str, verb: Verb) -> bool:
    """Whether a product with this status allows the change, or has had it."""
    return status == verb.status or status in _FROM[verb]


def others_for(status: str) -> str:
    """The changes that a product with this status allows, in words."""
    return " or ".join(one.words for one in verbs_for(status))


def check_of(verb: Verb) -> Callable[[Product], None]:
    """A check that raises `Conflict` if the status, changed meanwhile, allows no such change."""

    def check(product: Product) -> None:
        if not allows(product.status, verb):
            raise Conflict(f"It is {product.status}. Use {others_for(product.status)} instead.")

    return check


COUNTING = "counting"
"""The id of the element that asks for the total of a search while the user types."""

MAX_CATEGORIES = 200
"""How many categories a field suggests; others can be typed."""

_MAX_SEARCH = 200
_STOCK = {"true": True, "false": False}
FILTERS = ("search", "status", "category", "min_price", "max_price", "in_stock", "page")


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
        category=form.optional("category", reading(KIND.by_name["category"])),
        min_price=low,
        max_price=form.optional("max_price", highest),
        in_stock=_STOCK.get(shown["in_stock"]),
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
        narrow=any(
            asked.shown[name] for name in ("category", "min_price", "max_price", "in_stock")
        ),
        statuses=STATUSES,
        verbs=VERBS.values(),
        formats=FORMATS,
        categories=await visit.env[Products].categories(MAX_CATEGORIES),
        may_change=may_change(visit),
    )


async def _search(env: Environment, text: str, most: int) -> Sequence[Product]:
    words = query_words(text)
    return (await env[Products].beginning(ProductFilter(None), words, most)).rows if words else []


SEARCHED = Searched(
    "Products",
    "/products",
    "read:products",
    get=lambda env, product_id: env[Products].get(product_id),
    search=_search,
    label=lambda product: named(product.name, product.id),
)


def may_change(visit: Visit) -> bool:
    """Whether the user may change products."""
    return "write:products" in visit.request.caller.scopes


async def product_of(visit: Visit, product_id: int) -> Product:
    """A product. Raises `NotFound`."""
    product: Product | None = await visit.env[Products].get(product_id)
    if product is None:
        raise NotFound(f"There is no product {product_id}. It may have been deleted.")
    return product


def images_of(product: Product) -> list[Image]:
    """The images of a product."""
    made: list[Image] = KIND.by_name["images"].given(product.images)
    return made


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


DELETE = "delete"

MOST_NAMED = 5
"""How many products the confirmation names."""


async def _carry_out(visit: Visit, product_id: int, verb: Verb | None) -> None:
    """Change the status of a product, or delete it if no verb is given."""
    by = await visit.by()
    if verb is None:
        await delete_record(visit.env, KIND, product_id, unchecked, by)
    else:
        values = {"status": verb.status}
        await change_record(visit.env, KIND, product_id, values, check_of(verb), by)


async def change_status(visit: Visit) -> Reply:
    """POST /products/{id}."""
    verb = VERBS.get(visit.form.text("do"))
    if verb is None:
        raise Unreadable("The page does not offer this change. Load it again.")
    product_id = visit.request.resource_id
    await _carry_out(visit, product_id, verb)
    return visit.go(
        f"/products/{product_id}", done=f"product-{verb.done}", **list_of(visit, FILTERS)
    )


async def ask_delete(visit: Visit) -> Reply:
    """GET /products/delete."""
    product, back = await product_of(visit, visit.sent_id()), list_of(visit, FILTERS)
    return visit.asks(
        f"Delete {named(product.name, product.id)}?",
        *_consequences(None, 1),
        words="Delete product",
        danger=True,
        action="/products/delete",
        back=(addressed(f"/products/{product.id}", back), named(product.name, product.id)),
        id=product.id,
        **back,
    )


async def delete(visit: Visit) -> Reply:
    """POST /products/delete."""
    await _carry_out(visit, visit.sent_id(), None)
    return visit.go("/products", **back_to_list(visit, FILTERS), done="product-deleted")


class _Chosen(NamedTuple):
    """The action, the selected products, and the list that they were selected from."""

    verb: Verb | None
    words: str
    done: str
    ids: list[int]
    back: dict[str, str]


def _chosen(visit: Visit) -> _Chosen:
    """The selection. Raises `Unreadable` if it is empty, or larger than a page of a list."""
    name = visit.sent("do")
    verb = VERBS.get(name)
    if verb is None and name != DELETE:
        raise Unreadable("The page does not offer this change. Load it again.")
    texts = visit.sent("ids").split(",") if visit.sent("ids") else visit.sent_all("id")
    ids = list(dict.fromkeys(parse_id(text) for text in texts))
    if not 0 < len(ids) <= PER_PAGE:
        raise Unreadable(f"Select 1 to {PER_PAGE} products.")
    words, done = (verb.words, verb.done) if verb else ("Delete", "deleted")
    return _Chosen(verb, words, done, ids, back_to_list(visit, FILTERS))


def _consequences(verb: Verb | None, count: int, refused: Sequence[Product] = ()) -> list[str]:
    """What a change does to `count` products, but for those whose status does not allow it."""
    if verb is None:
        whose = "its" if count == 1 else "their"
        return [f"This also deletes {whose} image addresses and metadata, and cannot be undone."]
    told = []
    if count > len(refused):
        told.append(verb.means if count == 1 else verb.means_for_several)
    if refused:
        status, instead = refused[0].status, others_for(refused[0].status)
        whose = "1 is" if len(refused) == 1 else f"{len(refused)} are"
        told.append(f"{whose} {status} and will be skipped: use {instead} instead.")
    elif count > 1:
        told.append("Products that cannot be changed are skipped and listed.")
    return told


def _names(ids: list[int], found: Mapping[int, Product]) -> str:
    """The names of the first products, and how many more there are."""
    first = ids[:MOST_NAMED]
    names = [
        named(product.name, row_id) if (product := found.get(row_id)) else f"Product {row_id}"
        for row_id in first
    ]
    more = len(ids) - len(first)
    return ", ".join(names) + (f", and {more} more" if more else "")


async def ask_several(visit: Visit) -> Reply:
    """GET /products/several."""
    chosen = _chosen(visit)
    what = counted(len(chosen.ids), "product")
    found = await visit.env[Products].several(chosen.ids)
    refused = [
        product
        for product in found.values()
        if chosen.verb is not None and not allows(product.status, chosen.verb)
    ]
    return visit.asks(
        f"{chosen.words} {what}?",
        _names(chosen.ids, found),
        *_consequences(chosen.verb, len(chosen.ids), refused),
        words=f"{chosen.words} {what}",
        danger=chosen.verb is None,
        action="/products/several",
        back=(addressed("/products", chosen.back), "Products"),
        do=visit.sent("do"),
        ids=",".join(map(str, chosen.ids)),
        list=urlencode(chosen.back),
    )


class _Outcome(NamedTuple):
    """The outcome for one of several products; `why` says why it failed, empty if it did not."""

    id: int
    name: str
    why: str = ""
    gone: bool = False


async def _outcome(visit: Visit, product_id: int, verb: Verb | None) -> _Outcome:
    product = await visit.env[Products].get(product_id)
    name = named(product.name, product_id) if product else f"Product {product_id}"
    try:
        await _carry_out(visit, product_id, verb)
    except NotFound:
        return _Outcome(product_id, name, "It has been deleted since.", gone=True)
    except (Conflict, Invalid, Unavailable) as error:
        return _Outcome(product_id, name, _reason(error))
    return _Outcome(product_id, name, gone=verb is None)


def _reason(error: PorticoError) -> str:
    return error.details[0].message if error.details else error.message


async def change_several(visit: Visit) -> Reply:
    """POST /products/several: each product by itself. Failures are reported; the rest is done."""
    chosen = _chosen(visit)
    outcomes = [await _outcome(visit, product_id, chosen.verb) for product_id in chosen.ids]
    done = sum(not one.why for one in outcomes)
    if done == len(outcomes):
        return visit.go("/products", **chosen.back, done=f"products-{chosen.done}", count=str(done))
    were = "was" if 1 in {done, len(outcomes)} else "were"
    return visit.page(
        "records_told.html",
        f"{done} of {counted(len(outcomes), 'product')} {were} {chosen.done}",
        path="/products",
        heading="Products",
        outcomes=outcomes,
        done_words=chosen.done.capitalize(),
        back=urlencode(chosen.back),
    )


CHANGE_PAGES = (
    PageRoute("POST", "/products/{id}", change_status, "write:products"),
    PageRoute("GET", "/products/delete", ask_delete, "write:products"),
    PageRoute("POST", "/products/delete", delete, "write:products"),
    PageRoute("GET", "/products/several", ask_several, "write:products"),
    PageRoute("POST", "/products/several", change_several, "write:products"),
)


async def export(visit: Visit) -> Reply:
    """GET /products/export: all products of the same query, the oldest first."""
    asked = asked_of(visit)
    form = format_asked(visit)
    if asked.faults:
        raise Unreadable("The file cannot be created. Correct the filters, then export again.")
    return as_file(visit, "products", form, _file(visit, asked, form))


async def _file(visit: Visit, asked: Asked, form: Format) -> AsyncGenerator[bytes, None]:
    if head := header(form, PRODUCTS):
        yield head
    async for batch in visit.env[Products].batches(asked.chosen, query_words(asked.search)):
        yield rows(form, batch)


EXPORT_PAGES = (PageRoute("GET", "/products/export", export, "read:products"),)
