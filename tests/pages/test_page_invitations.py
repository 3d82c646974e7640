"""Invitations and OAuth clients in pages, for admins."""

import re

import pytest

from driving import Api
from pages.visiting import signed_in
from portico.core.audit import OPERATOR
from portico.features.people.invitations import invite


@pytest.fixture
def environ(each_database: dict[str, str]) -> dict[str, str]:
    """Either engine."""
    return each_database


async def test_users_page_counts_pending_invitations(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    for email in ("guest1@example.com", "guest2@example.com"):
        await invite(
            api.live, email=email, role="viewer", plan="free", handed_over=True, by=OPERATOR
        )
    link = '<a class="button" href="/dashboard/users/invitations">Invitations (2)</a>'
    assert link in (await admin.get("/users")).text
    async with api.live.db.transaction() as tx:
        await tx.run("UPDATE invitations SET expires_at = :now", {"now": api.clock()})
    assert ">Invitations" not in (await admin.get("/users")).text


async def test_user_filter_by_state_finds_active_or_suspended(api: Api) -> None:
    _, admin = await signed_in(api, "admin", name="Boss")
    one = await api.account(name="Grace Hopper")
    await api.account(name="Grace Kelly")
    assert (await admin.post("/users/suspend", id=one.id)).status_code == 303
    for query, names in (
        ("state=suspended", ["Grace Hopper"]),
        ("state=active&search=grace", ["Grace Kelly"]),
        ("state=suspended&role=admin", []),
    ):
        page = await admin.get(f"/users?{query}")
        assert re.findall(r'<th scope="row"><a[^>]*>([^<]*)', page.text) == names, query
        assert f"{len(names)} user" in page.text, query
