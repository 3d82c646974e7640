"""Events in the dashboard: filtered, walked, looked into."""

import re
from datetime import datetime, timedelta

import pytest
from playwright.async_api import expect

from browser.looking import PHONE, Desk, faults, overflow

pytestmark = pytest.mark.xdist_group("browser")


@pytest.mark.parametrize("script", [True, False])
async def test_events_are_filtered_and_walked(desk: Desk, *, script: bool) -> None:
    with desk.client(headers={"authorization": f"Bearer {desk.installation.key}"}) as client:
        for number in range(16):
            body = {"name": f"Lamp {number}", "category": "light", "price": 1}
            assert client.post("/v1/products", json=body).status_code == 201
    person = desk.person(name="Hedy Lamarr")
    async with desk.looking(person, script=script) as page:
        await page.goto("events")
        rows = page.locator("tbody tr")
        await expect(rows.first).to_contain_text("Hedy Lamarr")
        await page.get_by_label("Type").select_option("product.created")
        if not script:
            await page.get_by_role("button", name="Filter").click()
        await expect(rows.first).to_contain_text("Lamp 15")
        await expect(page).to_have_url(f"{desk.dashboard}/events?type=product.created")
        await page.get_by_role("link", name="Older").click()
        await expect(rows.first).to_contain_text("Lamp 0")
        await expect(page.get_by_label("Type")).to_have_value("product.created")
        await page.get_by_role("link", name="Newer").click()
        await expect(rows.first).to_contain_text("Lamp 15")


async def test_what_an_event_tells_is_a_key_press_away_on_a_phone_too(desk: Desk) -> None:
    with desk.client(headers={"authorization": f"Bearer {desk.installation.key}"}) as client:
        body = {"name": "W" * 200, "category": "light", "price": 2, "description": "Long. " * 400}
        product = client.post("/v1/products", json=body).json()["data"]
        client.patch(f"/v1/products/{product['id']}", json={"price": 3})
    async with desk.looking(desk.admin, size=PHONE) as page:
        await page.goto("events?type=product.updated")
        row = page.locator("tbody tr").first
        await row.locator("summary").focus()
        await page.keyboard.press("Enter")
        await expect(row.locator("pre").first).to_contain_text('"price": 3')
        await expect(row.locator("pre").last).to_have_text('{\n  "price": 2\n}')
        assert await overflow(page) <= 0
        assert await faults(page) == []
        await page.goto(".")
        await expect(page.locator(".lines li").first).to_contain_text("Product updated")
        assert await overflow(page) <= 0


@pytest.mark.parametrize(("zone", "ahead"), [("Asia/Kolkata", 330), ("America/Phoenix", -420)])
async def test_a_time_in_utc_says_what_the_clock_is_here(desk: Desk, zone: str, ahead: int) -> None:
    desk.person()
    async with desk.looking(desk.admin) as page:
        browser = await page.context.new_cdp_session(page)
        await browser.send("Emulation.setTimezoneOverride", {"timezoneId": zone})
        await page.goto("events")
        time = page.locator("td time").first
        await expect(time).to_have_text(re.compile(r" UTC$"))
        for _ in range(2):
            await time.hover()
            await page.get_by_role("heading", level=1).hover()
        utc, _, here = (await time.get_attribute("title") or "").partition("; here ")
        assert here == shown(utc, ahead)


def shown(utc: str, ahead: int) -> str:
    """How a page writes a time where the clock is so many minutes ahead."""
    then = datetime.fromisoformat(utc.removesuffix(" UTC")) + timedelta(minutes=ahead)
    hours, minutes = divmod(abs(ahead), 60)
    zone = f"GMT{'+' if ahead > 0 else '-'}{hours}{f':{minutes}' if minutes else ''}"
    month = f"{then:%b}".replace("Sep", "Sept")  # as British English has it
    return f"{then.day} {month} {then:%Y, %H:%M:%S} {zone}"


async def test_times_are_those_of_the_clock_here_for_whoever_asks_by_keyboard_or_touch(
    desk: Desk,
) -> None:
    desk.person()
    async with desk.looking(desk.admin, size=PHONE) as page:
        browser = await page.context.new_cdp_session(page)
        await browser.send("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Kolkata"})
        await page.goto("events?type=user.created")
        time, button = (
            page.locator("td time").first,
            page.get_by_role("button", name="Local times"),
        )
        at = datetime.fromisoformat(await time.get_attribute("datetime") or "")
        utc, here = await time.inner_text(), shown(f"{at:%Y-%m-%d %H:%M:%S}", 330)
        await page.locator("summary", has_text="Menu").press("Enter")
        await button.press("Enter")
        await expect(button).to_have_attribute("aria-pressed", "true")
        await expect(time).to_have_text(here)
        await page.goto("events")
        await page.get_by_label("Type").select_option("user.created")
        await expect(page).to_have_url(re.compile("type=user.created"))
        await expect(time).to_have_text(here)
        assert await overflow(page) <= 0
        await page.locator("summary", has_text="Menu").press("Enter")
        await button.press("Enter")
        await expect(time).to_have_text(utc)
        await page.reload()
        await expect(time).to_have_text(utc)


async def test_a_local_time_is_as_exact_as_it_was_in_utc(desk: Desk) -> None:
    """Seconds and zones that were not there before would make rows jump and take room."""
    desk.person()
    async with desk.looking(desk.admin) as page:
        browser = await page.context.new_cdp_session(page)
        await browser.send("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Kolkata"})
        await page.goto(".")
        ago = page.locator(".lines time").first
        words = await ago.inner_text()
        await page.get_by_role("button", name="Local times").click()
        signed_in = page.locator(".facts time")
        await expect(signed_in).to_have_text(re.compile(r"^\d+ \w+ \d{4}, \d\d:\d\d GMT\+5:30$"))
        await expect(ago).to_have_text(words)
        assert await ago.get_attribute("data-told") is None
        await page.goto("keys")
        for created in await page.locator("[data-label=Created] time").all():
            await expect(created).to_have_text(re.compile(r"^\d+ \w+ \d{4}$"))
