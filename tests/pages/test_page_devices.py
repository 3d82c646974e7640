"""Where one is signed in, and what one has allowed, in pages."""

import re

import httpx
import pytest

from driving import Api
from owned import grants_of, sessions_of
from pages.visiting import signed_in
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


async def test_applications_are_listed_newest_first_and_revoked_by_their_owner_alone(
    api: Api,
) -> None:
    user, somebody = await signed_in(api)
    _, admin = await signed_in(api, "admin")
    shop = await client_of(api.live)
    for _ in range(27):
        await tokens_of(api.live, shop.client, user)
    grants = [f"id={grant.id}" for grant in await grants_of(api.live, user.id, api.clock())]
    assert ends(await somebody.get("/applications")) == grants[:25]
    assert ends(await somebody.get("/applications?page=2")) == grants[25:]
    asked = f"/applications/revoke?{grants[-1]}"
    assert (await admin.get(asked)).status_code == 404
    assert "Revoke the access of Shop?" in (await somebody.get(asked)).text
    await somebody.post("/applications/revoke", id=grants[-1].removeprefix("id="))
    assert (await somebody.get(asked)).status_code == 404
