"""The reference in a browser: every language, copying, searching by keyboard."""

import pytest
from playwright.async_api import expect

from browser.looking import PHONE, WIDE, Desk, cut_off, faults, overflow
from operating import in_database

pytestmark = pytest.mark.xdist_group("browser")


@pytest.mark.parametrize(
    "name", ["v1/docs", "sandbox/v1/docs/create_product", "v1/docs/deliveries"]
)
async def test_the_reference_is_sound_at_every_width(desk: Desk, name: str) -> None:
    async with desk.looking() as page:
        await page.goto(f"{desk.origin}/{name}")
        await page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert await faults(page) == []
        assert await cut_off(page) == []
        await page.evaluate("document.documentElement.dataset.theme = 'dark'")
        assert await faults(page, rules=("color-contrast",)) == []


async def test_whoever_is_lost_in_the_reference_finds_what_they_looked_for(desk: Desk) -> None:
    async with desk.looking(expected=("status of 404",)) as page:
        await page.goto(f"{desk.origin}/sandbox/v1/docs/make_product/now")
        await expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
        assert await faults(page) == []
        await page.keyboard.press("Control+k")
        await page.keyboard.type("post products")
        await expect(page.get_by_role("option")).to_have_text("Create a productPOST /products")
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(f"{desk.origin}/sandbox/v1/docs/create_product#main")
        await page.go_back()
        assert await cut_off(page) == []


async def test_one_goes_from_the_dashboard_to_the_reference_and_back_in_one_s_theme(
    desk: Desk,
) -> None:
    reader = desk.person()
    async with desk.looking(reader) as page:
        for theme in ("dark", "system"):
            await page.goto("profile")
            await page.get_by_label("Theme").select_option(theme)
            await page.get_by_role("button", name="Save").first.click()
            await expect(page.get_by_role("status")).to_be_visible()
            await page.goto("sandbox/products")
            await page.get_by_role("link", name="API reference").click()
            await expect(page).to_have_url(f"{desk.origin}/sandbox/v1/docs")
            await expect(page.locator("html")).to_have_attribute("data-theme", theme)
            await page.get_by_role("link", name="Live", exact=True).click()
            await expect(page).to_have_url(f"{desk.origin}/v1/docs")
            await expect(page.locator("html")).to_have_attribute("data-theme", theme)
        await page.get_by_role("link", name="Sandbox", exact=True).click()
        await page.get_by_role("link", name="Dashboard").click()
        await expect(page).to_have_url(f"{desk.dashboard}/sandbox")


COVERED = """() => [...document.querySelectorAll(".copied")].filter((box) => {
    const button = box.querySelector("button").getBoundingClientRect(), words = new Range();
    words.selectNodeContents(box.querySelector("code"));
    return [...words.getClientRects()].some(({left, right, top, bottom}) =>
        left < button.right && right > button.left && top < button.bottom && bottom > button.top);
}).map(one => one.textContent)"""
"""Code that the button to copy it lies on."""


BETWEEN = """document.querySelector(".shown h2").getBoundingClientRect().top
    - document.querySelector(".operation > .told").getBoundingClientRect().bottom"""
"""How far the examples are below what is told."""


async def test_examples_below_what_is_told_stand_apart_from_it(desk: Desk) -> None:
    async with desk.looking(size=PHONE) as page:
        await page.goto(f"{desk.origin}/v1/docs/create_product")
        assert await page.evaluate(BETWEEN) > 20


FAINT = """() => [...document.querySelectorAll("pre, pre *")].filter((one) => {
    const [red, green, blue] = getComputedStyle(one).color.match(/[0-9.]+/g).map(Number);
    return (299 * red + 587 * green + 114 * blue) / 1000 > 128;
}).map(one => one.outerHTML)"""
"""Code that is lighter than half of white."""


async def test_no_code_in_a_sentence_breaks_at_its_hyphens(desk: Desk) -> None:
    async with desk.looking() as page:
        await page.goto("/v1/docs")
        pieces = "one => one.getClientRects().length"
        codes = await page.locator(".guide p code").all()
        assert {await code.evaluate(pieces) for code in codes} == {1}


async def test_code_is_dark_on_paper_which_has_no_ground(desk: Desk) -> None:
    async with desk.looking(dark=True) as page:
        await page.goto(f"{desk.origin}/v1/docs/create_product")
        await expect(page.locator(".copy").first).to_be_visible()
        await page.evaluate("document.documentElement.dataset.theme = 'dark'")
        assert await page.evaluate(FAINT) != []
        await page.emulate_media(media="print")
        assert await page.evaluate(FAINT) == []
        for kind in (".copy", ".try", ".side"):
            await expect(page.locator(kind).first).to_be_hidden()


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
async def test_no_button_covers_the_code_that_it_copies(desk: Desk, size: tuple[int, int]) -> None:
    async with desk.looking(size=size) as page:
        await page.goto(f"{desk.origin}/v1/docs")
        await expect(page.locator(".copy").first).to_be_visible()
        assert await page.evaluate(COVERED) == []


