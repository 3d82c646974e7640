"""Changes made with one button, to one product or to several of a list."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from portico.domain.errors import (
    Conflict,
    Invalid,
    NotFound,
    PorticoError,
    Unavailable,
    Unreadable,
)
from portico.domain.ids import parse_id
from portico.domain.products import Product
from portico.domain.text import counted
from portico.http.messages import Reply
from portico.pages.filters import named
from portico.pages.lists import back_to_list, list_of
from portico.pages.paging import PER_PAGE
from portico.pages.product_verbs import VERBS, Verb, allows, check_of, others_for
from portico.pages.products import FILTERS, product_of
from portico.pages.site import PageRoute, Visit, addressed
from portico.services.products import change_product, delete_product
from portico.storage.products import Products

DELETE = "delete"

MOST_NAMED = 5
"""How many products the confirmation names."""


async def _carry_out(visit: Visit, product_id: int, verb: Verb | None) -> None:
    """Change the status of a product, or delete it if no verb is given."""
    by = await visit.by()
    if verb is None:
        await delete_product(visit.env, product_id, lambda _product: None, by)
    else:
        values = {"status": verb.status}
        await change_product(visit.env, product_id, values, check_of(verb), by)


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
    name = product.name if product else f"Product {product_id}"
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
        "products_told.html",
        f"{done} of {counted(len(outcomes), 'product')} {were} {chosen.done}",
        outcomes=outcomes,
        done_words=chosen.done.capitalize(),
        back=urlencode(chosen.back),
    )


PAGES = (
    PageRoute("POST", "/products/{id}", change_status, "write:products"),
    PageRoute("GET", "/products/delete", ask_delete, "write:products"),
    PageRoute("POST", "/products/delete", delete, "write:products"),
    PageRoute("GET", "/products/several", ask_several, "write:products"),
    PageRoute("POST", "/products/several", change_several, "write:products"),
)
