"""The catalogue in a browser: by keyboard alone, and without JavaScript."""

import asyncio
import re
import secrets

import pytest
from playwright.async_api import Route, expect

from browser.looking import PHONE, WIDE, Desk, htmx_there

pytestmark = pytest.mark.xdist_group("browser")


async def test_products_are_created_without_javascript_on_a_phone(desk: Desk) -> None:
    editor = desk.person("editor")
    name = f"Lamp {secrets.token_hex(4)}"
    async with desk.looking(editor, script=False, size=PHONE, expected=("status of 422",)) as page:
        await page.goto("products")
        await page.get_by_role("link", name="New product").first.click()
        await page.get_by_label("Category").fill("lighting")
        await page.get_by_label("Price").fill("24,50")
        await page.get_by_role("button", name="Add a row").click()
        await expect(page.locator("#metadata_2_name")).to_be_focused()
        await page.locator("#metadata_2_name").fill("colour")
        await page.locator("#metadata_2_value").fill("brass")
        await page.get_by_role("button", name="Create product").click()
        await expect(page.locator("#name")).to_be_focused()
        await expect(page.get_by_text("Must not be empty.")).to_be_visible()
        await page.locator("#name").fill(name)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name=name)).to_be_visible()
        await expect(page.get_by_text("brass")).to_be_visible()
        await page.get_by_role("button", name="Publish").click()
        await expect(page.get_by_text("The product is active.")).to_be_visible()
        await page.get_by_role("link", name="Delete").click()
        await page.get_by_role("button", name="Delete product").click()
        await expect(page.get_by_text("The product was deleted.")).to_be_visible()


async def test_what_stands_side_by_side_above_the_list_is_on_one_line_on_a_phone(
    desk: Desk,
) -> None:
    async with desk.looking(desk.person("editor"), script=False, size=PHONE) as page:
        await page.goto("products")
        imports = page.get_by_role("link", name="Import").first
        sides = [page.get_by_role("button", name="Export"), imports]
        boxes = [await side.bounding_box() for side in sides]
        assert len({(box["y"], box["height"]) for box in boxes if box}) == 1, boxes


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


async def test_all_products_of_a_page_are_chosen_on_a_phone(desk: Desk) -> None:
    with desk.client(headers={"authorization": f"Bearer {desk.installation.key}"}) as caller:
        product = {"name": "A lamp", "category": "light", "price": 1}
        assert caller.post("/v1/products", json=product).status_code == 201
    async with desk.looking(desk.admin, size=PHONE) as page:
        await page.goto("products")
        await page.get_by_text("Select all", exact=True).click()
        await expect(page.locator("tbody [name=id]:not(:checked)")).to_have_count(0)
        await expect(page.get_by_role("button", name="Archive")).to_be_visible()


async def test_the_bar_says_how_many_products_are_selected(desk: Desk) -> None:
    """The style sheet counts them: the number is in no attribute, but screen readers get it."""
    with desk.client(headers={"authorization": f"Bearer {desk.installation.key}"}) as caller:
        for name in ("A lamp", "A mug"):
            product = {"name": name, "category": "home", "price": 1}
            assert caller.post("/v1/products", json=product).status_code == 201
    async with desk.looking(desk.admin) as page:
        browser = await page.context.new_cdp_session(page)
        await page.goto("products")
        for count in (1, 2):
            await page.locator("td [name=id]").nth(count - 1).check()
            tree = await browser.send("Accessibility.getFullAXTree")
            told = [node.get("name", {}).get("value") for node in tree["nodes"]]
            assert told[told.index(" selected") - 1] == str(count)


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
async def test_more_filters_stays_below_the_pointer_that_opens_it(
    desk: Desk, size: tuple[int, int]
) -> None:
    async with desk.looking(desk.admin, size=size) as page:
        await page.goto("products")
        more = page.get_by_text("More filters")
        before = await more.bounding_box()
        await more.click()
        await expect(page.get_by_label("Price from")).to_be_visible()
        assert await more.bounding_box() == before
        await more.click()
        await expect(page.get_by_label("Price from")).to_be_hidden()


