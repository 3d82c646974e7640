"""Every call of the library, made to a real server by both of its faces."""

import asyncio
import secrets
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

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
    lamp = Image("https://example.com/lamp.jpg", "The lamp, lit")
    made = client.products.create(
        name="Desk lamp",
        category=word(),
        price=Decimal("24.50"),
        stock_quantity=3,
        images=[lamp],
        metadata={"colour": "brass"},
    )
    assert (made.price, made.status, made.in_stock) == (Decimal("24.5"), "draft", True)
    assert (made.images, made.metadata) == ((lamp,), {"colour": "brass"})
    assert before < made.created_at < datetime.now(UTC) + timedelta(minutes=1)
    assert client.products.get(made.id) == made
    assert made.etag is not None
    dear = Decimal("99999999999.9999")
    changed = client.products.update(made.id, price=dear, if_match=made.etag)
    assert (changed.price, changed.name) == (dear, made.name)
    with pytest.raises(PreconditionFailed):
        client.products.update(made.id, price=3, if_match=made.etag)
    with pytest.raises(PreconditionFailed):
        client.products.delete(made.id, if_match=made.etag)
    client.products.delete(made.id, if_match=changed.etag)
    with pytest.raises(NotFound):
        client.products.get(made.id)


async def test_the_asynchronous_face_does_the_same(async_client: AsyncClient) -> None:
    products, users, events = async_client.products, async_client.users, async_client.events
    category, last = word(), [one async for one in events.list()][-1].id
    made = await asyncio.gather(
        *(products.create(name=f"Lamp {n}", category=category, price=n) for n in range(30))
    )
    one = made[0]
    assert await products.get(one.id) == one
    assert (await products.update(one.id, name="Lantern")).name == "Lantern"
    listing = products.list(category=category, status="draft")
    assert sorted([each.id async for each in listing]) == sorted(each.id for each in made)
    assert (await listing.page(1)).pagination.total_items == 30
    await products.delete(one.id)
    with pytest.raises(NotFound):
        await products.get(one.id)
    news = [each.type async for each in events.list(after=last, type="product.*")]
    assert news[-2:] == ["product.updated", "product.deleted"]
    assert (await events.list(after=2**40).page()).items == ()
    user = await users.create(name="Ada", email=f"{word()}@example.com", password="Analytical1")
    assert (await users.get(user.id)).email == user.email
    assert (await users.update(user.id, role="editor", if_match=user.etag)).role == "editor"
    assert [each async for each in users.list(role="editor") if each.id == user.id]
    await users.delete(user.id)
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


def test_a_list_is_filtered_and_read_page_by_page(client: Client) -> None:
    category = word()
    facts: dict[str, Any] = {"category": category, "status": "active"}
    made = [client.products.create(name=f"Lamp {n}", price=n, **facts) for n in range(7)]
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
    found = client.products.list(category=category, search="lamp 3")
    assert [one.name for one in found] == ["Lamp 3"]
    for one in listing:
        client.products.delete(one.id)
    assert listing.page(1).items == (), "whoever deletes what they iterate over misses none"


def new_key(served: Authority) -> str:
    """Another key of the first admin."""
    email = served.installation.facts["admin"]["email"]
    made = served.installation.told(
        *("keys", "create", "--owner", email, "--type", "live", "--name", "Till")
    )
    return str(made["key"])


async def test_a_key_is_rotated_and_the_client_switches_to_it(served: Authority, ca: str) -> None:
    with Client(new_key(served), base_url=served.api, ca=ca) as client:
        first = client.api_keys.rotate()
        assert first.key not in repr(first)
        assert first.previous_key.expires_at > datetime.now(UTC) + timedelta(hours=23)
        with pytest.raises(Conflict):
            client.api_keys.rotate()
    with Client(first.key, base_url=served.api, ca=ca) as client:
        second = client.api_keys.rotate(switch=True)
        third = client.api_keys.rotate(switch=True)
        assert third.previous_key.id == second.id, "called with the second's key"
    async with AsyncClient(third.key, base_url=served.api, ca=ca) as other:
        fourth = await other.api_keys.rotate(switch=True)
        assert (await other.api_keys.rotate()).previous_key.id == fourth.id


