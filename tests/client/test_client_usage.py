"""How the library is used, as the type checker sees it: it runs here, and mypy reads it.

What is wrong on purpose carries the error that mypy must give; where mypy gives none, it complains
about the comment.
"""

import contextlib
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Literal, assert_type

import pytest

from client.scripted import ANYBODY, KEY, PAGE, PLACE, PRODUCT, ROTATED, TOKENS, Scripted, answer
from portico_client import (
    AsyncOAuthApp,
    Authorization,
    CallbackRejected,
    Client,
    CreatedUser,
    Fault,
    Image,
    Listing,
    Login,
    OAuthApp,
    OAuthTokens,
    Page,
    Product,
    ProductFilters,
    ProductItem,
    RateLimited,
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


async def test_applications_give_tokens_that_clients_take() -> None:
    bought = {"access_token": "a", "token_type": "Bearer", "expires_in": 60}
    begun = Authorization("", "read:users", "state", "nonce", "verifier")
    callback = "https://shop.example/?code=c&state=state&iss=https://portico.example/auth"
    here, there = "https://shop.example/", "https://portico.example/auth"
    script, again = Scripted(answer(200, bought)), Scripted(answer(200, bought))
    with OAuthApp("client", "s", redirect_uri=here, auth_url=there, transport=script) as app:
        assert_type(app.begin("read:users"), Authorization)
        got = app.complete(callback, begun)
        assert_type(got, OAuthTokens)
        assert_type(got.expires_at, datetime | None)
    async with AsyncOAuthApp("client", redirect_uri=here, auth_url=there, transport=again) as other:
        assert_type(await other.complete(callback, begun), OAuthTokens)
        with contextlib.suppress(CallbackRejected):
            await other.complete(here, begun)
    Client(auth=got).close()


def test_errors_have_what_they_promise() -> None:
    error = RateLimited(429, "RATE_LIMITED", "No.", [Fault("a", "b")], None, 3)
    assert_type(error.retry_after, int | None)
    assert_type(error.details, tuple[Fault, ...])
    assert_type(error.request_id, str | None)


def test_what_is_wrong_is_seen_before_it_runs() -> None:
    script = Scripted(answer(200, TOKENS))
    client = Client(auth=Login("ada@example.com", "secret"), base_url=PLACE, transport=script)
    with pytest.raises(TypeError):
        client.products.create(name="Lamp", category="light", price=1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        client.products.get("17")  # type: ignore[arg-type]
    with contextlib.suppress(IndexError):
        client.products.create(name="Lamp", category="light")  # type: ignore[call-arg]
    with contextlib.suppress(IndexError):
        client.products.create(name="L", category="l", price=1, prize=2)  # type: ignore[call-arg]
    client.products.list(status="gone")  # type: ignore[arg-type]
    client.products.list(colour="red")  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        client.product  # type: ignore[attr-defined]  # noqa: B018 - the look-up
    client.close()
