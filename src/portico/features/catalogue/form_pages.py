"""Forms that create and change products."""

import re
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from portico.core.errors import BrokenRule, NotFound, PreconditionFailed, Unreadable
from portico.core.money import CURRENCIES, currency, price_shown, price_written
from portico.features.catalogue import rules as catalogue_rules
from portico.features.catalogue.pages import (
    FILTERS,
    MAX_CATEGORIES,
    images_of,
    metadata_of,
    product_of,
)
from portico.features.catalogue.products import PRODUCTS as KIND
from portico.features.catalogue.rules import MAX_IMAGES, MAX_METADATA_KEYS, Product
from portico.features.catalogue.storage import Products
from portico.resource.changes import change_record, create_record
from portico.web.conditions import entity_tag, require_match
from portico.web.envelope import Single, encode
from portico.web.messages import Reply
from portico.web.pages.forms import Form
from portico.web.pages.paging import list_of
from portico.web.pages.sent_once import fresh_key, sent_once
from portico.web.pages.site import ONCE, PageRoute, Visit
from portico.web.pages.versions import VERSION, differences

_IMAGE, _METADATA = "image", "metadata"
_MOST = {_IMAGE: MAX_IMAGES, _METADATA: MAX_METADATA_KEYS}
_FIRST_FIELD = {_IMAGE: "url", _METADATA: "name"}
_WHOLE = re.compile("-?[0-9]{1,18}")

_GONE = (
    "This product was deleted while you were editing it, so nothing was saved. What you entered is"
    " still here: you can create a new product with it."
)


def _whole(text: str) -> int:
    plain = text.strip()
    if not _WHOLE.fullmatch(plain):
        raise BrokenRule("must be a whole number, such as 12")
    return catalogue_rules.stock_quantity(int(plain))


def _values(form: Form) -> dict[str, Any]:
    """The values that creating and changing share. Empty rows are ignored."""
    return {
        "name": form.read("name", catalogue_rules.name),
        "category": form.read("category", catalogue_rules.category),
        "price": form.read("price", partial(price_written, code=form.text("currency"))),
        "currency": form.read("currency", currency),
        "stock_quantity": form.read("stock_quantity", _whole),
        "description": form.optional("description", catalogue_rules.description) or "",
        "images": _images(form),
        "metadata": _metadata(form),
    }


def _images(form: Form) -> list[dict[str, str]]:
    images = []
    for url, alt in _rows_of(form, _IMAGE, "url", "alt"):
        image = {"url": form.read(url, catalogue_rules.image_url)}
        images.append({**image, "alt": form.optional(alt, catalogue_rules.image_alt) or ""})
    return images


def _metadata(form: Form) -> dict[str, str]:
    metadata: dict[str, str] = {}

    def new_name(text: str) -> str:
        if text in metadata:
            raise BrokenRule("is used twice: each name has one value")
        return catalogue_rules.metadata_key(text)

    for name, value in _rows_of(form, _METADATA, "name", "value"):
        key = form.read(name, new_name)
        metadata[key] = form.optional(value, catalogue_rules.metadata_value) or ""
    return metadata


def _stored_form(values: dict[str, Any]) -> dict[str, Any]:
    lists = {name: KIND.by_name[name].stored(values[name]) for name in ("images", "metadata")}
    return values | lists


def _rows_of(form: Form, kind: str, *parts: str) -> list[list[str]]:
    """The names of the fields of each row that is not empty."""
    rows = [[f"{kind}_{n}_{part}" for part in parts] for n in range(1, _MOST[kind] + 1)]
    return [row for row in rows if any(form.text(name) for name in row)]


