"""Passkeys in Chromium, with its virtual authenticator."""

import pytest
from playwright.async_api import Page, expect

from browser.looking import Desk, faults

pytestmark = pytest.mark.xdist_group("browser")

REFUSED = ("status of 422",)


async def with_authenticator(page: Page, **features: bool) -> None:
    """Gives a page's browser an authenticator that says yes."""
    devtools = await page.context.new_cdp_session(page)
    await devtools.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
        **features,
    }
    await devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options})


@pytest.mark.parametrize("offered", [True, False])
async def test_a_passkey_is_made_and_signs_in_without_a_password(
    desk: Desk, *, offered: bool
) -> None:
    person = desk.person()
    async with desk.looking(person) as page:
        await with_authenticator(page)
        await page.goto("security/passkey")
        assert await faults(page) == []
        await page.get_by_label("Name").fill("Virtual")
        await page.get_by_role("button", name="Make a passkey").click()
        await expect(page.get_by_role("heading", name="Your recovery codes")).to_be_visible()
        await page.get_by_role("link", name="I have kept them").click()
        await expect(page.get_by_text("Virtual", exact=True).first).to_be_visible()
        assert await faults(page) == []
        await page.context.clear_cookies()
        if not offered:
            never = "PublicKeyCredential.isConditionalMediationAvailable = async () => false"
            await page.add_init_script(never)
        await page.goto("sign-in?next=/dashboard/keys")
        if not offered:  # else the virtual authenticator takes what the browser offers by itself
            await page.get_by_role("button", name="Use a passkey").click()
        await expect(page).to_have_url(f"{desk.dashboard}/keys")
        await expect(page.get_by_text(person.email)).to_be_visible()


@pytest.mark.parametrize("lacks", ["hasUserVerification", "hasResidentKey"])
async def test_what_cannot_make_a_passkey_is_told(desk: Desk, lacks: str) -> None:
    async with desk.looking(desk.person()) as page:
        await with_authenticator(page, **{lacks: False, "isUserVerified": False})
        await page.goto("security/passkey")
        await page.get_by_role("button", name="Make a passkey").click()
        await expect(page.get_by_text("No passkey was made")).to_be_visible()


async def test_without_a_script_the_page_says_what_to_do(desk: Desk) -> None:
    async with desk.looking(desk.person(), script=False) as page:
        await page.goto("security/passkey")
        await expect(page.get_by_text("use another one")).to_be_visible()
        await expect(page.get_by_role("button", name="Make a passkey")).to_be_hidden()
        await page.context.clear_cookies()
        await page.goto("sign-in")
        await expect(page.get_by_role("button", name="Use a passkey")).to_be_hidden()
