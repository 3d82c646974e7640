"""Invitations and OAuth clients in pages, for admins."""

import re
from html import unescape
from urllib.parse import parse_qsl

import pytest

from driving import Api
from pages.visiting import Visitor, signed_in
from portico.domain.audit import OPERATOR
from portico.services.invitations import invite


@pytest.fixture
def environ(each_database: dict[str, str]) -> dict[str, str]:
    """Either engine."""
    return each_database


async def invited(api: Api, many: int) -> None:
    """Invites so many people, one after the other."""
    for number in range(many):
        await invite(
            api.live,
            email=f"guest{number}@example.com",
            role="viewer",
            plan="free",
            handed_over=True,
            by=OPERATOR,
        )


async def test_users_page_counts_pending_invitations(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    assert ">Invitations" not in (await admin.get("/users")).text
    await invited(api, 2)
    link = '<a class="button" href="/dashboard/users/invitations">Invitations (2)</a>'
    assert link in (await admin.get("/users")).text
    async with api.live.db.transaction() as tx:
        await tx.run("UPDATE invitations SET expires_at = :now", {"now": api.clock()})
    assert ">Invitations" not in (await admin.get("/users")).text


async def test_user_filter_by_state_finds_active_or_suspended(api: Api) -> None:
    _, admin = await signed_in(api, "admin", name="Boss")
    one, _ = await signed_in(api, "viewer", name="Grace Hopper")
    await signed_in(api, "viewer", name="Grace Kelly")
    assert (await admin.post("/users/suspend", id=one.id)).status_code == 303
    for query, names in (
        ("state=suspended", ["Grace Hopper"]),
        ("state=active", ["Grace Kelly", "Boss"]),
        ("state=active&search=grace", ["Grace Kelly"]),
        ("state=suspended&role=admin", []),
        ("state=nothing", ["Grace Kelly", "Grace Hopper", "Boss"]),
    ):
        page = await admin.get(f"/users?{query}")
        found = re.findall(r'<th scope="row"><a[^>]*>([^<]*)', page.text)
        assert sorted(found) == sorted(names), query
        assert f"{len(names)} user" in page.text, query
    page = await admin.get("/users?state=active&search=grace")
    assert '<option selected value="active">' in page.text
    assert "state%3Dactive" in page.text, "and back to it from the page of a user"


async def renewal(admin: Visitor) -> tuple[str, dict[str, str]]:
    """The second page of the invitations, and the form that renews the first one of it."""
    page = (await admin.get("/users/invitations?page=2")).text
    form = page.partition('action="/dashboard/users/invitations/renew"')[2].partition("</form>")[0]
    return page, dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))


@pytest.mark.one_engine
async def test_renewed_or_revoked_invitation_leads_back_to_its_page_of_the_list(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    await invited(api, 27)
    at = "/dashboard/users/invitations?page=2"
    page, renews = await renewal(admin)
    (asks, *_) = re.findall(r'href="/dashboard(/users/invitations/revoke[^"]*)"', page)
    fields = dict(parse_qsl(unescape(asks).partition("?")[2]))
    assert f'href="{at}" autofocus data-close>Cancel' in (await admin.get(unescape(asks))).text
    handed = await admin.made("/users/invitations/renew", **renews)
    assert f'href="{at}"' in handed.text
    api.live.has_mail_server = True
    _, renews = await renewal(admin)
    renewed = await admin.post("/users/invitations/renew", **renews)
    assert renewed.headers["location"] == f"{at}&done=invited"
    revoked = await admin.post("/users/invitations/revoke", **fields)
    assert revoked.headers["location"] == f"{at}&done=invitation-revoked"
