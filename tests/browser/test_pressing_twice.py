"""Buttons that are pressed twice send their form once, and none that nobody can have read."""

import pytest
from playwright.async_api import Page, Route

from browser.looking import AT_REST, Desk, Person

pytestmark = pytest.mark.xdist_group("browser")

FIVE_SECONDS = """
const due = (window.due = []), timer = window.setTimeout;
window.setTimeout = (work, wait) => (wait === 5000 ? due.push(work) : timer(work, wait));
"""
"""Has what waits for five seconds wait until it is called; a clock of Playwright's stays in the
context, which other tests use."""


@pytest.fixture(scope="module")
def hasty(desk: Desk) -> Person:
    return desk.person("editor", name="Hedy Lamarr")


async def sent_from(page: Page) -> list[str]:
    """What is sent from now on. Nothing takes it, so that the page stays where it is."""
    sent: list[str] = []

    async def leave(route: Route) -> None:
        if route.request.method != "POST":
            return await route.continue_()
        sent.append(route.request.post_data or "")
        return await route.fulfill(status=204)

    await page.route("**/dashboard/**", leave)
    return sent


async def press(page: Page, button: str) -> None:
    """Presses a button, and returns once what it may send was sent."""
    await page.get_by_role("button", name=button, exact=True).last.click()
    await page.evaluate("fetch(location.pathname, {method: 'POST', body: 'then'})")


async def test_a_button_that_is_pressed_twice_sends_its_form_once(desk: Desk) -> None:
    async with desk.looking() as page:
        await page.goto("sign-in")
        sent = await sent_from(page)
        for _ in range(3):
            await press(page, "Sign in")
        assert [text == "then" for text in sent] == [False, True, True, True]


async def test_another_button_sends_its_form_and_after_five_seconds_the_same_one_too(
    desk: Desk, hasty: Person
) -> None:
    async with desk.looking(hasty) as page:
        await page.add_init_script(FIVE_SECONDS)
        await page.goto("products/new")
        sent = await sent_from(page)
        for button in ("Add a row", "Create product", "Create product"):
            await press(page, button)
        assert ["add=f-" in text for text in sent if text != "then"] == [True, False]
        await page.evaluate("due.forEach((work) => work())")
        await press(page, "Create product")
        assert len([text for text in sent if text != "then"]) == 3


async def test_a_click_as_the_mouse_comes_to_a_page_sends_nothing(
    desk: Desk, hasty: Person
) -> None:
    """It may be the second of a double click, the first of which closed a window above."""
    async with desk.looking(hasty, hasty=True) as page:
        await page.goto("devices/end-others")
        sent = await sent_from(page)
        button = "Sign out everywhere else"
        await press(page, button)
        assert sent == ["then"]
        for again in ("focus", "pageshow"):
            await page.evaluate(AT_REST)
            await page.evaluate(f"dispatchEvent(new Event('{again}'))")
            await press(page, button)
        assert sent == ["then"] * 3
        await page.evaluate("dispatchEvent(new Event('focus'))")
        await page.evaluate(AT_REST)
        await press(page, button)
        assert [text == "then" for text in sent] == [True, True, True, False, True]


@pytest.mark.parametrize("key", ["Enter", "Space"])
async def test_the_keyboard_sends_at_once(desk: Desk, hasty: Person, key: str) -> None:
    async with desk.looking(hasty, hasty=True) as page:
        await page.goto("devices/end-others")
        sent = await sent_from(page)
        await press(page, "Sign out everywhere else")
        await page.get_by_role("button", name="Sign out everywhere else").press(key)
        await page.evaluate("fetch(location.pathname, {method: 'POST', body: 'then'})")
        assert [text == "then" for text in sent] == [True, False, True]


async def test_a_finger_sends_at_once(desk: Desk) -> None:
    context = await desk.browser.new_context(has_touch=True)
    page = await context.new_page()
    await page.goto(f"{desk.dashboard}/sign-in")
    async with page.expect_request(lambda request: request.method == "POST"):
        await page.get_by_role("button", name="Sign in", exact=True).tap()
    await context.close()
