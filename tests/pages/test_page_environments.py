"""The two environments side by side: nobody changes from one to the other without choosing to."""

import re
from html import unescape

import httpx

from driving import Api
from pages.visiting import ORIGIN, PASSWORD, signed_in, visitor
from portico.core.audit import OPERATOR
from portico.core.users import User
from portico.features.people.accounts import give_key
from portico.features.people.storage import Users

SANDBOX = "/dashboard/sandbox"


def hrefs(text: str) -> list[str]:
    """Where the links of some HTML lead."""
    return [unescape(link) for link in re.findall(r'<a [^>]*href="([^"#]+)"', text)]


def switch(text: str) -> str:
    """The part of a page by which one changes to the other environment."""
    return text.partition('class="switch"')[2].partition("</div>")[0]


def chosen(text: str) -> list[str]:
    """The environments that the switch shows as chosen."""
    return re.findall(r'aria-current="true">(\w+)<', switch(text))


def title(answer: httpx.Response) -> str:
    """What a page is called."""
    return answer.text.partition("<title>")[2].partition("</title>")[0]


async def test_only_the_switch_leads_out_of_the_sandbox(api: Api) -> None:
    user, admin = await signed_in(api, "admin")
    await give_key(api.live, user, name="Key", key_type="test", expires_at=None, by=OPERATOR)
    waiting, seen, told = [SANDBOX], {SANDBOX}, set()
    while waiting:
        path = waiting.pop()
        answer = await admin.client.get(ORIGIN + path)
        assert answer.status_code == 200, path
        text = answer.text.replace(switch(answer.text), "")
        for link, words in re.findall(r'(?s)<a [^>]*href="([^"#]+)"[^>]*>(.*?)</a>', text):
            to = unescape(link)
            if to.startswith("/dashboard") and not to.startswith(SANDBOX):
                assert words == "live account", (path, to)
                told.add(to.partition("?")[0])
            elif to.startswith(SANDBOX) and "/export" not in to and to not in seen:
                seen.add(to)
                waiting.append(to)
            elif not to.startswith(("/", "otpauth:")):
                assert to.startswith(f"{ORIGIN}/sandbox/"), (path, to)
    assert {SANDBOX + path for path in ("/profile", "/security", "/devices", "/password")} <= seen
    assert told == {f"/dashboard/users/{user.id}"}


async def mirror_id(api: Api, account: User) -> int:
    """The id of an account's mirror user."""
    mirror = await api.sandbox[Users].by_account(account.id)
    assert mirror is not None
    return mirror.id


async def test_sandbox_user_page_changes_no_account(api: Api) -> None:
    account, admin = await signed_in(api, "admin")
    sample = await api.account(env=api.sandbox)
    assert sample.id == account.id
    path, fields = f"/sandbox/users/{sample.id}", {"email": "grace@example.com", "plan": "pro"}
    before = {name: rows for name, rows in (await api.state()).items() if name.startswith("live")}
    done = await admin.saved(f"{path}/edit", name="Grace", role="editor", **fields)
    assert done.headers["location"] == f"/dashboard{path}?done=user-changed"
    changed = await api.sandbox[Users].get(sample.id)
    assert changed is not None
    assert (changed.name, changed.role, changed.plan) == ("Grace", "editor", "pro")
    assert "Reset password" not in (await admin.get(path)).text
    for verb in ("suspend", "resume", "sign-out", "delete"):
        assert (await admin.get(f"/sandbox/users/{verb}?id={sample.id}")).status_code == 200
        done = await admin.post(f"/sandbox/users/{verb}", id=sample.id)
        assert done.headers["location"].startswith(f"{SANDBOX}/users"), verb
    assert await api.sandbox[Users].get(sample.id) is None
    await admin.post(
        "/sandbox/users/new", name="Joan", email="joan@example.com", role="viewer", plan="free",
        password=PASSWORD,
    )  # fmt: skip
    assert await api.sandbox[Users].by_email("joan@example.com")
    after = await api.state()
    assert {name: after[name] for name in before} == before


async def test_mirror_user_cannot_be_changed_on_its_own(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    other = await api.account()
    await give_key(api.live, other, name="K", key_type="test", expires_at=None, by=OPERATOR)
    await admin.post("/sandbox/keys/new", name="Till", type="test", expiry="90d")
    path = f"/sandbox/users/{await mirror_id(api, other)}"
    page = await admin.get(path)
    assert f'<a href="/dashboard/users/{other.id}">live account</a>' in page.text
    assert f"/users/{await mirror_id(api, other)}/edit" not in page.text
    assert not re.search("/users/(suspend|delete)", page.text)
    fields = {"name": other.name, "email": other.email, "role": "viewer", "plan": other.plan}
    for changed in ({"role": "editor"}, {"plan": "pro"}, {"email": "new@example.com"}):
        async with api.unchanged():
            refused = await admin.post(f"{path}/edit", version="*", **fields | changed)
            assert refused.status_code == 409, changed
    async with api.unchanged():
        mirror = await mirror_id(api, other)
        assert (await admin.post("/sandbox/users/suspend", id=mirror)).status_code == 409


async def test_pages_of_accounts_are_not_found_in_the_sandbox(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    for verb in ("invitations", "reset-password?id=1", "reset-second-factor?id=1"):
        assert (await admin.get(f"/users/{verb}")).status_code == 200
        assert (await admin.get(f"/sandbox/users/{verb}")).status_code == 404


async def test_sign_in_leads_back_to_the_sandbox(api: Api) -> None:
    user, stranger = await api.account(password=PASSWORD), await visitor(api)
    asked = await stranger.get("/sandbox/profile")
    assert asked.headers["location"].endswith("next=%2Fdashboard%2Fsandbox%2Fprofile")
    fields = {"email": user.email, "password": PASSWORD, "next": SANDBOX}
    assert (await stranger.send("/sign-in", fields)).headers["location"] == SANDBOX


async def test_switch_leads_to_the_same_list_of_the_other_environment_or_to_its_overview(
    api: Api,
) -> None:
    _, admin = await signed_in(api, "admin")
    for path in ("", "/products", "/audit", "/products/new", "/products/999", "/profile"):
        other = path if path in ("/products", "/audit") else ""
        for base in ("", "/sandbox"):
            page = (await admin.get(f"{base}{path}?page=1")).text
            assert hrefs(switch(page)) == [f"/dashboard{other}", SANDBOX + other], path
