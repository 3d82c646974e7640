"""Every page, light and dark, wide and on a phone: nothing that axe-core finds fault with, nothing
that sticks out, nothing that the console complains of."""

import secrets
import time
from collections.abc import Callable, Iterable, Iterator

import apsw
import pytest
from playwright.async_api import Page

from browser.looking import PHONE, WIDE, Desk, Person, faults, overflow

pytestmark = pytest.mark.xdist_group("browser")

STRANGERS = (
    "sign-in",
    "forgot",
    "forgot/sent",
    "reset?token=none",
    "verify?token=none",
    "new-email?token=none",
    "sign-up",
    "sign-up/sent",
    "sandbox/try?operation=list_products",
    "verified",
)
EVERYBODYS = (
    "",
    "products",
    "products?search=nobody+has+this&min_price=cheap",
    "keys",
    "applications",
    "requests",
    "requests?span=days&status=429&key=0&route=none",
    "events",
    "events?type=user.deleted",
    "devices",
    "devices/end-others",
    "profile",
    "password",
    "email",
    "sandbox",
    "sandbox/products",
    "sandbox/keys",
    "sandbox/requests",
    "sandbox/events",
    "sandbox/try?operation=create_product",
)
ADMINS = (
    "products/new",
    "products/{product}",
    "products/{product}/edit",
    "products/delete?id={product}",
    "products/several?do=delete&id={product}",
    "keys/all",
    "clients",
    "clients/new",
    "clients/{client}",
    "clients/secret?id={client}",
    "clients/delete?id={client}",
    "webhooks",
    "webhooks/new",
    "webhooks/{webhook}",
    "webhooks/{webhook}?before={delivery}",
    "webhooks/{webhook}/edit",
    "webhooks/disable?id={webhook}",
    "webhooks/secret?id={webhook}",
    "webhooks/delete?id={webhook}",
    "webhooks/{dead}",
    "webhooks/enable?id={dead}",
    "audit",
    "audit?user=nobody@example.com",
    "users",
    "users?search=nobody+has+this",
    "users/new",
    "users/invitations",
    "users/reset-password?id={user}",
    "users/suspend?id={user}",
    "users/{user}",
    "users/delete?id={user}",
    "users/sign-out?id={user}",
    "keys/rotate?id={key}",
    "keys/revoke?id={key}",
    "applications/revoke?id={grant}",
    "sandbox/clients",
    "sandbox/webhooks",
    "sandbox/audit",
)
CROWDED = {
    "name": "Lamp" * 50,
    "category": "c" * 100,
    "price": 999_999_999_999,
    "description": "d" * 1_000,
    "images": [
        {"url": f"https://images.example.com/{'a' * 300}", "alt": "An alternative text " * 20},
        {"url": "https://images.example.com/b.jpg"},
    ],
    "metadata": {"n" * 100: "v" * 1_000, "colour": "brass"},
}
"""A product whose words are as long as they may be."""


def hook(row: Callable[..., int], now: int, disabled_reason: str | None) -> int:
    """A webhook that has failed for a day, and is told nothing that tests do; its id."""
    return row(
        "INSERT INTO webhooks (url, description, types, disabled_reason, secret, told_up_to,"
        " dropped_up_to, failing_since, created_at, updated_at)"
        " VALUES (?, '', ?, ?, x'00', ?, 0, ?, ?, ?) RETURNING id",
        f"https://hooks.example.com/{'a' * 200}", '["sandbox.reset", "product.*"]',
        disabled_reason, 2**60, now - 86_400_000, now, now,
    )  # fmt: skip


