"""What administrators do: users, OAuth clients, the audit log."""

import re

import pytest
from playwright.async_api import expect

from browser.looking import Desk, Person

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def boss(desk: Desk) -> Person:
    return desk.person("admin", name="Margaret Hamilton")


async def test_users_are_found_while_one_types(desk: Desk, boss: Person) -> None:
    wanted = desk.person(name="Örsted 100%_sure")
    async with desk.looking(boss) as page:
        await page.goto("users")
        rows = page.locator("tbody tr")
        await expect(rows).not_to_have_count(1)
        await page.get_by_label("Name or e-mail").press_sequentially("öRSTED 100%_")
        await expect(rows).to_have_count(1)
        await expect(rows).to_contain_text(wanted.email)
        await expect(page.get_by_role("status")).to_have_text("1 user")
        await expect(page).to_have_url(re.compile(r"/users\?search=%C3%B6RSTED(\+|%20)100%25_$"))
        await page.get_by_label("Role").select_option("admin")
        await expect(page.get_by_text("No users found")).to_be_visible()
        await expect(page.get_by_role("status")).to_have_text("0 users")
        await page.get_by_label("Role").select_option("viewer")
        await page.get_by_role("link", name=wanted.name).click()
        await expect(page.get_by_role("heading", name=wanted.name)).to_be_visible()
        await page.go_back()
        await expect(rows).to_have_count(1)


async def test_users_are_found_without_a_script(desk: Desk, boss: Person) -> None:
    async with desk.looking(boss, script=False) as page:
        await page.goto("users")
        await page.get_by_label("Name or e-mail").fill(boss.email.upper())
        await page.get_by_role("button", name="Search").click()
        await expect(page.locator("tbody tr")).to_have_count(1)


async def test_a_user_is_created_moved_and_deleted(desk: Desk, boss: Person) -> None:
    expected = ("status of 409", "status of 422")
    async with desk.looking(boss, expected=expected) as page:
        await page.goto("users")
        await page.get_by_role("link", name="Create a user").click()
        await page.get_by_label("Name").fill("Radia Perlman")
        await page.get_by_label("E-mail").fill("no e-mail")
        await page.get_by_label("Password").fill("short")
        await page.get_by_label("Role").select_option("editor")
        await page.get_by_role("button", name="Create user").click()
        for text in ("Must be a valid e-mail address", "Must be 8 to 128 characters long"):
            await expect(page.get_by_text(text)).to_be_visible()
        await expect(page.get_by_label("Role")).to_have_value("editor")
        await page.get_by_label("E-mail").fill(boss.email)
        await page.get_by_label("Password").fill("Spanning-3")
        await page.get_by_role("button", name="Create user").click()
        await expect(page.get_by_text("A user with this e-mail exists already.")).to_be_visible()
        await page.get_by_label("E-mail").fill("radia@example.com")
        await page.get_by_label("Password").fill("Spanning-3")
        await page.get_by_role("button", name="Create user").click()
        await expect(page.get_by_role("status")).to_have_text("The user was created.")
        await page.get_by_label("Role").select_option("viewer")
        await page.get_by_label("Plan").select_option("pro")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("status")).to_have_text("The user was changed.")
        await expect(page.get_by_label("Plan")).to_have_value("pro")
        await page.get_by_role("link", name="View this user").click()
        await expect(page.locator("tbody th code")).to_have_text(["user.changed", "user.created"])
        await page.locator("tbody th a").first.click()
        await expect(page.get_by_label("Plan")).to_have_value("pro")
        radia = Person(
            int(page.url.split("/")[-1].split("?")[0]), "", "radia@example.com", "Spanning-3"
        )
        secret = desk.cookie(radia, anew=True)
        await page.get_by_role("link", name="Sign out everywhere").click()
        await page.get_by_role("button", name="Sign out everywhere").click()
        await expect(page.get_by_role("status")).to_have_text("The user is signed out everywhere.")
        with desk.client(cookies={"__Host-session": secret}) as client:
            assert client.get("/v1/users/me").status_code == 401
        await page.get_by_role("link", name="Delete user").click()
        await page.get_by_role("button", name="Delete user").click()
        await expect(page.get_by_role("status").first).to_have_text("The user was deleted.")
        await page.goto("audit?action=user.deleted")
        row = page.locator("tbody tr").first
        await expect(row).to_contain_text("radia@example.com")
        await expect(row).to_contain_text(boss.email)


async def test_nobody_changes_their_own_role(desk: Desk, boss: Person) -> None:
    async with desk.looking(boss) as page:
        await page.goto(f"users/{boss.id}")
        await expect(page.get_by_text("ask another admin")).to_be_visible()
        assert await page.get_by_label("Role").count() == 0