async def test_a_dialog_with_a_long_name_opens_at_its_beginning(desk: Desk) -> None:
    with desk.client(headers={"authorization": f"Bearer {desk.installation.key}"}) as caller:
        product = {"name": "W" * 200, "category": "light", "price": 1}
        number = caller.post("/v1/products", json=product).json()["data"]["id"]
    async with desk.looking(desk.admin, size=(PHONE[0], 360)) as page:
        await page.goto(f"products/{number}")
        await htmx_there(page)
        await page.get_by_role("link", name="Delete").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_be_visible()
        assert await dialog.evaluate(
            "one => [one.scrollHeight > one.clientHeight, one.scrollTop]"
        ) == [True, 0]


RIGHTS = """(form) => [...form.querySelectorAll(".filters .filters .field")].map(
    (one) => one.getBoundingClientRect().right - form.getBoundingClientRect().right)"""


async def test_filters_are_as_wide_as_a_phone(desk: Desk) -> None:
    async with desk.looking(desk.admin, size=PHONE) as page:
        await page.goto("products")
        await page.get_by_text("More filters").click()
        assert set(await page.locator("form.filters").evaluate(RIGHTS)) == {0}


async def test_two_versions_that_are_compared_have_the_same_room(desk: Desk) -> None:
    with desk.client(headers={"authorization": f"Bearer {desk.installation.key}"}) as caller:
        product = {"name": "A lamp", "category": "light", "price": 1, "description": "Short"}
        number = caller.post("/v1/products", json=product).json()["data"]["id"]
        async with desk.looking(desk.admin, expected=("status of 412",)) as page:
            await page.goto(f"products/{number}/edit")
            caller.patch(f"/v1/products/{number}", json={"description": "A long one. " * 80})
            await page.get_by_label("Description").fill("Mine")
            await page.get_by_role("button", name="Save").click()
            theirs, mine = await page.locator("[data-label]").evaluate_all(
                "cells => cells.map(one => one.offsetWidth)"
            )
            assert abs(theirs - mine) <= 1


ENDS_LEFT = """one => {
    const words = document.createTreeWalker(one, NodeFilter.SHOW_TEXT), parts = [];
    while (words.nextNode()) if (words.currentNode.data.trim()) parts.push(words.currentNode);
    const left = (at) => {
        const range = document.createRange();
        range.setStart(parts[0], at), range.setEnd(parts[0], at + 1);
        return range.getBoundingClientRect().left;
    };
    const {data} = parts[0], begin = data.search(/[\u0600-\u06ff]/);
    return left(data.lastIndexOf("!")) < left(begin);
}"""
"""Whether what comes last, a mark, is left of what comes first."""


async def test_what_is_written_from_right_to_left_reads_so(desk: Desk) -> None:
    name = "\u0645\u0635\u0628\u0627\u062d (2024)!"
    with desk.client(headers={"authorization": f"Bearer {desk.installation.key}"}) as caller:
        product = {"name": name, "category": name, "price": 1, "description": name}
        number = caller.post("/v1/products", json=product).json()["data"]["id"]
    async with desk.looking(desk.admin) as page:
        for path, parts in {
            "products": ("tbody tr:first-child th a", "tbody tr:first-child .category"),
            f"products/{number}": ("h1", "dd:has-text('!')", ".written"),
            "events": ("tbody tr:first-child .told",),
        }.items():
            await page.goto(path)
            for part in parts:
                assert await page.locator(part).first.evaluate(ENDS_LEFT), (path, part)
        await page.goto("audit?action=product.created")
        label = page.locator("tbody tr:first-child .fact .quiet")
        fact = "label.parentNode.getBoundingClientRect()"
        assert await label.evaluate(f"label => label.getBoundingClientRect().left == {fact}.left")
        await page.goto(f"products/{number}/edit")
        for part in ("#name", "#description"):
            direction = "one => getComputedStyle(one).unicodeBidi"
            assert await page.locator(part).evaluate(direction) == "plaintext"