def _rows(visit: Visit, kind: str, stored: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The rows of a kind to show: the stored ones and an empty one, or as many as were sent, and
    one more if a row was to be added."""
    sent = sum(
        visit.form.has(f"{kind}_{n}_{_FIRST_FIELD[kind]}") for n in range(1, _MOST[kind] + 1)
    )
    count = sent + (visit.form.text("add") == kind) if sent else len(stored) + 1
    return [*stored, *[("", "")] * _MOST[kind]][: min(count, _MOST[kind])]


async def _page(
    visit: Visit, title: str, product: Product | None, *, status: int = 200, **context: Any
) -> Reply:
    images = [(one.url, one.alt) for one in images_of(product)] if product else []
    metadata = list(metadata_of(product).items()) if product else []
    return visit.page(
        "product_form.html",
        title,
        status=status,
        **{
            "product": product,
            "price": price_shown(product.price, product.currency, grouped=False) if product else "",
            "images": _rows(visit, _IMAGE, images),
            "metadata": _rows(visit, _METADATA, metadata),
            "most": _MOST,
            "added": visit.form.text("add"),
            "currencies": [(code, code) for code in sorted(CURRENCIES)],
            "categories": await visit.env[Products].categories(MAX_CATEGORIES),
            "statuses": [(name, name.capitalize()) for name in ("draft", "active", "archived")],
            "hidden": {},
            "came_from": list_of(visit, FILTERS),
            "theirs": None,
            **context,
        },
    )


async def show_new(visit: Visit) -> Reply:
    """GET /products/new."""
    key = visit.form.shown(ONCE, fresh_key(visit))
    return await _page(visit, "New product", None, hidden={ONCE: key})


async def create(visit: Visit) -> Reply:
    """POST /products/new. A button that adds a row saves nothing."""
    form = visit.form
    if form.text("add"):
        return await show_new(visit)
    values = {**_values(form), "status": form.read("status", catalogue_rules.status)}
    form.check()
    if not form.text(ONCE):
        raise Unreadable("This form is incomplete. Load the page again.")
    return await sent_once(
        visit,
        lambda by: create_record(visit.env, KIND, _stored_form(values), by),
        lambda product: visit.go(f"/products/{product.id}", done="product-created"),
    )


def _tag(product: Product) -> str:
    """The product's entity tag, as in the API."""
    return entity_tag(encode(Single(KIND.body(product))))


async def show_edit(visit: Visit) -> Reply:
    """GET /products/{id}/edit. A refused form keeps the version that it started from."""
    try:
        product = await product_of(visit, visit.request.resource_id)
    except NotFound:
        if not visit.form.text(VERSION):
            raise
        return await _gone(visit)
    version = visit.form.shown(VERSION, _tag(product))
    return await _page(visit, "Edit product", product, hidden={VERSION: version})


async def edit(visit: Visit) -> Reply:
    """POST /products/{id}/edit. A button that adds a row saves nothing."""
    form, product_id = visit.form, visit.request.resource_id
    if form.text("add"):
        return await show_edit(visit)
    values = _values(form)
    form.check()

    def check(product: Product) -> None:
        require_match(form.text(VERSION), encode(Single(KIND.body(product))))

    try:
        product = await change_record(
            visit.env, KIND, product_id, _stored_form(values), check, await visit.by()
        )
    except PreconditionFailed:
        found = await visit.env[Products].get(product_id)
        return await (_gone(visit) if found is None else _meanwhile(visit, found, values))
    except NotFound:
        return await _gone(visit)
    done = "nothing-changed" if form.text(VERSION) == _tag(product) else "product-changed"
    return visit.go(f"/products/{product_id}", done=done, **list_of(visit, FILTERS))


def _stored(product: Product, names: Iterable[str]) -> dict[str, str]:
    images = [{"url": one.url, "alt": one.alt} for one in images_of(product)]
    stored = {name: getattr(product, name) for name in names}
    return _told(stored | {"images": images, "metadata": metadata_of(product)})


def _told(values: dict[str, Any]) -> dict[str, str]:
    """Values as the page compares them, by the words of their fields."""
    return {
        "Name": values["name"],
        "Category": values["category"],
        "Price": f"{price_shown(values['price'], values['currency'])} {values['currency']}",
        "Stock": f"{values['stock_quantity']:,}",
        "Description": values["description"],
        "Images": "\n".join(f"{one['url']} {one['alt']}".rstrip() for one in values["images"]),
        "Metadata": "\n".join(f"{name}: {text}" for name, text in values["metadata"].items()),
    }


async def _meanwhile(visit: Visit, product: Product, mine: dict[str, Any]) -> Reply:
    """The form again, beside the values stored meanwhile. Sent once more, it overwrites them."""
    return await _page(
        visit,
        "Edit product",
        product,
        status=412,
        hidden={VERSION: _tag(product)},
        theirs=product,
        differences=differences(_stored(product, mine), _told(mine)),
    )


async def _gone(visit: Visit) -> Reply:
    """The form of a new product, filled in with the values for one that was deleted meanwhile."""
    visit.form.refused = _GONE
    hidden = {ONCE: fresh_key(visit)}
    return await _page(visit, "New product", None, status=404, hidden=hidden)


PAGES = (
    PageRoute("GET", "/products/new", show_new, "write:products"),
    PageRoute("POST", "/products/new", create, "write:products"),
    PageRoute("GET", "/products/{id}/edit", show_edit, "write:products"),
    PageRoute("POST", "/products/{id}/edit", edit, "write:products"),
)
