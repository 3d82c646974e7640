"""The pages of kinds that files declare, as people see and use them."""

from typing import Any

import pytest
from playwright.async_api import expect

from browser.looking import PHONE, Desk, cut_off, faults

pytestmark = pytest.mark.xdist_group("browser")

FULL = {
    "name": "A lamp whose name is as long as names of things can be"[:40],
    "rank": 10**9, "price": 1234567.5, "colour": 'deep "blue"', "day": "2026-03-05",
    "at": "2026-03-05T08:15:30Z", "contact": f"{'a' * 60}@example.com",
    "site": f"https://example.com/{'b' * 300}", "labels": {"n" * 100: "v" * 1_000},
    "lines": [{"sku": "a", "price": 1.5, "day": "2026-03-05"}, {"sku": "b" * 20, "price": 2}],
    "essay": "An essay. " * 200,
}  # fmt: skip
"""A thing with a value of every sort."""


@pytest.fixture(scope="module")
def kinds(desk: Desk) -> Desk:
    """The server with 30 things."""
    with desk.client(headers={"authorization": f"Bearer {desk.installation.key}"}) as client:
        bodies: list[dict[str, Any]] = [FULL, *({"name": f"Lamp {n}"} for n in range(29))]
        answer = client.post("/v1/things/batch", json={"items": bodies})
        assert answer.status_code < 300, answer.text
    return desk


PAGES = (
    "things?search=nobody+has+this&min_rank=x", "things?limit=50&sort=name&order=asc",
    "things/1", "things/new", "things/1/edit", "things/delete?id=1",
    "things/several?do=delete&id=1&id=2", "orders", "things/import", "sandbox/things",
)  # fmt: skip


async def test_pages_of_kinds_are_sound(kinds: Desk) -> None:
    async with kinds.looking(kinds.admin) as page:
        found = []
        for path in PAGES:
            await page.goto(path)
            for theme in ("light", "dark"):
                await page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
                found += [f"{path}: {fault}" for fault in await faults(page)]
            found += [f"{path}: {fault}" for fault in await cut_off(page)]
            await page.set_viewport_size({"width": 1280, "height": 900})
    assert found == []


LISTS = (
    "things", "products", "users", "keys", "keys/all", "webhooks", "audit", "events", "clients",
    "users/invitations", "devices", "webhooks/1",
)  # fmt: skip


@pytest.fixture(scope="module")
def filled(kinds: Desk) -> Desk:
    """The server with 16 of everything that pages list."""
    bodies: dict[str, dict[str, Any]] = {
        "products": {"name": "Lamp", "category": "light", "price": 1},
        "users": {"name": "Grace Hopper", "email": "{}.grace.hopper@example.com"},
        "api-keys": {"name": "The till of the shop", "type": "live"},
        "clients": {"name": "Ledger", "redirect_uris": ["https://a.test/"], "scopes": []},
        "webhooks": {"url": "https://hooks.example.com/in", "types": ["sandbox.reset"]},
        "invitations": {"email": "{}@example.com", "role": "viewer", "plan": "free"},
    }
    with kinds.client(headers={"authorization": f"Bearer {kinds.installation.key}"}) as client:
        for number in range(16):
            for many, body in bodies.items():
                email = {"email": body["email"].format(number)} if "email" in body else {}
                if many == "users":
                    email["password"] = f"Aa1-{number}-of-these"
                answer = client.post(f"/v1/{many}", json=body | email)
                assert answer.status_code == 201, answer.text
            assert client.post("/v1/webhooks/1/test").status_code == 202
            kinds.cookie(kinds.admin, anew=True)
    return kinds


@pytest.mark.parametrize("path", LISTS)
async def test_list_has_fifteen_rows_above_800_pixels_and_eight_on_a_phone(
    filled: Desk, path: str
) -> None:
    for size, rows in (((1280, 800), 15), (PHONE, 8)):
        async with filled.looking(filled.admin, size=size) as page:
            await page.goto(path)
            last = await page.locator("tbody tr").nth(rows - 1).bounding_box()
            assert last is not None
            assert last["y"] + last["height"] <= size[1], size


async def test_list_is_sorted_by_the_keyboard_without_script(kinds: Desk) -> None:
    async with kinds.looking(kinds.admin, script=False) as page:
        await page.goto("things")
        await page.get_by_role("link", name="Name", exact=True).focus()
        await page.keyboard.press("Enter")
        await expect(page.locator("th[aria-sort=ascending]")).to_have_text("Name")
        await expect(page.locator("tbody tr").first).to_contain_text("A lamp")


async def test_list_on_a_phone_is_sorted_among_its_filters_without_script(kinds: Desk) -> None:
    async with kinds.looking(kinds.admin, size=PHONE, script=False) as page:
        await page.goto("things")
        await page.get_by_text("More filters").click()
        await page.get_by_label("Sort by").select_option("Name")
        await page.get_by_label("Order", exact=True).select_option("Ascending")
        await page.get_by_role("button", name="Search", exact=True).click()
        await expect(page.locator("tbody tr").first).to_contain_text("A lamp")


async def test_record_on_a_phone_is_one_line(kinds: Desk) -> None:
    async with kinds.looking(kinds.admin, size=PHONE) as page:
        await page.goto("things")
        row = await page.locator("tbody tr").first.bounding_box()
        assert row is not None
        assert row["height"] < 60