async def test_a_form_that_one_comes_back_to_has_what_was_typed(desk: Desk) -> None:
    async with desk.looking(desk.person("editor")) as page:
        await page.goto("products/new")
        typed = {"name": "Lamp", "category": "light", "price": "12", "metadata_1_name": "colour"}
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
            await page.locator("#name").fill(name)
            await page.locator("#category").fill("light")
            await page.locator("#price").fill("12")
            await page.get_by_role("button", name="Create").click()
            await expect(page).to_have_title(re.compile(f"^{title}"))
        for _ in range(2):
            await page.go_back()
            await expect(page).to_have_title(re.compile("^New product"))
        await page.go_back()
        await expect(page).to_have_url(re.compile(r"category=light"))


HIDDEN = """() => {
    const has = document.activeElement.getBoundingClientRect();
    const bar = document.querySelector(".bulk").getBoundingClientRect();
    return document.activeElement.closest("table") && has.bottom > bar.top;
}"""
"""Whether the bar of what is chosen hides what has the keyboard."""


@pytest.mark.parametrize("width", [1280, 360])
async def test_what_is_done_with_chosen_products_hides_none_that_the_keyboard_comes_to(
    desk: Desk, width: int
) -> None:
    word = f"w{secrets.token_hex(4)}"
    with desk.client(headers={"authorization": f"Bearer {desk.installation.key}"}) as caller:
        for number in range(12):
            product = {"name": f"{word} {number}", "category": "light", "price": 1}
            assert caller.post("/v1/products", json=product).status_code == 201
    async with desk.looking(desk.person("editor"), size=(width, 640)) as page:
        await page.goto(f"products?search={word}")
        boxes = page.locator("tbody [name=id]")
        await boxes.first.press("Space")
        for _ in range(22):  # boxes and links, to the last row
            await page.keyboard.press("Tab")
            assert not await page.evaluate(HIDDEN)
        await expect(boxes.last).to_be_focused()


async def test_enter_on_a_box_does_nothing_with_products(desk: Desk) -> None:
    with desk.client(headers={"authorization": f"Bearer {desk.installation.key}"}) as caller:
        product = {"name": "Lamp", "category": "light", "price": 1}
        assert caller.post("/v1/products", json=product).status_code == 201
    async with desk.looking(desk.person("editor")) as page:
        await page.goto("products")
        await htmx_there(page)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        for key in ("Enter", "Space", "Enter"):
            await page.locator("tbody [name=id]").first.press(key)
        await page.evaluate("fetch('products?then')")
        assert [url.partition("?")[2] for url in asked] == ["then"]


async def test_what_is_found_while_one_types_is_counted_and_has_its_pages(desk: Desk) -> None:
    word = f"w{secrets.token_hex(4)}"
    with desk.client(headers={"authorization": f"Bearer {desk.installation.key}"}) as caller:
        for number in range(26):
            product = {"name": f"{word} {number}", "category": "light", "price": 1}
            assert caller.post("/v1/products", json=product).status_code == 201
    async with desk.looking(desk.person("viewer")) as page:
        await page.goto("products")
        await htmx_there(page)
        await page.get_by_label("Name or description").press_sequentially(word)
        await expect(page.locator("#count")).to_have_text("26 products, page 1 of 2")
        await page.get_by_role("link", name="Next").click()
        await expect(page.locator("tbody tr")).to_have_count(1)
        await expect(page.locator("#count")).to_have_text("26 products, page 2 of 2")


