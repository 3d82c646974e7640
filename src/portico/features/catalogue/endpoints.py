"""The endpoints of products."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from portico.change import Change
from portico.core.audit import Author
from portico.core.errors import Fault, Invalid, NotFound, PreconditionFailed
from portico.core.money import bound_units
from portico.data.database import Dependency
from portico.data.search import query_words
from portico.environment import Environment
from portico.features.catalogue import service as catalogue_service
from portico.features.catalogue.rules import Product
from portico.features.catalogue.schemas import (
    ChangeProduct,
    CreateProduct,
    ListProducts,
    ProductBody,
    ProductItem,
    product_body,
    product_item,
)
from portico.features.catalogue.storage import ProductFilter, Products, list_part
from portico.resource import batches
from portico.web.conditions import etag_header, precondition
from portico.web.envelope import Created, Listed, Single
from portico.web.lists import list_reply, start_of
from portico.web.messages import BodyRequest, QueryRequest, Reply, Request, json_reply
from portico.web.reading import sent
from portico.web.routing import BodyRoute, QueryRoute, Route


async def list_products(request: QueryRequest[ListProducts]) -> Reply:
    """GET /products."""
    query, start = request.query, start_of(request)
    low, high = query.min_price, query.max_price
    chosen = ProductFilter(
        status=query.status,
        category=query.category,
        min_price=None if low is None else bound_units(low, up=True),
        max_price=None if high is None else bound_units(high, up=False),
        in_stock=query.in_stock,
    )
    page = await request.environment[Products].page(
        chosen,
        words=query_words(query.search) if query.search else [],
        offset=start.offset,
        limit=query.limit,
        behind=start.behind,
    )
    items = [product_item(product) for product in page.rows]
    return list_reply(request, "/products", start, page, items)


def _list_part(request: QueryRequest[ListProducts]) -> Dependency:
    return list_part(request.query.status, request.query.category)


async def read_product(request: Request) -> Reply:
    """GET /products/{id}."""
    product = await request.environment[Products].get(request.resource_id)
    if product is None:
        raise NotFound(f"There is no product {request.resource_id}.")
    return json_reply(200, Single(product_body(product)))


async def create_product(request: BodyRequest[CreateProduct]) -> Reply:
    """POST /products."""
    base = request.environment.addresses.base

    def reply(product: Product) -> Reply:
        location = ("location", f"{base}/products/{product.id}")
        body = product_body(product)
        return json_reply(201, Created(body, body.message), location, etag_header(body))

    values = sent(request.body)
    by = request.answering(reply)
    return reply(await catalogue_service.create_product(request.environment, values, by))


async def change_product(request: BodyRequest[ChangeProduct]) -> Reply:
    """PATCH /products/{id}."""
    product = await catalogue_service.change_product(
        request.environment,
        request.resource_id,
        sent(request.body),
        precondition(request, product_body),
        request.by,
    )
    body = product_body(product)
    return json_reply(200, Single(body), etag_header(body))


async def _status_faults(request: Request, values: Mapping[str, Any]) -> list[Fault]:
    return await catalogue_service.status_faults(request.environment, request.resource_id, values)


async def delete_product(request: Request) -> Reply:
    """DELETE /products/{id}."""
    await catalogue_service.delete_product(
        request.environment, request.resource_id, precondition(request, product_body), request.by
    )
    return Reply(204)


class _OfProducts:
    """Products."""

    create_shape: Any = CreateProduct
    change_shape: Any = ChangeProduct
    unique: Sequence[str] = ()

    async def carry_out(
        self, env: Environment, by: Author, work: Callable[[Any], Awaitable[Any]]
    ) -> Any:
        async def changed(change: Change) -> Any:
            result = await work((env, change))
            if not change.noted:  # every item was as it is stored
                change.noted_elsewhere()
            return result

        return await env.change(by, changed)

    async def create(self, changing: Any, values: dict[str, Any]) -> int:
        env, change = changing
        return (await catalogue_service.created_product(env, change, values)).id

    async def update(self, changing: Any, row_id: int, values: dict[str, Any]) -> None:
        env, change = changing
        await catalogue_service.changed_product(env, change, row_id, values, lambda _: None)

    async def find(self, _changing: Any, _field: str, _value: Any) -> int | None:
        return None


ROUTES = (
    QueryRoute(
        method="GET",
        path="/products",
        handler=list_products,
        access="read:products",
        summary="List products",
        description="Newest first, or most relevant first with `search`. Shows active products "
        "unless `status` says otherwise.",
        query=ListProducts,
        answer=Listed[ProductItem],
        shows=_list_part,
    ),
    Route(
        method="GET",
        path="/products/{id}",
        handler=read_product,
        access="read:products",
        summary="Read a product",
        answer=Single[ProductBody],
        errors=(NotFound,),
    ),
    BodyRoute(
        method="POST",
        path="/products",
        handler=create_product,
        access="write:products",
        summary="Create a product",
        status=201,
        body=CreateProduct,
        answer=Created[ProductBody],
        errors=(Invalid,),
        location=True,
        repeatable=True,
    ),
    BodyRoute(
        method="PATCH",
        path="/products/{id}",
        handler=change_product,
        access="write:products",
        summary="Change a product",
        description="Omitted fields stay as they are; `images` and `metadata` are replaced as a"
        " whole.",
        body=ChangeProduct,
        further_faults=_status_faults,
        answer=Single[ProductBody],
        errors=(NotFound, PreconditionFailed, Invalid),
        conditional=True,
    ),
    Route(
        method="DELETE",
        path="/products/{id}",
        handler=delete_product,
        access="write:products",
        summary="Delete a product",
        status=204,
        errors=(NotFound, PreconditionFailed),
        conditional=True,
    ),
    batches.route("/products/batch", "write:products", "products", "Products", _OfProducts()),
)
