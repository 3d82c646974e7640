"""What admins do with accounts on pages, and what they may not."""

import re
from html import unescape
from urllib.parse import parse_qsl

import pytest

from driving import Api
from pages.visiting import faults, said, signed_in, version_in, visitor
from portico.domain.audit import OPERATOR
from portico.services.accounts import give_key
from portico.services.second_factor import Enrolment, add_authenticator
from portico.services.suspension import suspend
from signing_in import COOKIE, client_of, login_of, tokens_of


async def test_admin_suspends_and_resumes_a_user(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    user, theirs = await signed_in(api)
    asked = await admin.get(f"/users/suspend?id={user.id}")
    assert "Suspend Person" in asked.text
    done = await admin.post("/users/suspend", id=user.id)
    assert done.headers["location"] == f"/dashboard/users/{user.id}?done=user-suspended"
    assert (await theirs.get("/keys")).status_code == 303
    page = await admin.get(f"/users/{user.id}")
    assert "Suspended" in page.text
    assert "Suspended" in (await admin.get("/users")).text
    assert "/users/resume?id=" in page.text
    assert (await admin.get(f"/users/resume?id={user.id}")).status_code == 200
    done = await admin.post("/users/resume", id=user.id)
    assert done.headers["location"].endswith("done=user-resumed")
    page = await admin.get(f"/users/{user.id}")
    assert "/users/resume?id=" not in page.text
    assert "/users/suspend?id=" in page.text


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        ("/users/suspend", None),
        ("/users/reset-password", None),
        ("/users/{id}", {"plan": "enterprise"}),
        ("/users/{id}", {"role": "viewer"}),
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


async def test_user_page_offers_the_permitted_actions(api: Api) -> None:
    own, admin = await signed_in(api, "admin")
    active, away, safe = [await api.account() for _ in range(3)]
    await suspend(api.live, away.id, OPERATOR)
    app = Enrolment("JBSWY3DPEHPK3PXP", 0, "Phone", ())
    await api.live.change(OPERATOR, lambda change: add_authenticator(api.live, change, safe, app))
    password, sign_out = "Reset password", "Sign out everywhere"
    factor, delete = "Reset second factor", "Delete user"
    for user, text, offered in (
        (
            active,
            "A suspended user",
            [password, sign_out, "Suspend user", delete],
        ),
        (
            safe,
            "A suspended user",
            [password, sign_out, factor, "Suspend user", delete],
        ),
        (
            away,
            "Resuming lets the user",
            [sign_out, "Resume user", delete],
        ),
        (
            own,
            "Deleting your own account",
            [sign_out, "Delete my account"],
        ),
    ):
        page = (await admin.get(f"/users/{user.id}")).text
        card = page.partition("<h2>Access and deletion</h2>")[2].partition("</section>")[0]
        assert f"<p>{text}" in card
        assert re.findall(r'hx-sync="dialog:replace">([^<]*)</a>', card) == offered


async def test_user_keeps_an_unconfigured_plan(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    user = await api.account("viewer", plan="gold")
    path = f"/users/{user.id}"
    shown = '<option value="gold" selected>Gold, no longer configured: limited like Free</option>'
    assert shown in (await admin.get(path)).text
    fields = {"email": user.email, "role": "viewer"}
    await admin.saved(path, name="Grace", plan="gold", **fields)
    changed = await api.live.users.get(user.id)
    assert changed is not None
    assert (changed.name, changed.plan) == ("Grace", "gold")
    async with api.unchanged():
        refused = await admin.saved(path, name="Grace", plan="silver", **fields)
    assert refused.status_code == 422
    await admin.saved(path, name="Grace", plan="pro", **fields)
    assert "gold" not in (await admin.get(path)).text.lower()
    async with api.unchanged():
        refused = await admin.saved(path, name="Grace", plan="gold", **fields)
    assert refused.status_code == 422


async def test_user_form_with_a_plan_replaced_meanwhile_is_stale(
    api: Api,
) -> None:
    _, admin = await signed_in(api, "admin")
    user = await api.account("viewer", plan="gold")
    path, stored = f"/users/{user.id}", '<option value="pro" selected>Pro</option>'
    fields = {"name": "Grace", "email": user.email, "role": "viewer"}
    begun = version_in(await admin.get(path))
    await admin.saved(path, **fields, plan="pro")
    async with api.unchanged():
        answer = await admin.post(path, **fields, plan="gold", version=begun)
    assert answer.status_code == 412
    assert re.findall(r'<span class="written">(.*?)</span>', answer.text) == ["pro", "gold"]
    assert stored in answer.text
    async with api.unchanged():
        answer = await admin.post(path, **fields, plan="gold", version=version_in(answer))
    assert answer.status_code == 422
    assert faults(answer)["plan"] == f"Must be one of {', '.join(api.live.plans)}."
    assert stored in answer.text


async def test_sign_in_of_a_suspended_user_says_so(api: Api) -> None:
    user, theirs = await signed_in(api)
    await suspend(api.live, user.id, OPERATOR)
    fields = {"email": user.email, "password": "Analytical-1843"}
    answer = await theirs.send("/sign-in", fields)
    assert answer.status_code == 422
    assert "suspended" in said(answer)


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


async def test_admin_changes_name_e_mail_role_and_plan(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    user = await api.account()
    fields = {"name": "Grace", "email": "grace@example.com", "role": "editor", "plan": "pro"}
    assert (await admin.saved(f"/users/{user.id}", **fields)).status_code == 303
    stored = await api.live.users.get(user.id)
    assert stored is not None
    assert {name: getattr(stored, name) for name in fields} == fields


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


async def test_user_actions_lead_back_to_the_filtered_list(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    user = await api.account(name="Grace Hopper")
    found = (await admin.get("/users?search=hopper&role=viewer&state=active&page=9")).text
    query = "search=hopper&role=viewer&state=active&page=1"
    assert "1 user<" in found
    (link,) = re.findall(rf'href="/dashboard(/users/{user.id}[^"]*)"', found)
    assert dict(parse_qsl(link.partition("?")[2])) == {"list": query}
    page = (await admin.get(link)).text
    back = f'<p class="crumb"><a href="/dashboard/users?{query}">'.replace("&", "&amp;")
    assert back in page
    for path in ("suspend", "resume", "sign-out"):
        (asks,) = re.findall(rf'href="/dashboard(/users/{path}\?[^"]*)"', page) or [""]
        fields = dict(parse_qsl(unescape(asks).partition("?")[2]))
        assert fields["list"] == query
        assert f"/users/{user.id}?list=" in (await admin.get(unescape(asks))).text
        done = await admin.post(f"/users/{path}", **fields)
        page = (await admin.get(done.headers["location"].removeprefix("/dashboard"))).text
        assert back in page
    fields = {"name": "Grace", "email": user.email, "role": "viewer", "plan": "free"}
    done = await admin.saved(f"/users/{user.id}", **fields, list=query)
    assert back in (await admin.get(done.headers["location"].removeprefix("/dashboard"))).text
    done = await admin.post("/users/delete", id=user.id, list=f"{query}&next=//elsewhere.test")
    assert done.headers["location"] == f"/dashboard/users?{query}&done=user-deleted"


async def test_deleting_the_own_account_warns_and_signs_out(api: Api) -> None:
    await api.account("admin")
    user, admin = await signed_in(api, "admin")
    other = await api.account("viewer", name="Grace Hopper")
    warning = "You are signed out, and your keys stop working."
    asked = (await admin.get(f"/users/delete?id={other.id}")).text
    assert "Delete Grace Hopper?" in asked
    assert warning not in asked
    asked = (await admin.get(f"/users/delete?id={user.id}")).text
    assert "Delete your own account?" in asked
    assert warning in asked
    assert "Delete my account" in asked
    done = await admin.post("/users/delete", id=user.id)
    assert done.headers["location"] == "/dashboard/sign-in?done=account-deleted"
    assert COOKIE not in admin.client.cookies
    page = await admin.get("/sign-in?done=account-deleted")
    assert said(page, "status") == "Your account was deleted."
    assert await api.live.users.get(user.id) is None
