"""Every page, light and dark, from a phone's width to a wide window's: nothing that axe-core finds
fault with, nothing that is cut off or sticks out, nothing that the console complains of.

Each page is loaded once, and then looked at in place.
"""

import json
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from hashlib import sha256

import apsw
import pytest
from playwright.async_api import Page

from browser.looking import WIDE, Desk, Person, cut_off, faults
from portico.mounts import ACCOUNT, LIVE, SHOWING

pytestmark = pytest.mark.xdist_group("browser")

STRANGERS = (
    "sign-in", "sign-in/passkey", "forgot", "forgot/sent", "reset?token={reset}",
    "verify?token={verify}", "new-email?token={new-email}", "new-email/taken",
    "invitation?token={invitation}", "sign-up", "sign-up/sent", "verified",
    "/auth/sign-in?next=%2Fauth%2Fauthorize%3Fclient_id%3D{client_id}", "/sandbox/auth/sign-in",
)  # fmt: skip
EVERYBODYS = (
    "", "products", "products?search=nobody+has+this&min_price=cheap", "keys", "keys/new",
    "keys/{key}", "applications", "events/{event}", "requests",
    "requests?span=days&status=429&key=0&route=none", "events", "events?type=nothing.of.ours",
    "search", "search?q=lamp", "devices", "devices/end-others", "security", "security/app",
    "security/passkey", "profile", "password", "email", "sandbox", "sandbox/products",
    "sandbox/keys", "sandbox/profile",
)  # fmt: skip
ADMINS = (
    "products/new", "products/import", "products/import/{checked}", "products/import/{stored}",
    "products/import/{failed}", "products/import/{lost}", "products/{product}",
    "products/{product}/edit", "products/delete?id={product}",
    "products/several?do=delete&id={product}", "keys/all", "keys/all/revoke?id={key}", "clients",
    "clients/new", "clients/{client}", "clients/secret?id={client}", "clients/delete?id={client}",
    "webhooks", "webhooks/new", "webhooks/{webhook}", "webhooks/{webhook}?before={delivery}",
    "webhooks/delivery?webhook={webhook}&id={delivery}",
    "webhooks/{webhook}/edit", "webhooks/disable?id={webhook}", "webhooks/secret?id={webhook}",
    "webhooks/delete?id={webhook}", "webhooks/{dead}", "webhooks/enable?id={dead}", "audit",
    "audit/{entry}", "users/invitations/new",
    "audit?user=nobody@example.com&action=nothing&target=17&from=2026-02-30", "users",
    "users?search=nobody+has+this&state=suspended", "users/new", "users/invitations",
    "users/invitations/revoke?id={invited}", "users/reset-second-factor?id={user}",
    "users/end?id={user}&kind=session&row=1", "devices/end?id={session}&kind=session",
    "users/reset-password?id={user}", "users/suspend?id={user}", "users/resume?id={user}",
    "users/{user}", "users/{user}/edit", "users/delete?id={user}", "users/sign-out?id={user}",
    "keys/rotate?id={key}", "keys/revoke?id={key}", "applications/revoke?id={client}",
    "sandbox/webhooks", "sandbox/audit", "sandbox/users/{mirror}",
)  # fmt: skip
EMPTY = ("", "products", "keys", "applications", "requests", "events", "security", "sandbox/events")
"""What differs where nothing is there yet."""

SECURED = (
    "security",
    "security/rename?kind=app&id={app}",
    "security/remove?kind=app&id={app}",
    "security/recovery-codes",
    "security/unlink?id={link}",
)
ELSEWHERE = {"/once", "/sign-in/code"}
"""What no address alone leads to."""
FILES = {
    "/products/export",
    "/audit/export",
    "/products/import/{id}/faults",
    "/sign-in/passkey/options",
    "/security/passkey/options",
}
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
CROWDED_KEY = {
    "name": "K" * 100,
    "type": "read",
    "scopes": ["read:products"],
    "networks": ["2001:db8:1234:5678:9abc:def0::/96", "192.168.1.7", "10.0.0.0/8"],
}


class Rows:
    """Writes rows beside the server."""

    def __init__(self, database: apsw.Connection) -> None:
        self._database = database

    def found(self, sql: str, *values: object) -> int:
        """The number that a statement gives."""
        number = self._database.execute(sql, values).get
        assert isinstance(number, int)
        return number

    def add(self, table: str, **values: object) -> int:
        """A new row; its id."""
        names, places = ", ".join(values), ", ".join("?" * len(values))
        sql = f"INSERT INTO {table} ({names}) VALUES ({places}) RETURNING id"  # noqa: S608 - ours
        return self.found(sql, *values.values())


