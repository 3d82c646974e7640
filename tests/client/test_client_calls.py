"""Every call of the library, made to a real server by both of its faces."""

import asyncio
import secrets
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from oauth.authority import Authority
from portico_client import (
    AsyncClient,
    AuthenticationRequired,
    Client,
    Conflict,
    Duplicate,
    Image,
    NotFound,
    PermissionDenied,
    PreconditionFailed,
    ValidationError,
)


def word() -> str:
    """A category, or part of an e-mail, that no other test has."""
    return secrets.token_hex(6)


def test_a_product_is_made_read_changed_and_deleted(client: Client) -> None:
    before = datetime.now(UTC) - timedelta(minutes=1)
    made = client.products.create(
        name="Desk lamp",
        category=word(),
        price=Decimal("24.50"),
        stock_quantity=3,
        images=[Image("https://example.com/lamp.jpg", "The lamp, lit")],
        metadata={"colour": "brass"},
    )
    assert made.price == Decimal("24.5")
    assert made.status == "draft"
    assert made.in_stock
    assert made.images == (Image("https://example.com/lamp.jpg", "The lamp, lit"),)
    assert made.metadata == {"colour": "brass"}
    assert before < made.created_at < datetime.now(UTC) + timedelta(minutes=1)
    read = client.products.get(made.id)
    assert read == made
    assert read.etag is not None
    changed = client.products.update(made.id, price=Decimal("99999999999.9999"), status="active")
    assert (changed.price, changed.status) == (Decimal("99999999999.9999"), "active")
    assert changed.name == made.name
    client.products.delete(made.id)
    with pytest.raises(NotFound):
        client.products.get(made.id)


async def test_the_asynchronous_face_does_the_same(async_client: AsyncClient) -> None:
    made = await async_client.products.create(name="Lamp", category=word(), price=1)
    assert await async_client.products.get(made.id) == made
    changed = await async_client.products.update(made.id, name="Lantern", status="active")
    assert changed.name == "Lantern"
    listed = [one async for one in async_client.products.list(category=made.category)]
    assert [one.id for one in listed] == [made.id]
    page = await async_client.products.list(category=made.category).page(1)
    assert (page.items, page.pagination.total_items) == (tuple(listed), 1)
    await async_client.products.delete(made.id)
    with pytest.raises(NotFound):
        await async_client.products.get(made.id)
    user = await async_client.users.create(
        name="Ada Lovelace", email=f"{word()}@example.com", password="Analytical1"
    )
    assert (await async_client.users.get(user.id)).email == user.email
    assert (await async_client.users.update(user.id, role="editor")).role == "editor"
    newest = await async_client.users.list().page(1)
    assert user.id in [one.id for one in newest]
    assert [one async for one in async_client.users.list(role="editor") if one.id == user.id]
    await async_client.users.delete(user.id)
    assert (await async_client.me()).role == "admin"
    assert (await async_client.update_me(preferences={"language": "en"})).role == "admin"


def test_a_user_is_made_read_changed_and_deleted(client: Client) -> None:
    email = f"{word()}@example.com"
    made = client.users.create(name="Ada Lovelace", email=email, password="Analytical1")
    assert made.role == "viewer"
    read = client.users.get(made.id)
    assert (read.name, read.avatar_url, read.last_login_at) == ("Ada Lovelace", None, None)
    assert read.preferences.theme == "system"
    changed = client.users.update(
        made.id,
        avatar_url="https://example.com/ada.png",
        preferences={"theme": "dark"},
        if_match=read.etag,
    )
    assert changed.avatar_url == "https://example.com/ada.png"
    assert (changed.preferences.theme, changed.preferences.language) == ("dark", "en")
    assert client.users.update(made.id, avatar_url=None).avatar_url is None
    with pytest.raises(Duplicate) as taken:
        client.users.create(name="Ada", email=email.upper(), password="Analytical1")
    assert [fault.field for fault in taken.value.details] == ["email"]
    client.users.delete(made.id)
    with pytest.raises(NotFound):
        client.users.get(made.id)


