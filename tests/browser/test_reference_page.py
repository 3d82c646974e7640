"""The reference in a browser: every language, copying, searching by keyboard."""

import pytest
from playwright.async_api import Locator, Page, Request, expect

from browser.looking import PHONE, Desk, cut_off, faults, overflow

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


async def test_what_is_searched_is_found_and_copied_by_keyboard_alone(desk: Desk) -> None:
    async with desk.looking() as page:
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await page.goto(f"{desk.origin}/v1/docs")
        await page.keyboard.type("/k")  # whoever speaks presses letters that they do not mean
        await expect(page.get_by_label("Search the reference")).not_to_be_focused()
        await page.keyboard.press("Control+k")
        await page.keyboard.type("post products")
        await expect(page.get_by_role("option").first).to_have_text(
            "Create a productPOST /products"
        )
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


async def test_every_language_can_be_read_without_javascript(desk: Desk) -> None:
    async with desk.looking(script=False, size=PHONE) as page:
        await page.goto(f"{desk.origin}/v1/docs/create_product")
        for language in ("curl", "python", "typescript"):
            example = page.locator(f".{language} pre")
            await expect(example).to_be_visible()
            await expect(example).to_have_attribute("tabindex", "0")
        await expect(page.get_by_label("Search the reference")).to_be_hidden()
        assert await overflow(page) <= 0


def key_of(desk: Desk) -> str:
    """The administrator's test key."""
    return str(desk.installation.facts["keys"]["test"])


async def opened(page: Page, desk: Desk, operation: str, of: str = "v1") -> Locator:
    """The form of an operation, on a page of the reference."""
    await page.goto(f"{desk.origin}/{of}/docs/{operation}")
    await page.get_by_text("Try it in the sandbox").press("Enter")
    return page.locator(".trying")


async def outcome(form: Locator, words: str) -> None:
    """Sends the form by keyboard, and sees what comes."""
    await form.get_by_role("button", name="Send to the sandbox").press("Enter")
    await expect(form.locator(".outcome")).to_have_text(words)
    await expect(form.locator(".outcome")).to_be_focused()


async def test_try_sends_a_pasted_key_to_the_sandbox_and_nowhere_else(desk: Desk) -> None:
    sent: list[Request] = []
    expected = ("status of 400", "status of 422")
    async with desk.looking(desk.person("admin"), expected=expected) as page:
        form = await opened(page, desk, "create_product")
        page.on("request", lambda one: sent.append(one))
        await form.get_by_label("Test key").fill(key_of(desk))
        body = form.get_by_label("Body")
        for typed, status in (
            ('{"name": "Lamp", "category": "a", "price":', "400 Bad Request"),
            ('{"name": "Lamp", "category": "a", "price": -1}', "422 Unprocessable Entity"),
            ('{"name": "Lamp", "category": "a", "price": 2.50}', "201 Created"),
        ):
            await body.fill(typed)
            await outcome(form, status)
            await expect(body).to_have_value(typed)
            await expect(form.locator(".came")).to_have_count(1)
        await expect(form.locator(".headers")).to_contain_text(
            f"location{desk.origin}/sandbox/v1/products/"
        )
        await expect(form.locator(".came pre")).to_contain_text('\n    "name": "Lamp",\n')
        assert {one.url for one in sent} == {f"{desk.origin}/sandbox/v1/products"}
        for one in sent:
            headers = await one.all_headers()
            assert headers["authorization"] == f"Bearer {key_of(desk)}"
            assert "cookie" not in headers
        for theme in ("light", "dark"):
            await page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
            assert await faults(page) == []
        assert await cut_off(page) == []
    with desk.client(headers={"authorization": f"Bearer {desk.installation.key}"}) as caller:
        assert caller.get("/v1/products?search=Lamp&category=a").json()["data"] == []


async def test_try_keeps_no_key_once_its_page_is_left(desk: Desk) -> None:
    async with desk.looking() as page:
        form = await opened(page, desk, "read_me")
        await form.get_by_label("Test key").fill(key_of(desk))
        await outcome(form, "200 OK")
        # As where the browser keeps the page in memory to go back to it, which this one does not.
        await page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide', {persisted: true}))")
        await expect(form.get_by_label("Test key")).to_have_value("")
        await form.get_by_label("Test key").fill(key_of(desk))
        await page.reload()
        await expect(page.locator("#try-bearer")).to_have_value("")
        kept = await page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
        assert "sk_" not in kept


async def test_try_reaches_nothing_of_live_with_the_session_of_the_dashboard(desk: Desk) -> None:
    expected = ("status of 401",)
    async with desk.looking(desk.person("admin"), expected=expected) as page:
        form = await opened(page, desk, "read_me")
        await outcome(form, "401 Unauthorized")
        form = await opened(page, desk, "redeliver")
        sent: list[Request] = []
        page.on("request", lambda one: sent.append(one))
        for name in ("id", "delivery_id"):
            await form.get_by_label(f"{name} required", exact=True).fill("..")
        await form.get_by_role("button", name="Send to the sandbox").press("Enter")
        await expect(form.get_by_role("alert")).to_contain_text("must not be")
        assert sent == []
