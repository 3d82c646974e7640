"""What people do with their own account: profile, password, devices, applications."""

import pytest
from playwright.async_api import expect

from browser.looking import Desk, Person, cut_off, faults

pytestmark = pytest.mark.xdist_group("browser")


def me(desk: Desk, secret: str) -> int:
    with desk.client(cookies={"__Host-session": secret}) as client:
        return client.get("/v1/users/me").status_code


async def test_a_profile_is_saved_and_the_theme_holds_at_once(desk: Desk) -> None:
    person = desk.person(name="Grace Hoper")
    async with desk.looking(person, expected=("status of 422",)) as page:
        await page.goto("profile")
        await page.get_by_label("Name").fill("Grace Hopper")
        await page.get_by_label("Picture").fill("no address")
        await page.get_by_label("Language").fill("pt-BR")
        await page.get_by_label("Theme").select_option("Dark")
        await page.get_by_label("My role changes").uncheck()
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_label("Picture")).to_be_focused()
        await expect(page.get_by_text("Must be an absolute http or https URL")).to_be_visible()
        await expect(page.get_by_label("My role changes")).not_to_be_checked()
        await page.get_by_label("Picture").fill("https://example.com/grace.png")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("status")).to_have_text("Your profile was saved.")
        await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        ground = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == "rgb(16, 22, 21)", "the chosen theme wins over the system's"
        await expect(page.get_by_role("strong", include_hidden=True)).to_have_text("Grace Hopper")
        await expect(page.get_by_label("Language")).to_have_value("pt-BR")
        await expect(page.get_by_label("My role changes")).not_to_be_checked()


async def test_a_new_password_ends_other_sessions_and_spares_this_one(desk: Desk) -> None:
    person = desk.person(name="Carol Shaw")
    elsewhere = desk.cookie(person, anew=True)
    async with desk.looking(person, expected=("status of 422",)) as page:
        await page.goto("profile")
        await page.get_by_role("link", name="Change password").click()
        await page.get_by_label("Current password").fill("Wrong-1234")
        await page.get_by_label("New password").fill("Right-12345")
        await page.get_by_role("button", name="Change password").click()
        await expect(page.get_by_label("Current password")).to_have_accessible_description(
            "This is not the current password."
        )
        for name in ("Current password", "New password"):
            await expect(page.get_by_label(name)).to_have_value("")
        await page.get_by_label("Current password").fill(person.password)
        await page.get_by_label("New password").fill("weak")
        await page.get_by_role("button", name="Change password").click()
        await expect(page.get_by_text("Must be 8 to 128 characters long.")).to_be_visible()
        assert me(desk, elsewhere) == 200
        await page.get_by_label("Current password").fill(person.password)
        await page.get_by_label("New password").fill("Right-12345")
        await page.get_by_role("button", name="Change password").click()
        await expect(page.get_by_role("status")).to_contain_text("Your password was changed.")
        assert me(desk, elsewhere) == 401
        assert me(desk, desk.cookie(person)) == 200


async def test_one_device_is_signed_out_then_all_but_this(desk: Desk) -> None:
    person = desk.person(name="Ida Rhodes")
    first, second = (desk.cookie(person, anew=True) for _ in range(2))
    async with desk.looking(person) as page:
        await page.goto("devices")
        rows = page.get_by_role("row").filter(has=page.get_by_role("rowheader"))
        await expect(rows).to_have_count(3)
        await expect(rows.first).to_contain_text("This device")
        await rows.last.get_by_role("link", name="Sign out").click()
        await page.get_by_role("button", name="Sign out device").click()
        await expect(page.get_by_role("status")).to_have_text("That device is signed out.")
        await expect(rows).to_have_count(2)
        assert sorted((me(desk, first), me(desk, second))) == [200, 401]
        await page.get_by_role("link", name="Sign out everywhere else").click()
        await page.get_by_role("button", name="Sign out everywhere else").click()
        await expect(rows).to_have_count(1)
        assert (me(desk, first), me(desk, second)) == (401, 401)
        assert me(desk, desk.cookie(person)) == 200