def test_the_calling_user_is_read_and_changed(served: Authority, ca: str, client: Client) -> None:
    assert client.me().email == "admin@example.com"
    person = served.person("viewer")
    key = served.installation.told(
        *("keys", "create", "--owner", person.email, "--type", "live", "--name", "Mine")
    )["key"]
    with Client(key, base_url=served.api, ca=ca) as own:
        assert own.me().id == person.id
        assert own.update_me(name="Rear Admiral Hopper").name == "Rear Admiral Hopper"
        with pytest.raises(PermissionDenied):
            own.products.create(name="Lamp", category="light", price=1)


def test_a_list_is_filtered_and_read_page_by_page(client: Client) -> None:
    category = word()
    made = [
        client.products.create(
            name=f"Lamp {number}", category=category, price=number, status="active"
        )
        for number in range(7)
    ]
    newest_first = [one.id for one in reversed(made)]
    listing = client.products.list(category=category, limit=3)
    assert [one.id for one in listing] == newest_first
    assert [one.id for one in listing] == newest_first, "a list can be read again"
    second = listing.page(2)
    assert [one.id for one in second] == newest_first[3:6]
    assert (second.pagination.total_items, second.pagination.total_pages) == (7, 3)
    assert listing.page(4).items == ()
    dear = client.products.list(category=category, min_price=Decimal("4.5"), in_stock=False)
    assert [one.id for one in dear] == newest_first[:2]
    assert [one.name for one in client.products.list(category=category, search="lamp 3")] == [
        "Lamp 3"
    ]
    assert client.products.list(category=category).page(1).pagination.limit == 25


def test_whoever_deletes_what_they_iterate_over_misses_none(client: Client) -> None:
    category = word()
    for number in range(12):
        client.products.create(name="Lamp", category=category, price=number, status="active")
    for one in client.products.list(category=category, limit=5):
        client.products.delete(one.id)
    assert client.products.list(category=category).page(1).items == ()


def test_a_change_with_an_old_etag_is_refused(client: Client) -> None:
    made = client.products.create(name="Lamp", category=word(), price=1)
    etag = client.products.get(made.id).etag
    client.products.update(made.id, price=2, if_match=etag)
    with pytest.raises(PreconditionFailed):
        client.products.update(made.id, price=3, if_match=etag)
    with pytest.raises(PreconditionFailed):
        client.products.delete(made.id, if_match=etag)
    assert client.products.get(made.id).price == 2


def test_changes_follow_one_another_by_the_etag_that_each_leaves(client: Client) -> None:
    made = client.products.create(name="Lamp", category=word(), price=1)
    first = client.products.update(made.id, price=2, if_match=made.etag)
    second = client.products.update(made.id, price=3, if_match=first.etag)
    assert None not in (made.etag, first.etag, second.etag)
    with pytest.raises(PreconditionFailed):
        client.products.update(made.id, price=4, if_match=first.etag)
    assert client.products.get(made.id).etag == second.etag


def test_a_user_that_was_just_made_is_changed_by_the_etag_that_came_with_it(client: Client) -> None:
    made = client.users.create(name="Ada", email=f"{word()}@example.com", password="Secret12")
    assert made.etag is not None
    client.users.update(made.id, name="Ada King", if_match=made.etag)
    with pytest.raises(PreconditionFailed):
        client.users.update(made.id, name="Ada Lovelace", if_match=made.etag)
    assert client.users.get(made.id).name == "Ada King"


def test_an_error_has_status_code_details_and_the_id_of_its_request(client: Client) -> None:
    with pytest.raises(ValidationError) as refused:
        client.products.create(name="", category=word(), price=-1)
    error = refused.value
    assert (error.status, error.code) == (422, "VALIDATION_ERROR")
    assert {fault.field for fault in error.details} == {"name", "price"}
    assert error.request_id is not None
    assert error.request_id in str(error)
    assert "price: must not be negative" in str(error)


def test_the_same_idempotency_key_makes_one_product(client: Client) -> None:
    key, category = word(), word()
    one = client.products.create(name="Lamp", category=category, price=1, idempotency_key=key)
    two = client.products.create(name="Lamp", category=category, price=1, idempotency_key=key)
    assert one == two
    with pytest.raises(ValidationError) as refused:
        client.products.create(name="Other", category=category, price=1, idempotency_key=key)
    assert refused.value.status == 422
    assert client.products.list(category=category, status="draft").page(1).items[0].id == one.id


