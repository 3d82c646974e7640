"""What people do with their own account: profile, password, devices, applications."""

import pytest
from playwright.async_api import expect

from browser.looking import Desk, Person, cut_off, faults

pytestmark = pytest.mark.xdist_group("browser")


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


async def test_consent_names_the_client_and_leads_back_to_it(
    desk: Desk, client: dict[str, str], newcomer: Person
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
            await page.get_by_role("button", name="Allow").click()
        url = (await asked.value).url
        assert "code=" in url
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
