"""Where one is signed in, and what one has allowed, in pages."""

import re

import httpx
import pytest

from driving import Api
from owned import grants_of, sessions_of
from pages.visiting import signed_in
from portico.web.pages.html import scope_words
from signing_in import client_of, login_of, tokens_of


@pytest.fixture
def environ(each_database: dict[str, str]) -> dict[str, str]:
    """Either engine."""
    return each_database


def ends(answer: httpx.Response) -> list[str]:
    """The queries of the links of a page that end something."""
    links = re.findall(
        r'href="/dashboard/(?:devices/end|applications/revoke)\?([^"]*)"', answer.text
    )
    return [link.replace("&amp;", "&") for link in links]


async def test_devices_are_listed_with_the_own_first_then_by_last_use(api: Api) -> None:
    user, somebody = await signed_in(api)
    for _ in range(30):
        api.clock.advance(seconds=1)
        await login_of(api.live, user)
    grants = [grant.id for grant in await grants_of(api.live, user.id, api.clock())]
    logins = [f"kind=login&id={number}" for number in grants]
    first = await somebody.get("/devices")
    assert "This device" in first.text
    assert "Sign out everywhere else" in first.text
    assert ends(first) == logins[:24]
    assert 'rel="next" href="/dashboard/devices?page=2"' in first.text
    second = await somebody.get("/devices?page=2")
    assert ends(second) == logins[24:]
    assert 'rel="next"' not in second.text


async def test_device_is_ended_by_its_owner_alone(api: Api) -> None:
    user, somebody = await signed_in(api)
    other, _ = await signed_in(api)
    for owner in (other, user):
        await login_of(api.live, owner)
    (theirs,) = await grants_of(api.live, other.id, api.clock())
    (own,) = await grants_of(api.live, user.id, api.clock())
    (here,) = await sessions_of(api.live, user.id, api.clock())
    asked = f"/devices/end?kind=login&id={own.id}"
    assert "It was signed in from 127.0.0.1." in (await somebody.get(asked)).text
    for query in (f"login&id={theirs.id}", f"session&id={here.id}", f"else&id={own.id}"):
        assert (await somebody.get(f"/devices/end?kind={query}")).status_code == 404, query
    assert (await somebody.post("/devices/end", kind="login", id=own.id)).status_code == 303
    assert (await somebody.get(asked)).status_code == 404


async def test_each_application_is_listed_once_newest_first_and_revoked_by_its_owner_alone(
    api: Api,
) -> None:
    user, somebody = await signed_in(api, "editor")
    _, admin = await signed_in(api, "admin")
    shops = []
    for number in range(27):
        shops.append(await client_of(api.live, public=number == 0))
        api.clock.advance(seconds=1)
        await tokens_of(api.live, shops[-1].client, user)
    api.clock.advance(seconds=1)
    await tokens_of(api.live, shops[0].client, user, "write:products")
    ids = [f"id={shop.client.id}" for shop in (shops[0], *shops[:0:-1])]
    first = await somebody.get("/applications")
    assert ends(first) == ids[:25]
    assert ends(await somebody.get("/applications?page=2")) == ids[25:]
    row = first.text.partition("id=" + ids[0][3:])[0]
    assert row.count(scope_words("read:products")) == row.count(scope_words("write:products")) == 1
    asked = f"/applications/revoke?{ids[0]}"
    assert (await admin.get(asked)).status_code == 404
    assert "Revoke the access of Shop?" in (await somebody.get(asked)).text
    left = await grants_of(api.live, user.id, api.clock())
    await somebody.post("/applications/revoke", id=shops[0].client.id)
    assert (await somebody.get(asked)).status_code == 404
    assert ends(await somebody.get("/applications")) == ids[1:26]
    assert len(await grants_of(api.live, user.id, api.clock())) == len(left) - 2
