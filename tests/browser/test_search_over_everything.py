"""The search over everything in a browser: by keyboard alone, and without JavaScript."""

import secrets

import pytest
from playwright.async_api import Page, expect

from browser.looking import PHONE, Desk, faults

pytestmark = pytest.mark.xdist_group("browser")


def made(desk: Desk) -> str:
    """A word that the names of two new products have."""
    word = f"w{secrets.token_hex(4)}"
    with desk.client(headers={"authorization": f"Bearer {desk.installation.key}"}) as caller:
        for number in range(2):
            product = {"name": f"{word} {number}", "category": "light", "price": 1}
            assert caller.post("/v1/products", json=product).status_code == 201
    return word


async def focused(page: Page) -> str:
    """The text of what has the focus, or its value."""
    return str(
        await page.evaluate("document.activeElement.value ?? document.activeElement.textContent")
    )


async def test_search_opens_and_goes_to_a_record_by_keyboard(desk: Desk) -> None:
    word = made(desk)
    async with desk.looking(desk.person()) as page:
        await page.goto("keys")
        await page.keyboard.press("Control+k")
        dialog = page.get_by_role("dialog", name="Search")
        await expect(dialog.get_by_role("link", name="Devices")).to_be_visible()
        assert await faults(page) == []
        await page.keyboard.type(word)
        await expect(dialog.get_by_role("status")).to_have_text("2 results")
        assert await faults(page) == []
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("ArrowDown")
        assert f"{word} 0" in await focused(page)
        await page.keyboard.press("ArrowDown")
        assert await focused(page) == word
        await page.keyboard.press("ArrowUp")
        await page.keyboard.type(" 1")
        assert await focused(page) == f"{word} 1"
        await expect(dialog.get_by_role("status")).to_have_text("1 result")
        await page.keyboard.press("Escape")
        await expect(dialog).to_be_hidden()
        await page.locator("main").focus()
        await page.keyboard.press("/")
        await expect(page.locator("#q")).to_have_value(f"{word} 1")
        await page.keyboard.type(f"{word} 0")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name=f"{word} 0")).to_be_visible()


async def test_slash_in_a_field_is_a_character_of_its_text(desk: Desk) -> None:
    async with desk.looking(desk.person()) as page:
        await page.goto("products")
        field = page.get_by_label("Name or description")
        await field.press_sequentially("a/b")
        await expect(field).to_have_value("a/b")
        await expect(page.get_by_role("dialog")).to_be_hidden()
        await field.press("Control+k")
        await expect(page.get_by_role("dialog", name="Search")).to_be_visible()


async def test_slash_is_switched_off_in_the_search_and_stays_off(desk: Desk) -> None:
    async with desk.looking(desk.person()) as page:
        await page.goto("devices")
        dialog = page.get_by_role("dialog", name="Search")
        await page.locator("main").press("/")
        box = dialog.get_by_role("checkbox", name="“/” opens this search")
        await box.uncheck()
        await page.keyboard.press("Escape")
        for _ in range(2):
            link = page.locator("a.finder")
            await expect(link).to_have_attribute("aria-keyshortcuts", "Control+K")
            await page.locator("main").press("/")
            await expect(dialog).to_be_hidden()
            await page.reload()
        await page.keyboard.press("Control+k")
        await expect(box).not_to_be_checked()
        await box.check()
        await page.keyboard.press("Escape")
        await page.locator("main").press("/")
        await expect(dialog).to_be_visible()


async def test_search_is_a_page_without_javascript(desk: Desk) -> None:
    word = made(desk)
    async with desk.looking(desk.person(), script=False, size=PHONE) as page:
        await page.goto("products")
        await page.get_by_text("Menu").click()
        await page.get_by_role("link", name="Search").click()
        await page.locator("#q").fill(word)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("status")).to_have_text("2 results")
        await page.get_by_role("link", name=f"{word} 1").click()
        await expect(page.get_by_role("heading", name=f"{word} 1")).to_be_visible()
