"""Passkeys in Chromium, with its virtual authenticator."""

import json
from base64 import urlsafe_b64decode
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import pytest
from playwright.async_api import CDPSession, Page, Request, expect

from browser.looking import Desk

pytestmark = pytest.mark.xdist_group("browser")

REFUSED = ("status of 422",)


class Virtual(NamedTuple):
    """A page's authenticator, and what tells it what to do."""

    devtools: CDPSession
    id: str

    async def send(self, command: str, **values: object) -> dict[str, Any]:
        """What comes of a command of WebAuthn's."""
        asked = {"authenticatorId": self.id, **values}
        return await self.devtools.send(f"WebAuthn.{command}", asked)


async def with_authenticator(page: Page, **features: bool) -> Virtual:
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
    made = await devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    return Virtual(devtools, made["authenticatorId"])


@pytest.mark.parametrize("offered", [True, False])
async def test_a_passkey_is_made_and_signs_in_without_a_password(
    desk: Desk, *, offered: bool
) -> None:
    person = desk.person()
    async with desk.looking(person) as page:
        await with_authenticator(page)
        if not offered:
            await page.add_init_script(NEVER_OFFERED)
            await page.add_init_script(f"({PLAIN})()")  # as a password manager does
        await made(page)
        await page.goto("sign-in?next=/dashboard/keys")
        if not offered:  # else the virtual authenticator takes what the browser offers by itself
            await page.get_by_role("button", name="Use a passkey").click()
        await expect(page).to_have_url(f"{desk.dashboard}/keys")
        await expect(page.get_by_text(person.email)).to_be_visible()


NEVER_OFFERED = "PublicKeyCredential.isConditionalMediationAvailable = async () => false"
ASKS = """(other) => {
    const real = navigator.credentials.get.bind(navigator.credentials);
    navigator.credentials.get = (wish) =>
        real({...wish, publicKey: {...wish.publicKey, ...other}});
}"""
SENDS = """(credential) => {
    const form = document.querySelector("form[data-passkey]");
    form.elements.credential.value = credential;
    form.submit();
}"""


PLAIN = """() => {
    const fields = ["clientDataJSON", "attestationObject", "authenticatorData", "signature"];
    const plain = ({id, rawId, type, response: real}) => {
        const response = Object.fromEntries(fields.map((name) => [name, real[name]]));
        return {id, rawId, type, response, toJSON() { throw new TypeError("Illegal invocation"); }};
    };
    for (const name of ["create", "get"]) {
        const real = navigator.credentials[name].bind(navigator.credentials);
        navigator.credentials[name] = async (wish) => plain(await real(wish));
    }
}"""


async def made(page: Page, name: str = "Virtual") -> None:
    """Makes a passkey for who is signed in, and signs them out."""
    await page.goto("security/passkey")
    await page.get_by_label("Name").fill(name)
    await page.get_by_role("button", name="Add passkey").click()
    await expect(page.get_by_role("heading", name="Your recovery codes")).to_be_visible()
    await page.context.clear_cookies()


def is_answer(request: Request) -> bool:
    """Whether a request sends a passkey's answer."""
    return request.method == "POST" and "/sign-in/passkey" in request.url


def challenge_in(request: Request) -> str:
    """The challenge that a sent passkey has signed."""
    (sent,) = parse_qs(request.post_data or "")["credential"]
    data = json.loads(sent)["response"]["clientDataJSON"]
    return str(json.loads(urlsafe_b64decode(data + "=="))["challenge"])


async def offered_in(page: Page) -> str:
    """The challenge that a page came with."""
    options = await page.locator("form[data-passkey]").get_attribute("data-options")
    return str(json.loads(options or "")["challenge"])


PASSES = """const now = Date.now, every = setInterval;
window.passed = 0;
Date.now = () => now() + window.passed;
window.setInterval = (does) => every(does, 20);"""
OPEN_FOR_LONG = "window.passed = 601_000"


@pytest.mark.parametrize("offered", [True, False], ids=["autofill", "button"])
async def test_a_sign_in_page_that_was_open_for_long_uses_a_new_challenge(
    desk: Desk, *, offered: bool
) -> None:
    async with desk.looking(desk.person()) as page:
        device = await with_authenticator(page)
        await made(page)
        await device.send("setAutomaticPresenceSimulation", enabled=False)
        if not offered:
            await page.add_init_script(NEVER_OFFERED)
        await page.add_init_script(PASSES)
        await page.goto("sign-in?next=/dashboard/keys")
        old = await offered_in(page)
        await device.send("setAutomaticPresenceSimulation", enabled=True)
        async with (
            page.expect_response("**/sign-in/passkey/options"),
            page.expect_request(is_answer) as sent,
        ):
            await page.evaluate(OPEN_FOR_LONG)
            if not offered:
                await page.get_by_role("button", name="Use a passkey").click()
        assert challenge_in(await sent.value) != old
        await expect(page).to_have_url(f"{desk.dashboard}/keys")


async def test_a_passkey_that_is_not_used_as_it_should_be_opens_nothing(desk: Desk) -> None:
    async with desk.looking(desk.person(), expected=REFUSED) as page:
        device = await with_authenticator(page)
        await page.goto("security/passkey")
        await page.get_by_role("button", name="Add passkey").click()
        await expect(page.get_by_role("heading", name="Your recovery codes")).to_be_visible()
        await page.add_init_script(NEVER_OFFERED)
        use = page.get_by_role("button", name="Use a passkey")

        async def begin() -> None:
            await page.context.clear_cookies()
            await page.goto("sign-in")

        async def is_told(words: str) -> None:
            await expect(page.get_by_text(words)).to_be_visible()
            await expect(page.get_by_label("Password", exact=True)).to_be_visible()

        for other in ({"rpId": "example.com"}, {"timeout": 100}):
            await begin()
            await device.send("setAutomaticPresenceSimulation", enabled="rpId" in other)
            await page.evaluate(ASKS, other)
            await use.click()
            words = "No passkey was used. Try again, or sign in with your password."
            await expect(page.get_by_role("alert")).to_have_text(words)
            await is_told(words)
        await device.send("setAutomaticPresenceSimulation", enabled=True)
        await device.send("setUserVerified", isUserVerified=False)
        await begin()
        await use.click()
        await is_told("No passkey was used.")
        await device.send("setUserVerified", isUserVerified=True)

        await begin()
        async with page.expect_request(lambda sent: "/sign-in/passkey" in sent.url) as sent:
            await use.click()
        await expect(page).to_have_url(desk.dashboard)
        replayed = parse_qs((await sent.value).post_data)["credential"][0]
        await begin()
        await page.evaluate(SENDS, replayed)
        await is_told("This passkey was not accepted")

        (passkey,) = (await device.send("getCredentials"))["credentials"]
        await device.send("removeCredential", credentialId=passkey["credentialId"])
        await device.send("addCredential", credential={**passkey, "signCount": 0})
        await begin()
        await use.click()
        await is_told("This passkey was not accepted")


async def test_what_cannot_make_a_passkey_is_told(desk: Desk) -> None:
    async with desk.looking(desk.person()) as page:
        await with_authenticator(page, hasUserVerification=False, isUserVerified=False)
        await page.goto("security/passkey")
        await page.get_by_role("button", name="Add passkey").click()
        await expect(page.get_by_role("alert")).to_contain_text("No passkey was created")