@pytest.fixture(scope="module")
def client(desk: Desk) -> dict[str, str]:
    """An OAuth client."""
    made = desk.installation.told(
        "clients", "create", "--name", "Ledger for Teams",
        "--redirect-uri", "https://ledger.test/back?kept=1",
        "--scope", "read:users write:products",
    )  # fmt: skip
    return {name: str(value) for name, value in made.items()}


def authorize(desk: Desk, client: dict[str, str], redirect: str) -> str:
    return (
        f"{desk.origin}/auth/authorize?response_type=code&client_id={client['client_id']}"
        f"&redirect_uri={redirect}&scope=openid%20read:users&state=xyz"
    )


@pytest.mark.parametrize(("choice", "told"), [("Allow", "code="), ("Deny", "access_denied")])
async def test_consent_names_the_client_and_leads_back_to_it(
    desk: Desk, client: dict[str, str], newcomer: Person, choice: str, told: str
) -> None:
    async with desk.looking() as page:
        asking = authorize(desk, client, "https://ledger.test/back?kept=1")
        await page.goto(f"{asking}&prompt=consent")
        await page.get_by_label("E-mail").fill(newcomer.email)
        await page.get_by_label("Password").fill(newcomer.password)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("heading")).to_have_text("Allow Ledger for Teams?")
        await expect(page.get_by_role("main")).to_contain_text("ledger.test")
        await expect(page.get_by_role("main")).to_contain_text(newcomer.email)
        await expect(page.get_by_role("listitem")).to_have_text(
            ["Know who you are", "See all users"]
        )
        assert await faults(page) == []
        assert await cut_off(page) == []
        await page.emulate_media(color_scheme="dark")
        assert await faults(page) == []
        async with page.expect_request("https://ledger.test/**") as asked:
            await page.get_by_role("button", name=choice).click()
        url = (await asked.value).url
        assert told in url
        assert "state=xyz" in url
        assert "kept=1" in url


async def test_signing_in_leads_to_an_application_that_was_allowed_before(
    desk: Desk, client: dict[str, str]
) -> None:
    person = desk.person()
    asking = authorize(desk, client, "https://ledger.test/back?kept=1")
    async with desk.looking(person) as page:
        await page.goto(asking)
        async with page.expect_request("https://ledger.test/**"):
            await page.get_by_role("button", name="Allow").click()
    async with desk.looking() as page:
        await page.goto(asking)
        async with page.expect_request("https://ledger.test/**") as asked:
            await page.get_by_label("E-mail").fill(person.email)
            await page.get_by_label("Password").fill(person.password)
            await page.get_by_role("button", name="Sign in", exact=True).click()
        assert "code=" in (await asked.value).url


async def test_an_applications_access_is_revoked(desk: Desk, client: dict[str, str]) -> None:
    person = desk.person(name="Joan Clarke")
    async with desk.looking(person) as page:
        await page.goto(authorize(desk, client, "https://ledger.test/back?kept=1"))
        async with page.expect_request("https://ledger.test/**") as asked:
            await page.get_by_role("button", name="Allow").click()
        code = (await asked.value).url.partition("code=")[2].partition("&")[0]
        await page.wait_for_url("chrome-error://chromewebdata/")  # nobody serves it
        with desk.client() as api:
            bought = api.post(
                "/auth/token",
                json={
                    "grant_type": "authorization_code",
                    "code": code,
                    "redirect_uri": "https://ledger.test/back?kept=1",
                    "client_id": client["client_id"],
                    "client_secret": client["client_secret"],
                },
            )
            assert bought.status_code == 200, bought.text
            bearer = {"authorization": f"Bearer {bought.json()['access_token']}"}
            assert api.get("/v1/users/me", headers=bearer).status_code == 200
            await page.goto("applications")
            row = page.get_by_role("row", name="Ledger for Teams")
            await expect(row).to_contain_text("See all users")
            await row.get_by_role("link", name="Revoke").click()
            await page.get_by_role("button", name="Revoke access").click()
            await expect(page.get_by_role("status")).to_contain_text("access has ended")
            await expect(page.get_by_text("No applications yet")).to_be_visible()
            assert api.get("/v1/users/me", headers=bearer).status_code == 401