def new_key(served: Authority) -> str:
    """Another key of the first admin."""
    email = served.installation.facts["admin"]["email"]
    made = served.installation.told(
        *("keys", "create", "--owner", email, "--type", "live", "--name", "Till")
    )
    return str(made["key"])


def test_a_rotated_key_is_there_and_not_shown(served: Authority, ca: str) -> None:
    old = new_key(served)
    with Client(old, base_url=served.api, ca=ca) as client:
        rotated = client.api_keys.rotate()
        assert rotated.key not in repr(rotated)
        assert rotated.previous_key.expires_at > datetime.now(UTC) + timedelta(hours=23)
        with pytest.raises(Conflict):
            client.api_keys.rotate()
    with Client(rotated.key, base_url=served.api, ca=ca) as client:
        assert client.me().role == "admin"


async def test_a_client_switches_to_the_key_that_it_rotated_to(served: Authority, ca: str) -> None:
    with Client(new_key(served), base_url=served.api, ca=ca) as client:
        first = client.api_keys.rotate(switch=True)
        second = client.api_keys.rotate(switch=True)
        assert second.previous_key.id == first.id, "the second was called with the first's key"
    async with AsyncClient(second.key, base_url=served.api, ca=ca) as client_:
        third = await client_.api_keys.rotate(switch=True)
        fourth = await client_.api_keys.rotate()
        assert fourth.previous_key.id == third.id


async def test_many_tasks_share_a_client(async_client: AsyncClient) -> None:
    category = word()
    made = await asyncio.gather(
        *(
            async_client.products.create(name=f"Lamp {n}", category=category, price=n)
            for n in range(30)
        )
    )
    listed = [one.id async for one in async_client.products.list(category=category, status="draft")]
    assert sorted(listed) == sorted(one.id for one in made)


def test_a_wrong_key_is_refused(served: Authority, ca: str) -> None:
    with (
        Client("not-a-key", base_url=served.api, ca=ca) as client,
        pytest.raises(AuthenticationRequired) as refused,
    ):
        client.me()
    assert "not-a-key" not in str(refused.value)


def test_what_has_happened_is_listed_and_gone_on_with(client: Client) -> None:
    *_, last = client.events.list()
    made = client.products.create(name="Lamp", category=word(), price=Decimal("24.50"))
    cheaper = client.products.update(made.id, price=Decimal("19.95"))
    client.products.update(made.id, price=Decimal("19.95"))
    user = client.users.create(
        name="Ada Lovelace", email=f"{word()}@example.com", password="Analytical1"
    )
    whole = client.users.get(user.id)
    client.users.delete(user.id)
    client.products.delete(made.id)
    listed = client.events.list(after=last.id, limit=2)
    found = [*listed]
    assert [(one.type, one.data) for one in found] == [
        ("product.created", made),
        ("product.updated", cheaper),
        ("user.created", whole),
        ("user.deleted", whole),
        ("product.deleted", cheaper),
    ]
    assert [one.previous for one in found] == [None, {"price": Decimal("24.5")}, None, None, None]
    page = listed.page()
    assert ([*page], page.pagination.has_more) == (found[:2], True)
    assert page.pagination.last_id == found[1].id
    products = [*client.events.list(after=page.pagination.last_id, type="product.*")]
    assert products == [found[4]]
    with pytest.raises(ValidationError):
        client.events.list(type="lamp.*").page()


async def test_the_asynchronous_face_lists_what_has_happened(async_client: AsyncClient) -> None:
    first = [one async for one in async_client.events.list()]
    made = await async_client.products.create(name="Lamp", category=word(), price=1)
    news = [one async for one in async_client.events.list(after=first[-1].id)]
    assert [(one.type, one.data) for one in news] == [("product.created", made)]
    page = await async_client.events.list(after=news[-1].id).page()
    assert (page.items, page.pagination.last_id) == ((), news[-1].id)
