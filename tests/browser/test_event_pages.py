"""Events in the dashboard: filtered, walked, looked into."""

from datetime import datetime, timedelta

import pytest
from playwright.async_api import expect

from browser.looking import PHONE, Desk, overflow

pytestmark = pytest.mark.xdist_group("browser")


async def test_events_are_filtered_and_walked(desk: Desk) -> None:
    with desk.client(headers={"authorization": f"Bearer {desk.installation.key}"}) as client:
        for number in range(16):
            body = {"name": f"Lamp {number}", "category": "light", "price": 1}
            assert client.post("/v1/products", json=body).status_code == 201
    person = desk.person(name="Hedy Lamarr")
    async with desk.looking(person) as page:
        await page.goto("events")
        rows = page.locator("tbody tr")
        await expect(rows.first).to_contain_text("Hedy Lamarr")
        await page.get_by_label("Type").select_option("product.created")
        await expect(rows.first).to_contain_text("Lamp 15")
        await expect(page).to_have_url(f"{desk.dashboard}/events?type=product.created")
        await page.get_by_role("link", name="Older").click()
        await expect(rows.first).to_contain_text("Lamp 0")
        await expect(page.get_by_label("Type")).to_have_value("product.created")
        await page.get_by_role("link", name="Newer").click()
        await expect(rows.first).to_contain_text("Lamp 15")


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