@pytest.mark.parametrize("path", ["products", "users", "keys/all"])
async def test_a_list_that_is_searched_while_one_types_says_so_and_can_be_cleared(
    desk: Desk, path: str
) -> None:
    async with desk.looking(desk.admin) as page:
        await page.goto(path)
        await htmx_there(page)
        clear = page.get_by_role("link", name="Clear")
        await expect(clear).to_have_count(0)
        name = f"^{re.escape(await page.title())}$"
        for word, count in (("ada", 1), ("", 0), ("nobody has this", 1)):
            await page.locator("#search").fill(word)
            await expect(clear).to_have_count(count)
            await expect(page).to_have_title(re.compile(f": {word} . Portico$" if word else name))
        await clear.click()
        await expect(page).to_have_url(f"{desk.dashboard}/{path}")
        await expect(page.locator("#search")).to_have_value("")


async def test_what_is_typed_before_htmx_is_there_is_looked_for_once_it_is(desk: Desk) -> None:
    word = f"w{secrets.token_hex(4)}"
    with desk.client(headers={"authorization": f"Bearer {desk.installation.key}"}) as caller:
        product = {"name": word, "category": "light", "price": 1}
        assert caller.post("/v1/products", json=product).status_code == 201
    held: asyncio.Future[Route] = asyncio.get_running_loop().create_future()
    async with desk.looking(desk.person("viewer")) as page:
        await page.route("**/*-htmx.js", lambda route: held.set_result(route))
        await page.goto("products")
        script = await held
        await page.get_by_label("Name or description").fill(word)
        await page.evaluate("document.kept = true")
        await script.continue_()
        await expect(page.locator("#count")).to_have_text("1 product")
        assert await page.evaluate("document.kept")  # found without a new page
        await page.unroute_all()


async def test_a_page_has_loaded_before_htmx_is_asked_for(desk: Desk) -> None:
    async with desk.looking(desk.person("viewer")) as page:
        await page.goto("products")
        await htmx_there(page)
        loaded, asked = await page.evaluate(
            """[
                performance.getEntriesByType("navigation")[0].loadEventEnd,
                performance.getEntriesByType("resource")
                    .find(({ name }) => name.endsWith("-htmx.js")).startTime,
            ]"""
        )
        assert asked > loaded


async def test_what_is_refused_behind_a_dialog_is_told(desk: Desk) -> None:
    editor = desk.person("editor")
    with desk.client(headers={"authorization": f"Bearer {desk.installation.key}"}) as api:
        made = api.post("/v1/products", json={"name": "Lamp", "category": "x", "price": 1})
        product = made.json()["data"]["id"]
        async with desk.looking(editor, expected=("status of 404", "Code 404")) as page:
            await page.goto(f"products/{product}")
            await htmx_there(page)
            assert api.delete(f"/v1/products/{product}").status_code == 204
            await page.get_by_role("link", name="Delete").click()
            await expect(page.get_by_text(f"There is no product {product}")).to_be_visible()


async def test_paper_has_nothing_of_what_cannot_be_pressed_there(desk: Desk) -> None:
    editor = desk.person("editor")
    async with desk.looking(editor) as page:
        await page.goto("products/new")
        for name, value in (("name", "Lamp"), ("category", "lighting"), ("price", "24.50")):
            await page.locator(f"#{name}").fill(value)
        await page.get_by_role("button", name="Create product").click()
        await page.emulate_media(media="print")
        await expect(page.get_by_text("24.50 USD")).to_be_visible()
        await expect(page.get_by_text("Makes it active")).to_be_hidden()
        await page.goto("products")
        await expect(page.get_by_role("link", name="Lamp").first).to_be_visible()
        await expect(page.get_by_label("File format")).to_be_hidden()
        await expect(page.get_by_role("checkbox")).to_have_count(0)
        await page.goto("requests")
        swatch = "one => getComputedStyle(one, '::before').printColorAdjust"
        assert await page.locator(".legend li").first.evaluate(swatch) == "exact"


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