def test_what_has_happened_is_listed_and_gone_on_with(client: Client) -> None:
    *_, last = client.events.list()
    made = client.products.create(name="Lamp", category=word(), price=Decimal("24.50"))
    cheaper = client.products.update(made.id, price=Decimal("19.95"))
    client.products.update(made.id, price=Decimal("19.95"))
    client.products.delete(made.id)
    listed = client.events.list(after=last.id, limit=2)
    found = [*listed]
    assert [(one.type, one.data, one.previous) for one in found] == [
        ("product.created", made, None),
        ("product.updated", cheaper, {"price": Decimal("24.5")}),
        ("product.deleted", cheaper, None),
    ]
    page = listed.page()
    assert ([*page], page.pagination.has_more) == (found[:2], True)
    assert page.pagination.last_id == found[1].id
    with pytest.raises(ValidationError):
        client.events.list(type="lamp.*").page()


async def test_both_faces_manage_people_and_applications(
    client: Client, async_client: AsyncClient
) -> None:
    me = client.me().id
    account = await async_client.accounts.update(me, metadata={"crm": word()})
    assert client.accounts.get(me) == account
    plans = client.plans()
    assert plans == await async_client.plans()
    assert account.plan in [plan.name for plan in plans]
    email = f"{word()}@example.com"
    made = client.invitations.create(email=email, role="editor")
    renewed = await async_client.invitations.renew(made.id)
    assert (renewed.id, made.email, renewed.link != made.link) == (made.id, email, True)
    assert email in [one.email for one in client.invitations.list()]
    assert (await async_client.invitations.get(made.id)).role == "editor"
    client.invitations.delete(made.id, if_match=renewed.etag)
    uri = "https://shop.example.com/"
    shop = client.clients.create(name="Shop", redirect_uris=[uri])
    rotated = await async_client.clients.rotate_secret(shop.client_id)
    assert rotated.client_secret not in (None, shop.client_secret)
    changed = client.clients.update(shop.client_id, scopes=["read:users"], if_match=shop.etag)
    assert (await async_client.clients.get(shop.client_id)) == changed
    public = await async_client.clients.create(name="App", redirect_uris=[uri], public=True)
    listed = [one.client_id async for one in async_client.clients.list()]
    assert listed[:2] == [public.client_id, shop.client_id]
    assert public.client_secret is None
    for one in (public, shop):
        client.clients.delete(one.client_id)
    with pytest.raises(NotFound):
        client.clients.get(shop.client_id)
    target = f"invitation:{made.id}"
    entries = list(client.audit.list(action="invitation.revoked", actor_id=me, target=target))
    assert [entry.details["email"] for entry in entries] == [email]
    (first,) = await async_client.audit.list(target=target, limit=1).page()
    assert (first.action, first.user) == ("invitation.created", entries[0].user)
    hour = datetime.now(UTC) - timedelta(hours=1)
    for rows in (client.usage.list(by="hour"), await async_client.usage.list(from_=hour, by="day")):
        assert all(row.requests >= row.refused for row in rows)


def test_a_narrow_key_is_made_used_listed_and_revoked(
    served: Authority, ca: str, client: Client
) -> None:
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)
    made = client.api_keys.create(
        name="Till",
        type="live",
        scopes=["read:products"],
        networks=["127.0.0.0/8"],
        expires_at=end,
    )
    assert made.key not in repr(made)
    assert (made.scopes, made.networks) == (("read:products",), ("127.0.0.0/8",))
    assert (made.expires_at, made.status) == (end, "active")
    with Client(made.key, base_url=served.api, ca=ca) as narrow:
        assert narrow.products.list(limit=1).page(1) is not None
        for beyond in (narrow.users.list(), narrow.api_keys.list()):
            with pytest.raises(PermissionDenied):
                beyond.page(1)
        read = client.api_keys.get(made.id)
        assert made.key.endswith(read.hint[-4:])
        assert [one.id for one in client.api_keys.list()][:1] == [made.id], "the newest first"
        client.api_keys.revoke(made.id)
        assert client.api_keys.get(made.id).status == "revoked"
        with pytest.raises(AuthenticationRequired):
            narrow.products.list(limit=1).page(1)
    with pytest.raises(NotFound):
        client.api_keys.revoke(2**40)
    with pytest.raises(ValidationError) as faulty:
        client.api_keys.create(
            name="Till", type="live", networks=["10.0.0.1/8"], expires_at=end - timedelta(days=9)
        )
    assert {fault.field for fault in faulty.value.details} == {"networks.0", "expires_at"}
