"""The catalogue in a browser: by keyboard alone, and without JavaScript."""

import re
import secrets

import pytest
from playwright.async_api import expect

from browser.looking import PHONE, Desk, htmx_there

pytestmark = pytest.mark.xdist_group("browser")


async def test_products_are_created_without_javascript_on_a_phone(desk: Desk) -> None:
    editor = desk.person("editor")
    name = f"Lamp {secrets.token_hex(4)}"
    async with desk.looking(editor, script=False, size=PHONE, expected=("status of 422",)) as page:
        await page.goto("products")
        await page.get_by_role("link", name="New product").first.click()
        await page.get_by_label("Category").fill("lighting")
        await page.get_by_label("Price").fill("24,50")
        await page.get_by_role("button", name="Add a row").last.click()
        await expect(page.locator("#f-metadata-2-name")).to_be_focused()
        await page.locator("#f-metadata-2-name").fill("colour")
        await page.locator("#f-metadata-2-value").fill("brass")
        await page.get_by_role("button", name="Create product").click()
        await expect(page.locator("#f-name")).to_be_focused()
        await expect(page.get_by_text("Must not be empty.")).to_be_visible()
        await page.locator("#f-name").fill(name)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name=name)).to_be_visible()
        await expect(page.get_by_text("brass")).to_be_visible()
        await page.get_by_role("button", name="Publish").click()
        await expect(page.get_by_text("The product is active.")).to_be_visible()
        await page.get_by_role("link", name="Delete").click()
        await page.get_by_role("button", name="Delete product").click()
        await expect(page.get_by_text("The product was deleted.")).to_be_visible()


async def test_products_are_found_while_one_types_and_archived_together_by_keyboard(
    desk: Desk,
) -> None:
    editor = desk.person("editor")
    word = f"w{secrets.token_hex(4)}"
    with desk.client(headers={"authorization": f"Bearer {desk.installation.key}"}) as caller:
        for name in (f"{word} 0", f"{word} 1", f"{word} 2", "Something else"):
            product = {"name": name, "category": "light", "price": 1}
            assert caller.post("/v1/products", json=product).status_code == 201
    async with desk.looking(editor) as page:
        await page.goto("products")
        await htmx_there(page)
        await expect(page.get_by_role("button", name="Archive")).to_be_hidden()
        await page.get_by_label("Name or description").press_sequentially(word)
        await expect(page.locator("#count")).to_have_text("3 products")
        await expect(page.locator("tbody tr")).to_have_count(3)
        every = page.get_by_role("checkbox", name="Select all on this page")
        await every.press("Space")
        await page.locator("tbody [name=id]").first.uncheck()
        await expect(every).not_to_be_checked()
        await page.locator("tbody [name=id]").first.check()
        await expect(every).to_be_checked()
        await page.get_by_role("checkbox", name=f"Select {word} 1").press("Space")
        await page.get_by_role("button", name="Archive").press("Enter")
        await expect(page.get_by_role("dialog")).to_contain_text("Archive 2 products?")
        await page.get_by_role("button", name="Archive 2 products").press("Enter")
        await expect(page.get_by_text("products were archived.")).to_be_visible()
        await expect(page.locator("#search")).to_have_value(word)
        await expect(page.locator("tbody .badge").get_by_text("Archived")).to_have_count(2)


async def test_a_form_that_one_comes_back_to_has_what_was_typed(desk: Desk) -> None:
    async with desk.looking(desk.person("editor")) as page:
        await page.goto("products/new")
        typed = {"f-name": "Lamp", "f-category": "light", "f-price": "12"}
        typed["f-metadata-1-name"] = "colour"
        for field, text in typed.items():
            await page.locator(f"#{field}").fill(text)
        await page.get_by_role("link", name="Cancel").click()
        await expect(page.get_by_role("heading", name="Products", exact=True)).to_be_visible()
        await page.go_back()
        for field, text in typed.items():
            await expect(page.locator(f"#{field}")).to_have_value(text)


async def test_the_way_back_leads_past_a_refused_form_to_its_page(desk: Desk) -> None:
    """Otherwise the browser asks whether to send the form again, and shows a page of its own."""
    async with desk.looking(desk.person("editor"), expected=("status of 422",)) as page:
        await page.goto("products?category=light")
        await page.get_by_role("link", name="New product").click()
        for name, title in (("", "Error: New product"), ("Lamp", "Lamp")):
            await page.locator("#f-name").fill(name)
            await page.locator("#f-category").fill("light")
            await page.locator("#f-price").fill("12")
            await page.get_by_role("button", name="Create").click()
            await expect(page).to_have_title(re.compile(f"^{title}"))
        for _ in range(2):
            await page.go_back()
            await expect(page).to_have_title(re.compile("^New product"))
        await page.go_back()
        await expect(page).to_have_url(re.compile(r"category=light"))


async def test_a_list_that_is_searched_while_one_types_says_so_and_can_be_cleared(
    desk: Desk,
) -> None:
    async with desk.looking(desk.admin) as page:
        await page.goto("users")
        await htmx_there(page)
        clear = page.get_by_role("link", name="Clear")
        for word, count in (("ada", 1), ("", 0), ("nobody has this", 1)):
            await page.locator("#search").fill(word)
            await expect(clear).to_have_count(count)
        await expect(page).to_have_title(re.compile(": nobody has this . Portico$"))
        await clear.click()
        await expect(page).to_have_url(f"{desk.dashboard}/users")
        await expect(page.locator("#search")).to_have_value("")


async def test_a_search_that_is_refused_says_why(desk: Desk) -> None:
    async with desk.looking(desk.person(), expected=("status of 429", "Code 429")) as page:
        await page.goto("products")
        await htmx_there(page)
        refused = {"status": 429, "content_type": "text/html", "body": "<h1>Too many requests</h1>"}
        await page.route("**/products?search=*", lambda route: route.fulfill(**refused))
        await page.get_by_label("Name or description").fill("kettle")
        await expect(page.get_by_text("Too many requests")).to_be_visible()
        await page.unroute_all()


async def test_a_server_that_is_out_of_reach_is_told_until_it_is_back(desk: Desk) -> None:
    expected = ("ERR_INTERNET_DISCONNECTED", "htmx:sendError")
    async with desk.looking(desk.person(), expected=expected) as page:
        await page.goto("products")
        await htmx_there(page)
        await page.context.set_offline(True)
        try:
            await page.get_by_label("Name or description").fill("kettle")
            await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
        finally:
            await page.context.set_offline(False)
        await page.get_by_label("Name or description").fill("nobody has this")
        await expect(page.get_by_text("No products found")).to_be_visible()
        await expect(page.get_by_role("alert")).to_be_hidden()