@pytest.fixture(scope="module")
def lived(desk: Desk) -> Iterator[dict[str, int]]:
    """An account of an administrator with something of everything; the ids of some of it."""
    now = int(time.time() * 1000)
    client = desk.installation.told(
        "clients", "create", "--name", "Ledger", "--redirect-uri", "https://ledger.test/back",
        "--scope", "read:users write:products",
    )  # fmt: skip
    database = apsw.Connection(str(desk.installation.data / "live.db"))
    database.set_busy_timeout(5_000)

    def row(sql: str, *values: object) -> int:
        found = database.execute(sql, values).get
        assert isinstance(found, int)
        return found

    ids = {"client": row("SELECT id FROM oauth_clients WHERE client_id = ?", client["client_id"])}
    ids["user"] = desk.person(name="Someone Else").id
    ids["key"] = row("SELECT id FROM api_keys WHERE user_id = ?", desk.admin.id)
    with database:
        for day in range(1, 30):
            database.execute(
                "INSERT INTO daily_use VALUES (?, ?, ?)",
                (desk.admin.id, now // 86_400_000 - day, day * day),
            )
        for grant_client, agent in ((ids["client"], ""), (None, "curl/8.5")):
            ids["grant" if grant_client else "login"] = row(
                "INSERT INTO grants (user_id, client_row_id, scopes, address, user_agent,"
                " created_at, last_used_at, expires_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
                desk.admin.id, grant_client, "openid read:users", "203.0.113.9", agent,
                now - 9 * 86_400_000, now - 3_600_000, now + 86_400_000,
            )  # fmt: skip
        row(
            "INSERT INTO sessions (user_id, token_hash, address, user_agent, created_at,"
            " last_seen_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id",
            desk.admin.id, secrets.token_bytes(32), "2001:db8::",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1",
            now - 7_200_000, now - 60_000, now + 3_600_000,
        )  # fmt: skip
        ids |= {"webhook": hook(row, now, None), "dead": hook(row, now, "failing")}
        for answer in ("Z" * 1024, "<b>" * 300, "", None):
            ids["delivery"] = row(
                "INSERT INTO deliveries (webhook_id, event_id, type, status, attempts,"
                " next_attempt_at, last_status, last_error, last_milliseconds, answer, created_at)"
                " VALUES (?, 1, 'api_key.created', ?, ?, ?, ?, ?, 4, ?, ?) RETURNING id",
                ids["webhook"], "pending" if answer is None else "failed", len(answer or ""),
                now + 86_400_000 if answer is None else None, 500 if answer else None,
                "it answered 500" if answer else None, answer, now,
            )  # fmt: skip
    with desk.client(headers={"authorization": f"Bearer {desk.installation.key}"}) as caller:
        made = caller.post("/v1/products", json=CROWDED)
        assert made.status_code == 201, made.text
        ids["product"] = made.json()["data"]["id"]
    yield ids
    database.close()


async def troubles(page: Page, paths: Iterable[str], status: int = 200) -> list[str]:
    """What is wrong with these pages of the dashboard."""
    found = []
    for path in paths:
        await page.set_viewport_size({"width": WIDE[0], "height": WIDE[1]})
        await page.emulate_media(color_scheme="light")
        answer = await page.goto(path or ".")
        if answer is None or answer.status != status:
            found.append(f"{path}: {answer and answer.status}")
        if await page.locator("h1").count() != 1:
            found.append(f"{path}: it has not one heading of the first rank")
        found += [f"{path}, wide and light: {fault}" for fault in await faults(page)]
        if await overflow(page) > 0:
            found.append(f"{path} sticks out of a wide window")
        await page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
        await page.emulate_media(color_scheme="dark")
        found += [f"{path}, narrow and dark: {fault}" for fault in await faults(page)]
        if await overflow(page) > 0:
            found.append(f"{path} sticks out of a phone")
    return found


async def test_what_a_stranger_sees_is_sound(desk: Desk) -> None:
    async with desk.looking() as page:
        assert await troubles(page, STRANGERS) == []


async def test_what_a_newcomer_sees_is_sound(desk: Desk, newcomer: Person) -> None:
    async with desk.looking(newcomer) as page:
        assert await troubles(page, EVERYBODYS) == []


@pytest.mark.parametrize("paths", [EVERYBODYS, ADMINS], ids=["everybody's", "admins"])
async def test_what_an_administrator_with_something_of_everything_sees_is_sound(
    desk: Desk, lived: dict[str, int], paths: tuple[str, ...]
) -> None:
    async with desk.looking(desk.admin) as page:
        assert await troubles(page, [path.format(**lived) for path in paths]) == []


@pytest.mark.parametrize(("status", "paths"), [(403, ["users"]), (404, ["no", "keys/revoke?id=9"])])
async def test_a_page_that_says_no_is_sound(
    desk: Desk, newcomer: Person, status: int, paths: list[str]
) -> None:
    async with desk.looking(newcomer, expected=(f"status of {status}",)) as page:
        assert await troubles(page, paths, status) == []
