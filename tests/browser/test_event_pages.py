"""Events in the dashboard: filtered, walked, looked into."""

from datetime import datetime, timedelta

import pytest
from playwright.async_api import expect

from browser.looking import PHONE, Desk, overflow

pytestmark = pytest.mark.xdist_group("browser")


async def test_times_are_those_of_the_clock_here_for_whoever_asks(desk: Desk) -> None:
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
        utc, here = await time.inner_text(), f"{at + timedelta(minutes=330):%H:%M:%S} GMT+5:30"
        await page.locator("summary", has_text="Menu").press("Enter")
        await button.press("Enter")
        await expect(button).to_have_attribute("aria-pressed", "true")
        await expect(time).to_contain_text(here)
        await page.goto("events")
        await expect(time).to_contain_text("GMT+5:30")
        assert await overflow(page) <= 0
        await page.locator("summary", has_text="Menu").press("Enter")
        await button.press("Enter")
        await page.goto("events?type=user.created")
        await expect(time).to_have_text(utc)
