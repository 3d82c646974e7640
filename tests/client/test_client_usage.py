"""How the library is used, as the type checker sees it: it runs here, and mypy reads it.

What is wrong on purpose carries the error that mypy must give; where mypy gives none, it complains
about the comment.
"""

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Literal, assert_type

import pytest

from client.scripted import ANYBODY, KEY, PAGE, PLACE, PRODUCT, ROTATED, Scripted, answer
from portico_client import (
    Client,
    CreatedUser,
    Image,
    Listing,
    NewApiKey,
    NewOAuthClient,
    Page,
    Product,
    ProductFilters,
    ProductItem,
    RotatedKey,
    User,
)


@pytest.fixture
def client() -> Iterator[Client]:
    """A client before a script that gives each call here what it wants."""
    one, many = answer(200, {"data": PRODUCT}), answer(200, {"data": [PRODUCT], "pagination": PAGE})
    user = answer(200, {"data": ANYBODY})
    rotated = answer(201, {"data": {**ROTATED, "key": "k"}})
    script = Scripted(one, one, one, many, many, user, user, user, rotated)
    with Client(KEY, base_url=PLACE, transport=script) as client:
        yield client


def test_every_call_has_the_type_that_it_gives(client: Client) -> None:
    product = client.products.get(1)
    assert_type(product, Product)
    assert_type(product.price, Decimal)
    assert_type(product.created_at, datetime)
    assert_type(product.status, Literal["draft", "active", "archived"])
    assert_type(product.images[0] if product.images else None, Image | None)
    image = Image("https://example.com/lamp.jpg")
    made = client.products.create(name="Lamp", category="light", price=1, images=[image])
    assert_type(made, Product)
    assert_type(client.products.update(1, price=2, if_match=product.etag), Product)
    filters: ProductFilters = {"in_stock": True, "max_price": 30}
    for item in client.products.list(**filters):
        assert_type(item, ProductItem)
    assert_type(client.products.list(search="lamp"), Listing[ProductItem])
    assert_type(client.products.list(search="lamp").page(1), Page[ProductItem])
    assert_type(client.me(), User)
    assert_type(client.users.get(1), User)
    user = client.users.create(name="Ada", email="a@b.example", password="Secret12")
    assert_type(user, CreatedUser)
    assert_type(client.api_keys.rotate(), RotatedKey)


def test_type_checker_finds_wrong_calls_of_the_client(client: Client) -> None:
    with pytest.raises(TypeError):
        client.products.create(name="Lamp", category="light", price=1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        client.products.get("17")  # type: ignore[arg-type]
    client.products.create(name="Lamp", category="light")  # type: ignore[call-arg]
    client.products.create(name="Lamp", category="light", price=1, prize=2)  # type: ignore[call-arg]
    client.products.list(status="gone")  # type: ignore[arg-type]
    client.products.list(colour="red")  # type: ignore[call-arg]


def test_a_servers_own_roles_and_scopes_are_taken_like_the_built_in_ones() -> None:
    made = answer(200, {"data": {**ANYBODY, "role": "support"}})
    with Client(KEY, base_url=PLACE, transport=Scripted(made)) as client:
        assert client.users.update(1, role="support").role == "support"
    asked: NewApiKey = {"name": "k", "type": "live", "scopes": ["read:invoices"]}
    registered: NewOAuthClient = {"name": "Shop", "scopes": ["read:orders", "read:users"]}
    assert asked["scopes"] != registered["scopes"]