@pytest.mark.parametrize("script", [True, False])
async def test_the_audit_log_is_filtered_and_paged(
    desk: Desk, boss: Person, *, script: bool
) -> None:
    with desk.client(headers={"authorization": f"Bearer {desk.installation.key}"}) as client:
        for _ in range(14):
            client.patch("/v1/users/me", json={"name": "Admin Istrator"})
            client.patch("/v1/users/me", json={"name": "Administrator"})
    async with desk.looking(boss, script=script) as page:
        await page.goto("audit")
        await page.get_by_label("User").fill(desk.admin.email)
        await page.get_by_label("Action", exact=True).select_option("user.changed")
        await page.get_by_role("button", name="Filter").click()
        empty = "" if script else "&target=&from=&to="
        await expect(page).to_have_url(
            f"{desk.dashboard}/audit?user=ada%40example.com&action=user.changed{empty}"
        )
        rows = page.locator("tbody tr")
        await expect(rows).to_have_count(25)
        newest = await rows.first.inner_text()
        await page.get_by_role("link", name="Older").click()
        await expect(rows.first).not_to_have_text(newest)
        for action in await rows.locator("th code").all_inner_texts():
            assert action == "user.changed"
        await page.get_by_role("link", name="Newest").click()
        await expect(rows).to_have_count(25)
        since, until = page.get_by_label("From (UTC)"), page.get_by_label("To (UTC)")
        await since.hover()
        assert [await one.get_attribute("type") for one in (since, until)] == [None, None]
        await until.click()
        await expect(until).to_be_focused()
        if script:
            for one in (since, until):
                await expect(one).to_have_attribute("type", "date")
        await until.fill("2020-01-31")
        await page.get_by_role("button", name="Filter").click()
        await expect(page.get_by_text("0 entries")).to_be_visible()


async def test_a_client_is_registered_changed_renewed_and_deleted(desk: Desk, boss: Person) -> None:
    async with desk.looking(boss, expected=("status of 422",)) as page:
        await page.goto("clients")
        await page.get_by_role("link", name="Register a client").first.click()
        await page.get_by_label("Name").fill("Till")
        await page.get_by_label("Redirect URIs").fill("https://till.test/back\nhttp://till.test/")
        await page.get_by_label("read:products").check()
        await page.get_by_role("button", name="Register").click()
        await expect(page.get_by_label("Redirect URIs")).to_have_accessible_description(
            "One per line: an https:// address, http:// on a loopback address such as 127.0.0.1, or"
            " a native application's own scheme. http://till.test/ must begin with https://; http://"
            " is for loopback addresses only."
        )
        await expect(page.get_by_label("read:products")).to_be_checked()
        await page.get_by_label("Redirect URIs").fill(
            "https://till.test/back\n\nhttp://127.0.0.1/back\n"
        )
        await page.get_by_role("button", name="Register").click()
        client_id = await page.locator("#client-id").inner_text()
        secret = await page.locator("#secret").inner_text()
        assert secret.startswith("ocs_")

        def known(password: str) -> bool:
            body = {"client_id": client_id, "client_secret": password, "token": "none"}
            with desk.client() as api:
                return api.post("/auth/introspect", json=body).status_code == 200

        assert known(secret)
        await page.get_by_role("link", name="I have saved it").click()
        await page.get_by_label("Name").fill("Till 2")
        await page.get_by_label("admin").check()
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("status")).to_have_text("The client was changed.")
        await expect(page.get_by_role("heading", name="Till 2")).to_be_visible()
        await expect(page.get_by_label("admin")).to_be_checked()
        await page.get_by_role("link", name="Create new secret").click()
        await page.get_by_role("button", name="Create new secret").click()
        renewed = await page.locator("#secret").inner_text()
        assert (known(secret), known(renewed)) == (False, True)
        await page.get_by_role("link", name="I have saved it").click()
        await page.get_by_role("link", name="Delete client").click()
        await page.get_by_role("button", name="Delete client").click()
        await expect(page.get_by_role("status")).to_contain_text("The client was deleted")
        assert not known(renewed)


async def test_a_public_client_gets_no_secret(desk: Desk, boss: Person) -> None:
    async with desk.looking(boss) as page:
        await page.goto("sandbox/clients/new")
        await page.get_by_label("Name").fill("Pocket")
        await page.get_by_label("Redirect URIs").fill("com.example.pocket:/back")
        await page.get_by_label("Public").check()
        await page.get_by_role("button", name="Register").click()
        await expect(page.get_by_role("status")).to_contain_text("not a secret")
        await expect(page.locator("dl.facts")).to_contain_text("client_")
        assert await page.locator("#secret").count() == 0
        await page.goto("sandbox/audit?action=client.created")
        await expect(page.locator("tbody tr").first).to_contain_text(boss.email)
        await page.goto("clients")
        await expect(page.get_by_text("Pocket")).to_have_count(0)


async def test_every_button_beside_a_heading_can_be_clicked(desk: Desk, boss: Person) -> None:
    reached = """() => [...document.querySelectorAll(".head :is(.button, button)")].map(one => {
        const { x, y, width, height } = one.getBoundingClientRect();
        const there = document.elementFromPoint(x + width / 2, y + height / 2);
        return [one.textContent.trim(), one.contains(there)];
    })"""
    async with desk.looking(boss) as page:
        for path, words in (
            ("users", ["Create a user", "Invite a user"]),
            ("products", ["Export", "Import", "New product"]),
            ("keys", ["All keys"]),
            ("clients", ["Register a client"]),
            ("webhooks", ["Create a webhook"]),
        ):
            await page.goto(path)
            assert await page.evaluate(reached) == [[text, True] for text in words]
        await page.goto("users")
        await page.get_by_role("link", name="Invite a user").click()
        await expect(page.get_by_role("heading", name="Invitations")).to_be_visible()