async def test_what_is_searched_is_found_and_copied_by_keyboard_alone(desk: Desk) -> None:
    async with desk.looking() as page:
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await page.goto(f"{desk.origin}/v1/docs")
        await page.keyboard.type("/k")  # whoever speaks presses letters that they do not mean
        await expect(page.get_by_label("Search the reference")).not_to_be_focused()
        await page.keyboard.press("Control+k")
        await page.keyboard.type("post products")
        await expect(page.get_by_role("option")).to_have_text("Create a productPOST /products")
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(f"{desk.origin}/v1/docs/create_product#main")
        await expect(page.get_by_role("heading", name="Create a product")).to_be_in_viewport()
        await expect(page.locator("#found")).to_be_hidden()
        await expect(page.locator("main")).to_be_focused()
        await page.keyboard.press("Tab")
        await page.keyboard.press("Tab")
        await page.keyboard.press("ArrowRight")
        await expect(page.get_by_role("tab", name="Python")).to_be_focused()
        await page.keyboard.press("Tab")
        await expect(page.locator(".python pre")).to_be_focused()
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await expect(page.locator(".python .copy")).to_have_text("Copied")
        await expect(page.get_by_role("status")).to_have_text("Copied")
        copied = await page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith("from decimal import Decimal\nfrom portico_client import Client")
        assert copied.endswith("print(product.id)")
        # The language holds everywhere, and at the next visit.
        await page.goto(f"{desk.origin}/sandbox/v1/docs/delete_user")
        await expect(page.locator(".python pre")).to_be_visible()
        await expect(page.locator(".curl pre")).to_be_hidden()
        # From every page all of the reference is found.
        await page.keyboard.press("Control+k")
        await page.keyboard.type("412")
        await expect(page.get_by_role("option")).to_have_count(1)
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("ArrowUp")
        await page.keyboard.press("Enter")
        await expect(page.locator("tr", has_text="PRECONDITION_FAILED")).to_be_focused()
        await expect(page).to_have_url(f"{desk.origin}/sandbox/v1/docs#412-PRECONDITION_FAILED")
        await page.keyboard.press("Control+k")
        await page.keyboard.type("nobody has this")
        await expect(page.get_by_role("option")).to_have_text("Nothing found")
        await page.keyboard.press("Enter")
        await page.keyboard.press("Escape")
        await expect(page.get_by_label("Search the reference")).to_have_value("")
        await page.keyboard.type("rate limits")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Rate limits")).to_be_in_viewport()


async def test_what_one_has_chosen_is_unknown_to_whoever_looks_next(desk: Desk) -> None:
    for _ in range(2):
        async with desk.looking() as page:
            await page.goto(f"{desk.origin}/v1/docs/create_product")
            await expect(page.locator(".curl pre")).to_be_visible()
            await page.get_by_role("tab", name="Python").click()
            await expect(page.locator(".curl pre")).to_be_hidden()


async def test_an_address_from_when_all_was_on_one_page_leads_on(desk: Desk) -> None:
    async with desk.looking() as page:
        await page.goto(f"{desk.origin}/v1/docs#create_product")
        await expect(page).to_have_url(f"{desk.origin}/v1/docs/create_product")
        await page.goto(f"{desk.origin}/v1/docs#products")
        await expect(page.get_by_role("heading", name="Products")).to_be_in_viewport()
        await page.evaluate("location.hash = 'deliveries'")
        await expect(page).to_have_url(f"{desk.origin}/v1/docs/deliveries")
    async with desk.looking(script=False) as page:
        await page.goto(f"{desk.origin}/v1/docs#create_product")
        line = page.get_by_role("link", name="Create a product").last
        await expect(line).to_be_in_viewport()
        await line.click()
        await expect(page).to_have_url(f"{desk.origin}/v1/docs/create_product")


async def test_every_language_can_be_read_without_javascript(desk: Desk) -> None:
    async with desk.looking(script=False, size=PHONE) as page:
        await page.goto(f"{desk.origin}/v1/docs/create_product")
        for language in ("curl", "python", "typescript"):
            example = page.locator(f".{language} pre")
            await expect(example).to_be_visible()
            await expect(example).to_have_attribute("tabindex", "0")
        await expect(page.get_by_label("Search the reference")).to_be_hidden()
        assert await overflow(page) <= 0


