"""Products in files."""

from collections.abc import Iterable, Iterator
from typing import BinaryIO

import msgspec
from msgspec import Raw

from portico.core.money import price_text
from portico.core.words import Format
from portico.features.catalogue.products import PRODUCTS as KIND
from portico.features.catalogue.rules import Product
from portico.resource.file_rows import FileRow, read_rows
from portico.resource.files import columns_of
from portico.web.csv_cells import csv_text

PRODUCTS = columns_of(KIND, KIND.create.__struct_fields__, "a product")


def read_products(file: BinaryIO, form: Format, *, update: bool = False) -> Iterator[FileRow]:
    """`read_rows` of a file of products."""
    return read_rows(PRODUCTS, file, form, update=update)


class _NdjsonRow(msgspec.Struct):
    id: int
    name: str
    category: str
    price: Raw
    description: str
    currency: str
    stock_quantity: int
    status: str
    images: Raw
    metadata: Raw


def rows(form: Format, products: Iterable[Product]) -> bytes:
    """Products as rows of a file: their ids and the fields that clients can set."""
    if form == "csv":
        return csv_text(_csv_cells(product) for product in products)
    return msgspec.json.Encoder().encode_lines(_ndjson_row(product) for product in products)


def _ndjson_row(product: Product) -> _NdjsonRow:
    return _NdjsonRow(
        product.id,
        product.name,
        product.category,
        Raw(price_text(product.price)),
        product.description,
        product.currency,
        product.stock_quantity,
        product.status,
        Raw(product.images),
        Raw(product.metadata),
    )


def _csv_cells(product: Product) -> tuple[object, ...]:
    return (
        product.id,
        product.name,
        product.category,
        price_text(product.price),
        product.description,
        product.currency,
        product.stock_quantity,
        product.status,
        "" if product.images == "[]" else product.images,
        "" if product.metadata == "{}" else product.metadata,
    )
