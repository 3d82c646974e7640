"""Buttons that are pressed twice send their form once, and none that nobody can have read."""

import pytest
from playwright.async_api import Page, Route, expect

from browser.looking import AT_REST, PHONE, WIDE, Desk, Person

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


@pytest.mark.parametrize(("path", "button"), [("sign-in", "Sign in"), ("keys", "Create key")])
async def test_a_button_that_is_pressed_twice_sends_its_form_once(
    desk: Desk, hasty: Person, path: str, button: str
) -> None:
    async with desk.looking(None if path == "sign-in" else hasty) as page:
        await page.goto(path)
        sent = await sent_from(page)
        for _ in range(3):
            await press(page, button)
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
        assert ["add=metadata" in text for text in sent if text != "then"] == [True, False]
        await page.evaluate("due.forEach((work) => work())")
        await press(page, "Create product")
        assert len([text for text in sent if text != "then"]) == 3


@pytest.mark.parametrize("path", ["devices/end-others", "sign-in"])
async def test_a_click_as_the_mouse_comes_to_a_page_sends_nothing(
    desk: Desk, hasty: Person, path: str
) -> None:
    """It may be the second of a double click, the first of which closed a window above."""
    async with desk.looking(None if path == "sign-in" else hasty, hasty=True) as page:
        await page.goto(path)
        sent = await sent_from(page)
        button = "Sign in" if path == "sign-in" else "Sign out everywhere else"
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


async def test_a_form_that_was_typed_into_is_sent_at_once(desk: Desk) -> None:
    async with desk.looking(None, hasty=True) as page:
        await page.goto("sign-in")
        sent = await sent_from(page)
        await page.get_by_label("E-mail").fill("ada@example.com")
        await press(page, "Sign in")
        assert [text == "then" for text in sent] == [False, True]


async def test_a_press_is_judged_by_when_it_began(desk: Desk, hasty: Person) -> None:
    async with desk.looking(hasty, hasty=True) as page:
        await page.goto("devices/end-others")
        sent = await sent_from(page)
        await page.get_by_role("button", name="Sign out everywhere else").hover()
        await page.mouse.down()
        await page.evaluate("dispatchEvent(new Event('focus'))")
        await page.evaluate(AT_REST)
        await page.mouse.up()
        await page.evaluate("fetch(location.pathname, {method: 'POST', body: 'then'})")
        assert sent == ["then"]


async def rest_and_press(page: Page) -> None:
    """Presses the button on which the mouse lies as its page comes."""
    await page.goto("devices/end-others")
    await page.get_by_role("button", name="Sign out everywhere else").hover()
    await page.reload()
    await page.mouse.down()
    await page.mouse.up()


async def test_a_mouse_that_rests_on_a_button_as_its_page_is_shown_sends_at_once(
    desk: Desk, hasty: Person
) -> None:
    async with desk.looking(hasty) as page:
        await sent_from(page)
        async with page.expect_request(lambda request: request.method == "POST"):
            await rest_and_press(page)


async def test_where_the_page_may_lie_behind_a_window_a_mouse_that_rests_there_sends_nothing(
    desk: Desk, hasty: Person
) -> None:
    async with desk.looking(hasty) as page:
        await page.add_init_script("document.hasFocus = () => false")
        sent = await sent_from(page)
        await rest_and_press(page)
        await page.evaluate("fetch(location.pathname, {method: 'POST', body: 'then'})")
        assert sent == ["then"]


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


BESIDE = """([x, y]) => {
    const found = document.elementFromPoint(x, y).closest("a, button");
    return found && found.textContent.trim();
}"""
"""What a click at this place would press."""


async def at(page: Page, button: str) -> tuple[float, float]:
    """A place at the end of a button."""
    box = await page.get_by_role("button", name=button).bounding_box()
    assert box
    return box["x"] + box["width"] - 4, box["y"] + box["height"] / 2


@pytest.mark.parametrize("size", [WIDE, (1030, 500), PHONE])
async def test_local_times_pressed_twice_does_not_sign_out(
    desk: Desk, hasty: Person, size: tuple[int, int]
) -> None:
    async with desk.looking(hasty, size=size) as page:
        await page.goto("keys")
        if size == PHONE:
            await page.locator("summary", has_text="Menu").click()
        place = await at(page, "Local times")
        for _ in range(3):
            await page.mouse.click(*place)
            assert await at(page, "Local times") == place
            assert await page.evaluate(BESIDE, place) == "Local times"


async def test_a_copy_button_pressed_twice_does_not_leave_the_key(
    desk: Desk, hasty: Person
) -> None:
    async with desk.looking(hasty) as page:
        await page.context.grant_permissions(["clipboard-write"])
        await page.goto("keys")
        await page.get_by_label("Name").fill("Till")
        await page.get_by_role("button", name="Create key").click()
        place = await at(page, "Copy command")
        await page.mouse.click(*place)
        await expect(page.get_by_role("button", name="Copied")).to_be_visible()
        assert await page.evaluate(BESIDE, place) == "Copied"


async def test_a_message_about_the_server_moves_no_control(desk: Desk, hasty: Person) -> None:
    async with desk.looking(hasty) as page:
        await page.goto("keys")
        place = await at(page, "Create key")
        await page.evaluate("document.getElementById('unreached').hidden = false")
        await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
        assert await at(page, "Create key") == place
