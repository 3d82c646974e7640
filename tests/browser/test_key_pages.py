"""API keys in the dashboard: created, shown once, rotated, revoked, in both environments."""

import asyncio
import re

import pytest
from playwright.async_api import Error, Page, Route, expect

from browser.looking import Desk, Person, htmx_there

pytestmark = pytest.mark.xdist_group("browser")


def status_of(desk: Desk, key: str, path: str = "/v1/users/me", method: str = "GET") -> int:
    with desk.client(headers={"authorization": f"Bearer {key}"}) as client:
        return client.request(method, path, json=None if method == "GET" else {}).status_code


async def create(page: Page, name: str, choice: str | None = None) -> str:
    await page.get_by_label("Name").fill(name)
    if choice:
        await page.get_by_label(choice).check()
    await page.get_by_role("button", name="Create key").click()
    return await page.locator("#secret").inner_text()


@pytest.fixture(scope="module")
def owner(desk: Desk) -> Person:
    return desk.person(name="Key Owner")


async def test_a_key_is_shown_once_copied_and_works(desk: Desk, owner: Person) -> None:
    async with desk.looking(owner) as page:
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await page.goto("keys/new")
        key = await create(page, "Nightly export")
        assert key.startswith("sk_live_")
        await expect(page.locator("#curl")).to_contain_text(key)
        await expect(page.get_by_role("status")).to_have_text("")
        await page.get_by_role("button", name="Copy", exact=True).click()
        await expect(page.get_by_role("button", name="Copied")).to_be_visible()
        await expect(page.get_by_role("status")).to_have_text("Copied")
        await page.get_by_role("button", name="Copied").click()
        await expect(page.get_by_role("button", name="Copy", exact=True)).to_be_visible()
        await expect(page.get_by_role("status")).to_have_text("")
        assert await page.evaluate("navigator.clipboard.readText()") == key
        assert key not in page.url
        assert status_of(desk, key) == 200
        await page.get_by_role("link", name="I have saved it").click()
        await expect(page.get_by_role("row", name="Nightly export")).to_have_count(1)
        row = page.get_by_role("row", name="Nightly export")
        await expect(row).to_contain_text(f"sk_live_…{key[-4:]}")
        await expect(row).to_contain_text("Active until")
        assert key not in await page.content()
        await page.context.set_offline(True)
        with pytest.raises(Error, match="ERR_INTERNET_DISCONNECTED"):
            await page.go_back()
        # The browser keeps no copy of the page.
        await expect(page.locator("body")).not_to_contain_text(key)
        await page.context.set_offline(False)


@pytest.mark.parametrize("script", [True, False])
async def test_a_key_is_revoked_after_one_more_question(
    desk: Desk, owner: Person, *, script: bool
) -> None:
    name = f"Payroll {script}"
    async with desk.looking(owner, script=script) as page:
        await page.goto("keys/new")
        key = await create(page, name)
        await page.goto("keys")
        if script:
            await htmx_there(page)
        await page.get_by_role("row", name=name).get_by_role("link", name="Revoke").click()
        await expect(page.get_by_role("heading", name=f"Revoke {name}?")).to_be_visible()
        assert await page.get_by_role("dialog").count() == (1 if script else 0)
        assert status_of(desk, key) == 200
        await page.get_by_role("link", name="Cancel").click()
        await expect(page.get_by_role("heading", name=f"Revoke {name}?")).to_be_hidden()
        await expect(page).to_have_title(re.compile("^API keys"))
        await page.get_by_role("row", name=name).get_by_role("link", name="Revoke").click()
        await page.get_by_role("button", name="Revoke key").click()
        await expect(page.get_by_role("status")).to_have_text(
            "The key was revoked and no longer works."
        )
        row = page.get_by_role("row", name=name)
        await expect(row).to_contain_text("Revoked")
        assert await row.get_by_role("link", name="Revoke").count() == 0
        assert status_of(desk, key) == 401


async def test_of_two_questions_the_one_asked_last_stays_open(desk: Desk) -> None:
    async with desk.looking(desk.person(name="Wrong Row")) as page:
        for name in ("In use", "Left over"):
            await page.goto("keys/new")
            await create(page, name)
        await page.goto("keys")
        await htmx_there(page)
        held, links = asyncio.Event(), page.get_by_role("link")
        wrong = await links.filter(has_text="Revoke In use").get_attribute("href")

        async def late(route: Route) -> None:
            await held.wait()
            await route.continue_()

        await page.route(f"**{wrong}", late)
        await links.filter(has_text="Revoke In use").click()
        async with page.expect_event("requestfailed", lambda it: it.url.endswith(wrong)):
            await links.filter(has_text="Revoke Left over").click()
        held.set()
        await expect(page.get_by_role("heading", name="Revoke Left over?")).to_be_visible()
        await page.get_by_role("button", name="Revoke key").click()
        await expect(page.get_by_role("row", name="Left over")).to_contain_text("Revoked")
        await expect(page.get_by_role("row", name="In use")).to_contain_text("Active")
