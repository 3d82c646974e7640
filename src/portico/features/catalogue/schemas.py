"""The JSON shapes of products."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from portico.core.errors import BrokenRule, Fault
from portico.core.money import currency, price_bound, price_text, price_units
from portico.core.rules import Measured
from portico.features.catalogue import rules as catalogue_rules
from portico.features.catalogue.rules import Product
from portico.web.envelope import Identifier, Timestamp, timestamp
from portico.web.fields import Integer, Items, Number, Object, Text
from portico.web.metadata import MetadataBody, MetadataIn
from portico.web.paging import ListQuery
from portico.web.reading import Param

_SEARCH = Measured(0, 200)

Status = Literal["draft", "active", "archived"]
Price = Annotated[
    Raw,
    Meta(
        description="Exact, at most four decimals.",
        examples=[24.5],
        extra_json_schema={"type": "number", "minimum": 0},
    ),
]


class ProductItem(msgspec.Struct, frozen=True):
    """A product in a list."""

    id: Identifier
    name: Annotated[str, Meta(examples=["Desk lamp"])]
    description: Annotated[str, Meta(examples=["Warm light on a jointed arm."])]
    category: Annotated[str, Meta(examples=["lighting"])]
    price: Price
    currency: Annotated[str, Meta(description="ISO 4217.", examples=["USD"])]
    in_stock: Annotated[bool, Meta(description="Whether `stock_quantity` is above 0.")]
    stock_quantity: Annotated[int, Meta(ge=0, examples=[12])]
    status: Status
    created_at: Timestamp
    updated_at: Timestamp


class ProductBody(ProductItem, frozen=True):
    """A product with all fields."""

    message: ClassVar[str] = "Product created."
    images: Annotated[
        Raw,
        Meta(
            examples=[[{"url": "https://example.com/lamp.jpg", "alt": "The lamp, lit"}]],
            extra_json_schema={
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["url", "alt"],
                    "properties": {"url": {"type": "string"}, "alt": {"type": "string"}},
                },
            },
        ),
    ]
    metadata: MetadataBody


def product_item(product: Product) -> ProductItem:
    """A product as lists show it."""
    return ProductItem(
        product.id,
        product.name,
        product.description,
        product.category,
        Raw(price_text(product.price)),
        product.currency,
        product.stock_quantity > 0,
        product.stock_quantity,
        product.status,  # type: ignore[arg-type]  # the database holds no other
        timestamp(product.created_at),
        timestamp(product.updated_at),
    )


def product_body(product: Product) -> ProductBody:
    """A product as GET /products/{id} shows it."""
    return ProductBody(
        product.id,
        product.name,
        product.description,
        product.category,
        Raw(price_text(product.price)),
        product.currency,
        product.stock_quantity > 0,
        product.stock_quantity,
        product.status,  # type: ignore[arg-type]  # the database holds no other
        timestamp(product.created_at),
        timestamp(product.updated_at),
        Raw(product.images),
        Raw(product.metadata),
    )


_Name = Annotated[str, Text(catalogue_rules.name)]
_Category = Annotated[str, Text(catalogue_rules.category)]
_Description = Annotated[str, Text(catalogue_rules.description)]
_PriceIn = Annotated[int, Number(price_units)]
_Currency = Annotated[str, Text(currency)]
_Stock = Annotated[int, Integer(catalogue_rules.stock_quantity)]
_Status = Annotated[str, Text(catalogue_rules.status)]


class ImageIn(msgspec.Struct):
    """An image of a product in a request."""

    url: Annotated[str, Text(catalogue_rules.image_url)]
    alt: Annotated[str, Text(catalogue_rules.image_alt)] = ""


_Images = Annotated[list[dict[str, str]], Items(Object(ImageIn), most=catalogue_rules.MAX_IMAGES)]


class CreateProduct(msgspec.Struct):
    """The body of POST /products."""

    EXAMPLE: ClassVar = {
        "name": "Desk lamp",
        "category": "lighting",
        "price": 24.5,
        "description": "Warm light on a jointed arm.",
        "stock_quantity": 12,
        "status": "active",
        "images": [{"url": "https://example.com/lamp.jpg", "alt": "The lamp, lit"}],
        "metadata": {"colour": "brass"},
    }

    name: _Name
    category: _Category
    price: _PriceIn
    description: _Description = ""
    currency: _Currency = "USD"
    stock_quantity: _Stock = 0
    status: _Status = "draft"
    images: _Images = []
    metadata: MetadataIn = {}


class ChangeProduct(msgspec.Struct):
    """The body of PATCH /products/{id}. Omitted fields stay unchanged."""

    EXAMPLE: ClassVar = {"price": 19.95, "stock_quantity": 3}

    name: _Name | UnsetType = UNSET
    category: _Category | UnsetType = UNSET
    price: _PriceIn | UnsetType = UNSET
    description: _Description | UnsetType = UNSET
    currency: _Currency | UnsetType = UNSET
    stock_quantity: _Stock | UnsetType = UNSET
    status: _Status | UnsetType = UNSET
    images: _Images | UnsetType = UNSET
    metadata: MetadataIn | UnsetType = UNSET


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise BrokenRule("must be true or false")
    return text == "true"


class ListProducts(ListQuery, frozen=True):
    """The query of GET /products."""

    category: Annotated[str | None, Param(catalogue_rules.category, type="string")] = None
    min_price: Annotated[Decimal | None, Param(price_bound, type="number", minimum=0)] = None
    max_price: Annotated[Decimal | None, Param(price_bound, type="number", minimum=0)] = None
    in_stock: Annotated[bool | None, Param(_truth, type="boolean")] = None
    status: Annotated[str, Param(catalogue_rules.status, type="string")] = "active"
    search: Annotated[
        str,
        Param(
            _SEARCH,
            empty=True,
            type="string",
            description="Full-text search over name and description. All words must match, in any"
            " case and accent, the last one as a prefix; most relevant first.",
        ),
    ] = ""

    @staticmethod
    def across(values: Mapping[str, Any]) -> list[Fault]:
        """Faults that involve several parameters."""
        faults = ListQuery.across(values)
        low, high = values.get("min_price"), values.get("max_price")
        if low is not None and high is not None and low > high:
            faults.append(Fault("min_price", "must not be greater than max_price"))
        return faults
