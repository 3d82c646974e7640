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


async def test_a_user_is_created_moved_and_deleted(desk: Desk, boss: Person) -> None:
    expected = ("status of 409", "status of 422")
    async with desk.looking(boss, expected=expected) as page:
        await page.goto("users")
        await page.get_by_role("link", name="New user").click()
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
        await page.get_by_role("link", name="Edit").click()
        await page.get_by_label("Role").select_option("viewer")
        await page.get_by_label("Plan").select_option("pro")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("status")).to_have_text("The user was changed.")
        await expect(page.get_by_text("Pro", exact=True)).to_be_visible()
        await page.get_by_role("link", name="View this user").click()
        await expect(page.locator("tbody th code")).to_have_text(["user.updated", "user.created"])
        await page.locator("tbody td a", has_text="user").first.click()
        await expect(page.get_by_text("Pro", exact=True)).to_be_visible()
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
        await page.locator("tbody th a").first.click()
        await expect(page.locator("main")).to_contain_text("radia@example.com")
        await expect(page.locator("main")).to_contain_text(boss.email)


async def test_a_client_is_registered_changed_renewed_and_deleted(desk: Desk, boss: Person) -> None:
    async with desk.looking(boss, expected=("status of 422",)) as page:
        await page.goto("clients")
        await page.get_by_role("link", name="New client").first.click()
        await page.get_by_label("Name").fill("Till")
        await page.get_by_label("Redirect URIs").fill("https://till.test/back\nhttp://till.test/")
        await page.get_by_label("read:products").check()
        await page.get_by_role("button", name="Create client").click()
        await expect(page.get_by_label("Redirect URIs")).to_have_accessible_description(
            "One per line: an https:// address, http:// on a loopback address such as 127.0.0.1, or"
            " a native application's own scheme. http://till.test/ must begin with https://; http://"
            " is for loopback addresses only."
        )
        await expect(page.get_by_label("read:products")).to_be_checked()
        await page.get_by_label("Redirect URIs").fill(
            "https://till.test/back\n\nhttp://127.0.0.1/back\n"
        )
        await page.get_by_role("button", name="Create client").click()
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
