"""Forgotten passwords and unverified addresses: from the form by way of the mail to the end."""

import email
import email.policy
import re

import pytest
from playwright.async_api import expect

from browser.looking import Desk, Person
from operating import until

pytestmark = pytest.mark.xdist_group("browser")


def link_to(desk: Desk, person: Person, page: str) -> str:
    """The link to a page in a mail that somebody got."""

    def found() -> str | None:
        for file in (desk.installation.data / "log").glob("mail-*.eml"):
            message = email.message_from_bytes(file.read_bytes(), policy=email.policy.default)
            part = message.get_body(("plain",))
            link = part and re.search(rf"https://\S+/{page}\?token=\S+", part.get_content())
            if link and message["to"] == person.email:
                return link[0]
        return None

    return str(until(found, "the mail"))


async def test_a_forgotten_password_is_replaced_by_a_link_that_works_once(desk: Desk) -> None:
    person = desk.person(name="Evelyn Boyd")
    elsewhere = desk.cookie(person, anew=True)
    async with desk.looking(expected=("status of 422", "status of 410")) as page:
        await page.goto("sign-in")
        await page.get_by_role("link", name="Forgot your password?").click()
        await page.get_by_label("E-mail").fill(person.email)
        await page.get_by_role("button", name="Request a link").click()
        await expect(page.get_by_role("heading")).to_have_text("Ask the server operator")
        link = link_to(desk, person, "reset")
        await page.goto(link)
        await page.get_by_label("New password").fill("weak")
        await page.get_by_role("button", name="Set password").click()
        await expect(page.get_by_text("Must be 8 to 128 characters long.")).to_be_visible()
        assert "token" not in page.url
        await page.get_by_label("New password").fill("Another-1")
        await page.get_by_role("button", name="Set password").click()
        await expect(page.get_by_role("status")).to_contain_text("Sign in with the new one.")
        await page.get_by_label("E-mail").fill(person.email)
        await page.get_by_label("Password").fill("Another-1")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page).to_have_url(desk.dashboard)
        await page.goto(link)
        await expect(page.get_by_role("alert")).to_contain_text("has expired, was used before")
    with desk.client(cookies={"__Host-session": elsewhere}) as client:
        assert client.get("/v1/users/me").status_code == 401


async def test_an_address_is_verified_by_a_click_and_not_by_the_look(desk: Desk) -> None:
    person = desk.person(name="Annie Easley")
    async with desk.looking(person, expected=("status of 410",)) as page:
        await page.goto("profile")
        await page.get_by_role("button", name="Request verification link").click()
        await expect(page.get_by_role("status")).to_contain_text(
            "Ask the server operator for the link"
        )
        link = link_to(desk, person, "verify")
        await page.goto(link)
        await page.goto("profile")
        await expect(page.get_by_text("Not verified")).to_be_visible()
        await page.goto(link)
        await page.get_by_role("button", name="Verify e-mail").click()
        await expect(page.get_by_role("heading")).to_have_text("Your e-mail is verified")
        await page.goto("profile")
        await expect(page.get_by_text("Verified", exact=True)).to_be_visible()
        await page.goto(link)
        await expect(page.get_by_role("alert")).to_contain_text("has expired, was used before")
