"""The two environments side by side: nobody changes from one to the other without choosing to."""

import re
from html import unescape
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from driving import Api
from pages.visiting import ORIGIN, PASSWORD, Visitor, rows, signed_in
from portico.domain.audit import OPERATOR
from portico.domain.users import User
from portico.pages.paging import PER_PAGE
from portico.services.accounts import give_key

SANDBOX = "/dashboard/sandbox"
OF_ACCOUNTS = ("/profile", "/security", "/devices", "/password")
PRODUCT = " \N{EN DASH} Portico"
"""What every title ends with."""


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


def next_of(answer: httpx.Response) -> str:
    """Where somebody goes who was sent to sign in."""
    return parse_qs(urlsplit(answer.headers["location"]).query)["next"][0]


async def test_only_the_switch_leads_out_of_the_sandbox(api: Api) -> None:
    user, admin = await signed_in(api, "admin")
    for _ in range(PER_PAGE + 1):
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
    assert {SANDBOX + path for path in OF_ACCOUNTS} <= seen
    assert f"{SANDBOX}/users/{await mirror_id(api, user)}" in seen
    assert told == {f"/dashboard/users/{user.id}"}


@pytest.mark.parametrize(
    "path",
    ["", "/products", "/users", "/keys", "/applications", "/requests", "/events", "/clients",
     "/webhooks", "/audit"],
)  # fmt: skip
async def test_switch_leads_to_the_same_list_of_the_other_environment(api: Api, path: str) -> None:
    _, admin = await signed_in(api, "admin")
    for base in ("", "/sandbox"):
        page = (await admin.get(f"{base}{path}?page=1")).text
        assert hrefs(switch(page)) == [f"/dashboard{path}", SANDBOX + path]
        for link in hrefs(switch(page)):
            assert (await admin.client.get(ORIGIN + link)).status_code == 200


async def test_switch_leads_to_the_overview_from_pages_of_one_environment(
    api: Api,
) -> None:
    _, admin = await signed_in(api, "admin")
    _, viewer = await signed_in(api)
    product = await api.product()
    for somebody, path, status in (
        (admin, f"/products/{product.id}", 200),
        (admin, "/products/new", 200),
        (admin, "/products/999", 404),
        (admin, "/keys/all", 200),
        (viewer, "/webhooks", 403),
    ):
        page = await somebody.get(path)
        assert page.status_code == status
        assert hrefs(switch(page.text)) == ["/dashboard", SANDBOX], path


@pytest.mark.parametrize("path", OF_ACCOUNTS)
async def test_account_page_leads_back_to_the_environment_of_its_visitor(
    api: Api, path: str
) -> None:
    _, admin = await signed_in(api, "admin")
    for base in ("", "/sandbox"):
        page = (await admin.get(base + path)).text
        assert f"/dashboard{base}/products" in hrefs(page)
        assert hrefs(switch(page)) == ["/dashboard", SANDBOX]
        assert chosen(page) == []
        assert 'class="badge warn">Sandbox' not in page
        assert 'data-environment="live"' in page
        assert ('class="badge">Live<' in page) == bool(base)
        assert ("<h2>Live account</h2>" in page) == bool(base)
    shown = (await admin.get("/sandbox/products")).text
    assert chosen(shown) == ["Sandbox"]
    assert 'class="badge warn">Sandbox' in shown


@pytest.mark.parametrize("path", ["", "/products", "/users", "/keys/all"])
async def test_title_names_the_sandbox(api: Api, path: str) -> None:
    _, admin = await signed_in(api, "admin")
    live = title(await admin.get(path))
    assert live.endswith(PRODUCT)
    name = live.removesuffix(PRODUCT)
    assert title(await admin.get(f"/sandbox{path}")) == f"{name} (Sandbox){PRODUCT}"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/products?search=a%26b&status=active&category=light", "a&amp;b, active, light"),
        ("/products?min_price=1&max_price=2.50&stock=no", "from 1, to 2.50, out of stock"),
        ("/users?search=grace&role=viewer&state=active", "grace, viewer, active"),
        ("/keys/all?search=till&unused=30", "till, not in the last 30 days"),
        ("/events?type=product.created", "product.created"),
        ("/events?type=product.created&before=9", "product.created, older"),
        ("/audit?user=ada&target=user+7", "ada, user 7"),
        ("/audit?from=2026-01-31&to=2026-02-01&before=9", "from 2026-01-31, to 2026-02-01, older"),
        ("/requests?span=days&status=429&account=7&key=3", "90 days, 7, 429, key 3"),
    ],
)
async def test_title_names_the_filters_of_a_list(api: Api, path: str, words: str) -> None:
    _, admin = await signed_in(api, "admin")
    for base, marked in (("", ""), ("/sandbox", " (Sandbox)")):
        name = title(await admin.get(base + path.partition("?")[0])).removesuffix(PRODUCT)
        assert name.endswith(marked)
        assert title(await admin.get(base + path)) == f"{name}: {words}{PRODUCT}"


