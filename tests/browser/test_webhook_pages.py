"""Webhooks in the dashboard: made, tried against a receiver, changed, disabled, deleted."""

import pytest
from playwright.async_api import Page, expect

from browser.looking import Desk, Person
from receiving import Receiver, receiving

pytestmark = pytest.mark.xdist_group("browser")

ANSWER = b"<b>stored</b> <script>alert(1)</script>"
ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: %d\r\n\r\n%s" % (len(ANSWER), ANSWER)


@pytest.fixture(scope="module")
def boss(desk: Desk) -> Person:
    return desk.person("admin", name="Barbara Liskov")


async def confirm(page: Page, link: str, button: str) -> None:
    """Follows a link that asks, and says yes."""
    await page.get_by_role("link", name=link, exact=True).click()
    await page.get_by_role("button", name=button).click()


async def newest(page: Page, words: str) -> None:
    """Looks again until the newest delivery says so."""
    row = page.locator("tbody tr").first
    for _ in range(50):
        if await row.count() and words in await row.inner_text():
            return
        await page.reload()
    await expect(row).to_contain_text(words)


async def test_a_webhook_is_made_tried_and_deleted(desk: Desk, boss: Person) -> None:
    expected = ("status of 422",)
    async with (
        receiving(Receiver(ACCEPTED)) as receiver,
        desk.looking(boss, expected=expected) as page,
    ):
        await page.goto("sandbox")
        await page.get_by_role("link", name="Webhooks").click()
        await page.get_by_role("link", name="New webhook").first.click()
        await page.get_by_label("URL").fill("https://10.0.0.1/in")
        await page.get_by_label("Description").fill("The shop's cache")
        await page.get_by_role("button", name="Create webhook").click()
        await expect(page.get_by_label("URL")).to_be_focused()
        await expect(page.get_by_text("Must have at least one.")).to_be_visible()
        await expect(page.get_by_label("Description")).to_have_value("The shop's cache")
        await page.get_by_label("URL").fill(f"http://127.0.0.1:{receiver.port}/in")
        await page.get_by_label("All (product.*)").check()
        await page.get_by_role("button", name="Create webhook").click()
        secret = await page.locator("#secret").inner_text()
        assert secret.startswith("whsec_")
        await page.get_by_role("link", name="I have saved it").click()
        assert secret not in await page.content()
        await page.get_by_role("button", name="Send test event").click()
        await expect(page.get_by_role("status")).to_contain_text("A test event was sent.")
        await newest(page, "Delivered")
        row = page.locator("tbody tr").first
        await row.get_by_role("link").click()
        await expect(page.locator("pre")).to_have_text(ANSWER.decode())
        await page.get_by_role("button", name="Send again").click()
        await expect(page.get_by_role("status")).to_contain_text("The event was sent again.")
        await expect(page.locator("tbody tr")).to_have_count(2)
        await newest(page, "It answered 202")
        first, second = await receiver.got(2)
        assert first.headers["webhook-id"] == second.headers["webhook-id"]
        await page.get_by_role("link", name="Edit").click()
        await page.get_by_label("sandbox.reset").check()
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("status")).to_have_text("The webhook was changed.")
        await expect(page.get_by_role("main")).to_contain_text("product.* sandbox.reset")
        await confirm(page, "Disable", "Disable webhook")
        await expect(page.get_by_text("disabled by hand")).to_be_visible()
        await confirm(page, "Enable", "Enable webhook")
        await expect(page.get_by_role("status")).to_contain_text("The webhook is enabled")
        await confirm(page, "Create new secret", "Create new secret")
        assert await page.locator("#secret").inner_text() != secret
        await page.get_by_role("link", name="I have saved it").click()
        await confirm(page, "Delete webhook", "Delete webhook")
        await expect(page.get_by_role("status")).to_contain_text("The webhook was deleted.")
        await expect(page.get_by_text("No webhooks yet")).to_be_visible()
