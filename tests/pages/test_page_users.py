"""What admins do with accounts on pages, and what they may not."""

import re
from html import unescape
from urllib.parse import parse_qsl

import pytest

from driving import Api
from pages.visiting import PASSWORD, said, signed_in, visitor
from portico.core.audit import OPERATOR
from portico.features.people.accounts import give_key
from portico.features.people.storage import Users
from signing_in import COOKIE, client_of, login_of, tokens_of


async def test_admin_suspends_and_resumes_a_user(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    user, theirs = await signed_in(api)
    done = await admin.post("/users/suspend", id=user.id)
    assert done.headers["location"] == f"/dashboard/users/{user.id}?done=user-suspended"
    assert (await theirs.get("/keys")).status_code == 303
    refused = await theirs.send("/sign-in", {"email": user.email, "password": PASSWORD})
    assert refused.status_code == 422
    assert "suspended" in said(refused)
    assert "Suspended" in (await admin.get("/users")).text
    assert "/users/resume?id=" in (await admin.get(f"/users/{user.id}")).text
    done = await admin.post("/users/resume", id=user.id)
    assert done.headers["location"].endswith("done=user-resumed")
    assert "/users/suspend?id=" in (await admin.get(f"/users/{user.id}")).text


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        ("/users/suspend", None),
        ("/users/reset-password", None),
        ("/users/{id}/edit", {"plan": "enterprise"}),
        ("/users/{id}/edit", {"role": "viewer"}),
    ],
)
async def test_own_suspension_reset_link_role_and_plan_are_forbidden(
    api: Api, path: str, changes: dict[str, str] | None
) -> None:
    await api.account("admin")  # so that they are not the last one
    user, admin = await signed_in(api, "admin")
    if changes is None:
        assert path not in (await admin.get(f"/users/{user.id}")).text
    stored = {"name": user.name, "email": user.email, "role": user.role, "plan": user.plan}
    fields = {"version": "*", **stored, **(changes or {})}
    async with api.unchanged():
        refused = await admin.post(path.format(id=user.id), id=user.id, **fields)
    assert refused.status_code == 403
    if changes:
        assert "You cannot change your own role or plan" in refused.text


async def test_user_page_lists_and_ends_access(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    user, theirs = await signed_in(api, name="Grace Hopper")
    await give_key(api.live, user, name="Compiler", key_type="live", expires_at=None, by=OPERATOR)
    shop = await client_of(api.live)
    granted = await tokens_of(api.live, shop.client, user)
    login = await login_of(api.live, user)
    page = (await admin.get(f"/users/{user.id}")).text
    for text in ("Compiler", "Session", "Login token", "Shop", user.email):
        assert text in page, text
    links = [unescape(one) for one in re.findall(r'href="/dashboard(/users/end\?[^"]*)"', page)]
    assert len(links) == 3
    for link in links:
        assert (await admin.get(link)).status_code == 200
        done = await admin.post("/users/end", **dict(parse_qsl(link.partition("?")[2])))
        assert done.headers["location"] == f"/dashboard/users/{user.id}?done=access-ended"
        assert (
            await admin.post("/users/end", **dict(parse_qsl(link.partition("?")[2])))
        ).status_code == 404
    assert (await theirs.get("/keys")).status_code == 303
    for token in (granted.access_token, login.access_token):
        answer = await api.stranger(authorization=f"Bearer {token}").get("/users/me")
        assert answer.status_code == 401


async def test_admin_hands_over_a_reset_link_that_works_once(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    user = await api.account()
    assert (await admin.get(f"/users/reset-password?id={user.id}")).status_code == 200
    page = await admin.made("/users/reset-password", id=user.id)
    token = page.text.partition("/reset?token=")[2][:43]
    stranger = await visitor(api)
    fields = {"token": token, "password": "Hell0-World"}
    for status in (303, 422):
        assert (await stranger.send("/reset", fields)).status_code == status


async def test_deleting_the_own_account_warns_and_signs_out(api: Api) -> None:
    await api.account("admin")
    user, admin = await signed_in(api, "admin")
    asked = (await admin.get(f"/users/delete?id={user.id}")).text
    assert "Delete your own account?" in asked
    assert "You are signed out, and your keys stop working." in asked
    done = await admin.post("/users/delete", id=user.id)
    assert done.headers["location"] == "/dashboard/sign-in?done=account-deleted"
    assert COOKIE not in admin.client.cookies
    assert await api.live[Users].get(user.id) is None