async def test_title_names_the_page_of_a_list(api: Api) -> None:
    boss, admin = await signed_in(api, "admin")
    for _ in range(PER_PAGE + 1):
        await api.caller(user=boss)
    assert title(await admin.get("/keys?page=1")) == f"API keys{PRODUCT}"
    assert title(await admin.get("/keys?page=2")) == f"API keys: page 2{PRODUCT}"
    assert title(await admin.get("/keys/all?unused=ever&page=9")) == (
        f"All API keys: never used, page 2{PRODUCT}"
    )


async def test_title_of_an_account_page_says_live_in_the_sandbox(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    assert title(await admin.get("/profile")) == f"Profile{PRODUCT}"
    assert title(await admin.get("/sandbox/profile")) == f"Profile (Live){PRODUCT}"


async def test_account_form_in_the_sandbox_changes_the_account_and_stays_there(
    api: Api,
) -> None:
    user, somebody = await signed_in(api)
    fields = {"name": "Ada King", "language": "en", "theme": "dark"}
    answer = await somebody.saved("/sandbox/profile", **fields)
    assert answer.headers["location"] == f"{SANDBOX}/profile?done=profile-saved"
    changed = await api.live.users.get(user.id)
    assert changed is not None
    assert (changed.name, changed.theme) == ("Ada King", "dark")


async def test_secret_of_the_sandbox_is_shown_in_the_sandbox(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    await admin.get("/sandbox/keys")
    page = await admin.made("/sandbox/keys", name="Till", type="test", expiry="90d", once="1" * 32)
    assert "sk_test_" in page.text
    assert page.url.path == f"{SANDBOX}/once"


async def mirror_id(api: Api, account: User) -> int:
    """The id of an account's mirror user."""
    mirror = await api.sandbox.users.by_account(account.id)
    assert mirror is not None
    return mirror.id


async def test_sandbox_users_are_listed_in_the_sandbox_alone(api: Api) -> None:
    account, admin = await signed_in(api, "admin", name="Ada")
    assert "No users yet" in (await admin.get("/sandbox/users")).text
    await give_key(api.live, account, name="K", key_type="test", expires_at=None, by=OPERATOR)
    await api.account(name="Grace", env=api.sandbox)
    await api.account("editor", name="Karen", env=api.sandbox)
    for query, found in (
        ("", {"Ada Mirror", "Grace", "Karen"}),
        ("?search=gra", {"Grace"}),
        ("?role=editor", {"Karen"}),
        ("?state=suspended", set()),
    ):
        page = await admin.get(f"/sandbox/users{query}")
        assert {row.partition(" person")[0] for row in rows(page)} == found, query
    assert "Mirror" not in (await admin.get("/users")).text
    assert "invit" not in (await admin.get("/sandbox/users")).text.lower()


async def test_sandbox_user_page_changes_no_account(api: Api) -> None:
    account, admin = await signed_in(api, "admin")
    sample = await api.account(env=api.sandbox)
    assert sample.id == account.id
    path, fields = f"/sandbox/users/{sample.id}", {"email": "grace@example.com", "plan": "pro"}
    before = {name: rows for name, rows in (await api.state()).items() if name.startswith("live")}
    done = await admin.saved(path, name="Grace", role="editor", **fields)
    assert done.headers["location"] == f"/dashboard{path}?done=user-changed"
    changed = await api.sandbox.users.get(sample.id)
    assert changed is not None
    assert (changed.name, changed.role, changed.plan) == ("Grace", "editor", "pro")
    assert "Reset password" not in (await admin.get(path)).text
    for verb in ("suspend", "resume", "sign-out", "delete"):
        assert (await admin.get(f"/sandbox/users/{verb}?id={sample.id}")).status_code == 200
        done = await admin.post(f"/sandbox/users/{verb}", id=sample.id)
        assert done.headers["location"].startswith(f"{SANDBOX}/users"), verb
    assert await api.sandbox.users.get(sample.id) is None
    await admin.post(
        "/sandbox/users/new", name="Joan", email="joan@example.com", role="viewer", plan="free",
        password=PASSWORD,
    )  # fmt: skip
    assert await api.sandbox.users.by_email("joan@example.com")
    after = await api.state()
    assert {name: after[name] for name in before} == before


async def test_mirror_user_cannot_be_changed_on_its_own(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    other = await api.account()
    await give_key(api.live, other, name="K", key_type="test", expires_at=None, by=OPERATOR)
    await admin.post("/sandbox/keys", name="Till", type="test", expiry="90d")
    path = f"/sandbox/users/{await mirror_id(api, other)}"
    page = await admin.get(path)
    assert f'<a href="/dashboard/users/{other.id}">live account</a>' in page.text
    assert 'name="version"' not in page.text
    assert not re.search("/users/(suspend|delete)", page.text)
    fields = {"name": other.name, "email": other.email, "role": "viewer", "plan": other.plan}
    for changed in ({"role": "editor"}, {"plan": "pro"}, {"email": "new@example.com"}):
        async with api.unchanged():
            refused = await admin.post(path, version="*", **fields | changed)
            assert refused.status_code == 409, changed
    async with api.unchanged():
        mirror = await mirror_id(api, other)
        assert (await admin.post("/sandbox/users/suspend", id=mirror)).status_code == 409


@pytest.mark.parametrize(
    "path", ["/users/invitations", "/users/reset-password?id=1", "/users/reset-second-factor?id=1"]
)
async def test_pages_of_accounts_are_not_found_in_the_sandbox(api: Api, path: str) -> None:
    _, admin = await signed_in(api, "admin")
    assert (await admin.get(path)).status_code == 200
    assert (await admin.get(f"/sandbox{path}")).status_code == 404


async def test_deleting_a_sandbox_user_of_the_own_id_keeps_the_session(
    api: Api,
) -> None:
    account, admin = await signed_in(api, "admin")
    sample = await api.account(env=api.sandbox)
    assert sample.id == account.id
    assert "your own" not in (await admin.get(f"/sandbox/users/delete?id={sample.id}")).text
    done = await admin.post("/sandbox/users/delete", id=sample.id)
    assert done.headers["location"] == f"{SANDBOX}/users?done=user-deleted"
    assert (await admin.get("/keys")).status_code == 200
    assert await api.live.users.get(account.id)


async def test_sign_in_leads_back_to_the_sandbox(api: Api) -> None:
    user = await api.account(password=PASSWORD)
    stranger = Visitor(api.stranger())
    asked = await stranger.get("/sandbox/profile")
    assert next_of(asked) == f"{SANDBOX}/profile"
    # A page stands at its path, and none at the last one's.
    for path, back in (("/devices/end-others", "/devices/end-others"), ("/security/link", "")):
        assert next_of(await stranger.post(f"/sandbox{path}")) == SANDBOX + back
    fields = {"email": user.email, "password": PASSWORD, "next": SANDBOX}
    assert (await stranger.send("/sign-in", fields)).headers["location"] == SANDBOX


async def test_error_page_of_the_sandbox_leads_to_its_overview(api: Api) -> None:
    _, somebody = await signed_in(api)
    for path in ("/sandbox/nowhere", "/sandbox/sign-in", "/sandbox/once?page=none"):
        page = await somebody.get(path)
        assert page.status_code in (404, 410), path
        assert f'{SANDBOX}">Go to the dashboard' in page.text, path
    refused = await somebody.get("/sandbox/users")
    assert refused.status_code == 403
    assert f'{SANDBOX}">Go to the dashboard' in refused.text


async def test_step_up_by_sign_in_leads_back_to_the_sandbox(
    api: Api,
) -> None:
    user, admin = await signed_in(api, "admin")
    api.clock.advance(seconds=16 * 60)
    async with api.live.db.transaction() as tx:
        await tx.run("UPDATE users SET password_hash = NULL WHERE id = :id", {"id": user.id})
    asked = await admin.post("/sandbox/users/new", name="Bob")
    assert f"/dashboard/sign-in?again=yes&next={SANDBOX}" in hrefs(asked.text)