async def test_an_operation_is_tried_without_leaving_the_reference(desk: Desk) -> None:
    editor, viewer = desk.person("editor"), desk.person()
    asked: list[tuple[str, str]] = []
    async with desk.looking(editor) as page:
        page.on("request", lambda one: asked.append((one.method, one.url)))
        await page.goto(f"{desk.origin}/v1/docs/create_product")
        create = page.locator("main")
        await create.get_by_role("link", name="Try it in the sandbox").press("Enter")
        await create.get_by_label("Body").fill('{"name": "Lamp", "category": "a", "price":')
        await create.get_by_role("button", name="Send to the sandbox").press("Enter")
        came = create.locator(".came")
        await expect(came.locator(".outcome")).to_have_text("400 Bad Request")
        await expect(came.locator(".outcome")).to_be_focused()
        await expect(came.locator(".notice")).to_have_text("The body is not valid JSON.")
        body = create.get_by_label("Body")
        await expect(body).to_have_value('{"name": "Lamp", "category": "a", "price":')
        await body.fill('{"name": "Lamp", "category": "a", "price": 2}')
        await body.press("Tab")
        await page.keyboard.press("Enter")
        await expect(came.locator(".outcome")).to_have_text("201 Created")
        await expect(came).to_contain_text(f"{desk.origin}/sandbox/v1/products/")
        await expect(came.locator("pre")).to_contain_text('"price": 2')
        assert await faults(page) == []
        assert await overflow(page) <= 0
        await page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
        assert await overflow(page) <= 0
    trying = f"{desk.dashboard}/sandbox/try"
    sent = [(method, url) for method, url in asked if "/docs" not in url and "/static/" not in url]
    assert sent == [("GET", f"{trying}?operation=create_product"), *[("POST", trying)] * 2]
    with desk.client(headers={"authorization": f"Bearer {desk.installation.key}"}) as caller:
        assert caller.get("/v1/products?search=Lamp&category=a").json()["data"] == []
    async with desk.looking(viewer, expected=("status of 403",)) as page:
        await page.goto(f"{desk.origin}/v1/docs/delete_product")
        delete = page.locator("main")
        await delete.get_by_role("link", name="Try it in the sandbox").click()
        await delete.get_by_role("button", name="Send to the sandbox").click()
        await expect(delete.locator(".outcome")).to_have_text("403 Forbidden")
        await expect(delete.locator(".came .notice")).to_contain_text("write:products")
        # A session that ends meanwhile says so, and what was typed stays.
        await page.context.clear_cookies()
        await delete.get_by_label("id").fill("5")
        await delete.get_by_role("button", name="Send to the sandbox").click()
        await expect(
            delete.get_by_text("no longer signed in, and nothing was sent")
        ).to_be_visible()
        await expect(delete.get_by_label("id")).to_have_value("5")


async def test_whoever_has_to_prove_who_they_are_does_so_in_the_reference_too(desk: Desk) -> None:
    person = desk.person()
    async with desk.looking(person, expected=("status of 409", "status of 422")) as page:
        stale = "UPDATE sessions SET proved_at = 0 WHERE user_id = ?"
        in_database(desk.installation.data / "live.db", stale, person.id)
        await page.goto(f"{desk.origin}/v1/docs/create_api_key")
        main = page.locator("main")
        await main.get_by_role("link", name="Try it in the sandbox").click()
        body = main.get_by_label("Body")
        await body.fill('{"name": "Till", "type": "test"}')
        send = main.get_by_role("button", name="Send to the sandbox")
        await send.click()
        password = main.get_by_label("Your password")
        await expect(main.get_by_role("heading", name="Confirm that it is you")).to_be_visible()
        await expect(password).to_be_focused()
        assert await faults(page) == []
        assert await overflow(page) <= 0
        await main.get_by_role("button", name="Cancel").click()
        await expect(main.get_by_text("You cancelled, so nothing was changed.")).to_be_visible()
        await expect(body).to_have_value('{"name": "Till", "type": "test"}')
        await send.click()
        await password.fill("Wrong-password1")
        await page.keyboard.press("Enter")
        await expect(main.get_by_text("This is not the current password.")).to_be_visible()
        await password.fill(person.password)
        await page.keyboard.press("Enter")
        await expect(main.locator(".outcome")).to_have_text("201 Created")
        await expect(main.locator(".came")).to_contain_text("sk_test_")


async def test_an_operation_is_tried_without_javascript(desk: Desk) -> None:
    editor = desk.person("editor")
    async with desk.looking(script=False, size=PHONE) as page:
        await page.goto(f"{desk.origin}/sandbox/v1/docs/create_product")
        create = page.locator("main")
        await create.get_by_role("link", name="Try it in the sandbox").click()
        await page.get_by_role("link", name="Sign in").click()
        await page.get_by_label("E-mail").fill(editor.email)
        await page.get_by_label("Password").fill(editor.password)
        await page.get_by_role("button", name="Sign in", exact=True).click()
        await page.get_by_role("button", name="Send to the sandbox").click()
        await expect(page.get_by_text("201 Created")).to_be_visible()
        await expect(page.get_by_text('"Desk lamp"').last).to_be_visible()
        assert await overflow(page) <= 0
        await page.get_by_role("link", name="Reference").click()
        await expect(page).to_have_url(f"{desk.origin}/sandbox/v1/docs/create_product")