def add_requests(database: apsw.Connection, owner: int, now: int) -> None:
    """What it has asked for in 29 days, more on each before, some of it failed or refused."""
    for status in (200, 404, 429):
        whose = (owner, "/v1/products", status, 0)
        for day in range(1, 30):
            database.execute(
                "INSERT INTO request_days (user_id, route, status, key_id, day, requests, cost)"
                " VALUES (?, ?, ?, ?, ?, ?, 0)",
                (*whose, now // 86_400_000 - day, day * day),
            )
        database.execute(
            "INSERT INTO request_totals (unit, user_id, route, status, key_id, requests)"
            " VALUES ('day', ?, ?, ?, ?, ?)",
            (*whose, sum(day * day for day in range(1, 30))),
        )


def add_webhooks(rows: Rows, now: int) -> dict[str, int]:
    """Two that have failed for a day, one of them disabled, and what one of them was sent; they are
    told nothing that tests do."""
    ids = {}
    for name, reason in (("webhook", None), ("dead", "failing")):
        ids[name] = rows.add(
            "webhooks", url=f"https://hooks.example.com/{'a' * 200}", description="",
            types='["sandbox.reset", "product.*"]', disabled_reason=reason, secret=b"\0",
            queued_up_to=2**60, dropped_up_to=0, failing_since=now - 86_400_000, created_at=now,
            updated_at=now,
        )  # fmt: skip
    for answer in ("Z" * 1024, "<b>" * 300, "", None):
        pending = answer is None
        ids["delivery"] = rows.add(
            "deliveries", webhook_id=ids["webhook"], event_id=1, type="api_key.created",
            status="pending" if pending else "failed", attempts=len(answer or ""),
            next_attempt_at=now + 86_400_000 if pending else None,
            last_status=500 if answer else None, last_error="it answered 500" if answer else None,
            last_milliseconds=4, answer=answer, created_at=now,
        )  # fmt: skip
    return ids


def add_uploads(rows: Rows, account_id: int, now: int) -> dict[str, int]:
    """Files on their way in, of every kind."""
    faults = [
        {"line": line, "faults": [{"field": "price", "message": "must be a number " * 9}]}
        for line in range(2, 40)
    ]
    kinds: dict[str, dict[str, object]] = {
        "checked": {"updated": 3, "unchanged": 4, "faulty": 38, "rejected": json.dumps(faults)},
        "stored": {"inserted": 1_234_567},
        "failed": {"problem": f"The CSV header is not valid: {'x' * 200} is not a field."},
        "lost": {"state": "storing"},
    }
    blank: dict[str, object] = {
        "updated": 0,
        "unchanged": 0,
        "inserted": 0,
        "faulty": 0,
        "problem": "",
    }
    return {
        name: rows.add(
            "uploads",
            **{"state": name, **blank, **values},
            token=f"none-{name}", kind="products", account_id=account_id, actor="{}",
            updates=1, size=9_000, created_at=now - 100_000, line=9,
            name=f"{'kettles-and-lamps' * 9}.csv",
            seen_at=0 if name == "lost" else now, done=4_500,
        )
        for name, values in kinds.items()
    }  # fmt: skip


def add_secured(rows: Rows, user_id: int, now: int) -> dict[str, int]:
    """A second factor and a provider of somebody's."""
    rows.found("INSERT INTO recovery_codes VALUES (?, ?) RETURNING user_id", user_id, b"\0" * 32)
    return {
        "app": rows.add(
            "authenticators", user_id=user_id, name="P" * 60, secret=b"\0", last_step=0,
            created_at=now,
        ),
        "link": rows.add(
            "provider_links", user_id=user_id, issuer=f"https://{'sub.' * 30}example.com",
            subject="1", email=f"{'a' * 60}@example.com", created_at=now,
        ),
    }  # fmt: skip


@pytest.fixture(scope="module")
def secured(desk: Desk) -> Person:
    """Somebody with a second factor."""
    person = desk.person(name="Karen Jones")
    desk.cookie(person)
    return person


@pytest.fixture(scope="module")
def lived(desk: Desk, secured: Person) -> Iterator[dict[str, int | str]]:
    """An account of an administrator with something of everything; the ids of some of it."""
    now = int(time.time() * 1000)
    client = desk.installation.told(
        "clients", "create", "--name", "Ledger", "--redirect-uri", "https://ledger.test/back",
        "--scope", "read:users write:products",
    )  # fmt: skip
    ids: dict[str, int | str] = {"client_id": client["client_id"], "user": desk.person().id}
    with desk.client(headers={"authorization": f"Bearer {desk.installation.key}"}) as caller:
        made = caller.post("/v1/products", json=CROWDED)
        assert made.status_code == 201, made.text
        ids["product"] = made.json()["data"]["id"]
        made = caller.post("/v1/api-keys", json=CROWDED_KEY)
        assert made.status_code == 201, made.text
    with closing(apsw.Connection(str(desk.installation.data / "sandbox.db"))) as sandbox:
        mirrors = "SELECT id FROM users WHERE account_id = ?"
        ids["mirror"] = Rows(sandbox).found(mirrors, desk.admin.id)
    database = apsw.Connection(str(desk.installation.data / "live.db"))
    database.set_busy_timeout(5_000)
    rows, owner = Rows(database), desk.admin.id
    ids["client"] = rows.found("SELECT id FROM oauth_clients WHERE client_id = ?", ids["client_id"])
    ids["event"] = rows.found("SELECT min(id) FROM events")
    ids["entry"] = rows.found("SELECT min(id) FROM audit")
    ids["key"] = rows.found("SELECT min(id) FROM api_keys WHERE user_id = ?", owner)
    with database:
        add_requests(database, owner, now)
        for row_id, agent in ((ids["client"], ""), (None, "curl/8.5")):
            ids["login" if row_id is None else "grant"] = rows.add(
                "grants", user_id=owner, client_row_id=row_id, scopes="openid read:users",
                address="203.0.113.9", user_agent=agent, created_at=now - 9 * 86_400_000,
                last_used_at=now - 3_600_000, expires_at=now + 86_400_000,
            )  # fmt: skip
        ids["session"] = rows.add(
            "sessions", user_id=owner, token_hash=secrets.token_bytes(32), address="2001:db8::",
            user_agent="Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0"
            " Safari/604.1",
            created_at=now - 7_200_000, last_seen_at=now - 60_000, expires_at=now + 3_600_000,
        )  # fmt: skip
        for purpose in ("reset", "verify", "new-email"):
            ids[purpose] = secrets.token_urlsafe(32)
            token_hash = sha256(str(ids[purpose]).encode()).digest()
            rows.found(
                "INSERT INTO email_tokens (token_hash, user_id, purpose, email, expires_at)"
                " VALUES (?, ?, ?, ?, ?) RETURNING user_id",
                token_hash, owner, purpose, "ada@example.com", now + 86_400_000,
            )  # fmt: skip
        ids["invitation"] = secrets.token_urlsafe(32)
        ids["invited"] = rows.add(
            "invitations", token_hash=sha256(str(ids["invitation"]).encode()).digest(),
            email=f"{'a' * 64}@example.com", email_key="a", name="", role="editor", plan="pro",
            signed_up=0, mailed=0, created_at=now, expires_at=now + 86_400_000,
        )  # fmt: skip
        ids |= add_webhooks(rows, now)
        ids |= add_uploads(rows, owner, now)
        ids |= add_secured(rows, secured.id, now)
    yield ids
    database.close()


IN_THE_DARK = (
    "color-contrast",
    "link-in-text-block",
    "scrollable-region-focusable",
    "summary-name",
)
"""Rules of axe-core's that depend on colours or on the window's size."""

KINDS = """() => [...new Set([...document.querySelectorAll("body, body *")].map(one => [
    one.parentElement.tagName, one.parentElement.className, one.tagName, one.className, one.type,
    one.getAttribute("role"), !one.textContent.trim(), one.labels?.length,
    one.hasAttribute("aria-label"), one.hasAttribute("aria-labelledby"), one.dataset.environment,
].join()))]"""


MAX_BYTES = 64 * 1024
WEIGHT = (
    "performance.getEntries().reduce((sum, {encodedBodySize}) => sum + (encodedBodySize ?? 0), 0)"
)
"""How many bytes a page and all that it loads are, as they are sent."""

OPEN_ALL = "for (const one of document.querySelectorAll('main details')) one.open = true"

_known: set[str] = set()
"""Kinds of elements that pages were made of that have been looked at."""


async def looked_at(page: Page, name: str) -> list[str]:
    """What is wrong with what a page shows. One that is made of nothing but kinds of elements that
    are known is not asked about again by axe-core, which takes most of the time."""
    found = []
    if await page.locator("h1").count() != 1:
        found.append("it has not one heading of the first rank")
    if await page.locator(".head > :not(h1) + p").count():
        found.append("what explains the heading does not follow it")
    weight = await page.evaluate(WEIGHT)
    if not 5_000 < weight <= MAX_BYTES:
        found.append(f"it and what it loads are {weight} bytes")
    await page.evaluate(OPEN_ALL)
    kinds = set(await page.evaluate(KINDS))
    is_new = not kinds <= _known
    _known.update(kinds)
    if is_new:
        found += await faults(page)
    found += await cut_off(page)
    if is_new:
        await page.evaluate("document.documentElement.dataset.theme = 'dark'")
        found += [f"narrow and dark: {fault}" for fault in await faults(page, rules=IN_THE_DARK)]
    return [f"{name}: {fault}" for fault in found]


async def troubles(page: Page, paths: Iterable[str], status: int = 200) -> list[str]:
    """What is wrong with these pages, of the dashboard unless they begin with a slash."""
    found: list[str] = []
    for path in paths:
        await page.set_viewport_size({"width": WIDE[0], "height": WIDE[1]})
        answer = await page.goto(path or ".")
        if answer is None or answer.status != status:
            found.append(f"{path}: {answer and answer.status}")
        found += await looked_at(page, path)
    return found


def test_every_page_is_among_those_that_are_looked_at() -> None:
    pages = {page.path for page in (*SHOWING, *LIVE, *ACCOUNT) if page.method == "GET"}
    walked = {
        f"/{re.sub(r'{[a-z]+}', '{id}', path.partition('?')[0])}".rstrip("/")
        for path in (*STRANGERS, *EVERYBODYS, *ADMINS, *SECURED)
    }
    assert {path.rstrip("/") for path in pages} - walked == ELSEWHERE | FILES


async def test_what_a_stranger_sees_is_sound(desk: Desk, lived: dict[str, int | str]) -> None:
    async with desk.looking() as page:
        assert await troubles(page, [path.format(**lived) for path in STRANGERS]) == []


async def test_what_a_newcomer_sees_is_sound(desk: Desk, newcomer: Person) -> None:
    async with desk.looking(newcomer) as page:
        assert await troubles(page, EMPTY) == []


@pytest.mark.parametrize("paths", [EVERYBODYS, ADMINS], ids=["everybody's", "admins"])
async def test_what_an_administrator_with_something_of_everything_sees_is_sound(
    desk: Desk, lived: dict[str, int | str], paths: tuple[str, ...]
) -> None:
    async with desk.looking(desk.admin) as page:
        assert await troubles(page, [path.format(**lived) for path in paths]) == []


async def test_what_somebody_with_a_second_factor_sees_is_sound(
    desk: Desk, secured: Person, lived: dict[str, int | str]
) -> None:
    async with desk.looking(secured) as page:
        assert await troubles(page, [path.format(**lived) for path in SECURED]) == []
        await page.context.clear_cookies()
        await page.goto("sign-in")
        await page.get_by_label("E-mail").fill(secured.email)
        await page.get_by_label("Password").fill(secured.password)
        await page.get_by_role("button", name="Sign in").click()
        await page.wait_for_url("**/sign-in/code**")
        assert await looked_at(page, "the second step") == []


async def test_what_forms_lead_to_is_sound(desk: Desk) -> None:
    admin = desk.person("admin")
    async with desk.looking(admin, expected=("status of 422",)) as page:
        await page.goto("products/new")
        await page.get_by_role("button", name="Create product").click()
        await page.wait_for_selector("[role=alert]:visible")
        assert await looked_at(page, "a refused form") == []
        await page.goto("keys/new")
        await page.get_by_label("Name").fill("Till" * 20)
        await page.get_by_role("button", name="Create key").click()
        await page.wait_for_url("**/once**")
        assert await looked_at(page, "a page that is shown once") == []


@pytest.mark.parametrize(
    ("status", "paths"),
    [
        (403, ["users"]),
        (404, ["no", "keys/revoke?id=9"]),
        (410, ["reset?token=none", "verify?token=none", "new-email?token=none"]),
    ],
)
async def test_a_page_that_says_no_is_sound(
    desk: Desk, newcomer: Person, status: int, paths: list[str]
) -> None:
    async with desk.looking(newcomer, expected=(f"status of {status}",)) as page:
        assert await troubles(page, paths, status) == []
