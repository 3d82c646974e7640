"""The parts that pages are made of, each by itself."""

import re

import pytest

from driving import NOON, Api
from owned import keys_of, sessions_of
from pages.visiting import faults, said, signed_in, visitor
from portico.domain.requests import Sums
from portico.domain.times import DAY, HOUR, MINUTE, SECOND
from portico.http.problems import STATUS
from portico.pages.chart import HEIGHT, WIDTH, chart
from portico.pages.devices import agent_words
from portico.pages.filters import (
    ago,
    dated,
    day,
    duration,
    email,
    facts,
    in_order,
    named,
    number,
    scope_words,
    when,
)
from portico.pages.notices import NOTICES
from portico.pages.responder import TITLES
from portico.storage.requests import DAYS, HOURS, Span

FORM = "application/x-www-form-urlencoded"
MOZILLA = "Mozilla/5.0"
CHROME = "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Safari/537.36"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("ada@example.com", "ada<wbr>@example.com"),
        ('"a@b"@example.com', "&#34;a@b&#34;<wbr>@example.com"),
        ("<ada>@example.com", "&lt;ada&gt;<wbr>@example.com"),
    ],
)
def test_email_breaks_before_its_last_at(address: str, shown: str) -> None:
    assert email(address) == shown


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("", "Unknown program"),
        ("  ", "Unknown program"),
        ("curl/8.5.0", "curl"),
        ("python-httpx/0.28.1", "python-httpx"),
        ("Ledger (build 7)", "Ledger"),
        ("/", "Unknown program"),
        ("Mozilla/5.0", "A browser on an unknown system"),
        (f"{MOZILLA} (X11; Linux x86_64) {CHROME}", "Chrome on Linux"),
        (f"{MOZILLA} (Windows NT 10.0; Win64; x64) {CHROME} Edg/150.0.0.0", "Edge on Windows"),
        (f"{MOZILLA} (Macintosh; Intel Mac OS X 10_15_7) Safari/605.1.15", "Safari on macOS"),
        (f"{MOZILLA} (iPhone; CPU like Mac OS X) CriOS/150 Safari/604.1", "Chrome on iPhone"),
        (
            "Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0",
            "Firefox on Android",
        ),
    ],
)
def test_user_agent_is_named_by_browser_and_system(agent: str, words: str) -> None:
    assert agent_words(agent) == words


@pytest.mark.parametrize("span", [HOURS, DAYS])
def test_chart_has_a_bar_for_each_unit_and_loses_no_request(span: Span) -> None:
    now = NOON // span.milliseconds
    oldest = now - span.units + 1
    drawn = chart(
        {
            now: Sums(1),
            now - 1: Sums(10_000, failed=1, refused=1),
            now - 2: Sums(3, 1, 1),
            oldest: Sums(5_000, refused=5_000),
            oldest - 1: Sums(9),
        },
        span,
        NOON,
    )
    assert len(drawn.bars) == span.units
    assert drawn.bars[0].at == oldest * span.milliseconds
    assert drawn.most == 10_000
    heights = [{part.kind: part.height for part in bar.parts} for bar in drawn.bars]
    assert heights[0] == {"refused": HEIGHT // 2}
    assert heights[-1] == {"answered": 2}, "one request leaves a trace beside ten thousand"
    assert heights[-2] == {"answered": HEIGHT - 4, "failed": 2, "refused": 2}
    assert heights[-3] == {"answered": 2, "failed": 2, "refused": 2}
    assert not any(heights[1:-3])
    assert drawn.total == Sums(15_004, 2, 5_002)
    for bar in drawn.bars:
        assert 0 <= bar.x < bar.x + bar.width <= drawn.width <= WIDTH
        lower = HEIGHT
        for part in bar.parts:
            lower -= part.height
            assert part.y == lower >= 0
    assert {kind: shape.count("M") for kind, shape in drawn.shapes.items()} == {
        kind: sum(kind in bar for bar in heights) for kind in ("answered", "failed", "refused")
    }
    last = drawn.bars[-1]
    assert drawn.shapes["answered"].endswith(f"M{last.x + last.width // 2} {HEIGHT - 2}v2")


def test_chart_without_requests_is_empty() -> None:
    drawn = chart({}, DAYS, NOON)
    assert drawn.total == Sums()
    assert not any(bar.parts for bar in drawn.bars)


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (-5 * SECOND, "Just now"),
        (59 * SECOND, "Just now"),
        (MINUTE, "1 minute ago"),
        (59 * MINUTE, "59 minutes ago"),
        (HOUR, "1 hour ago"),
        (23 * HOUR, "23 hours ago"),
        (DAY, "1 day ago"),
        (30 * DAY, "30 days ago"),
        (31 * DAY, "12 Feb 2026"),
    ],
)
def test_time_is_shown_by_its_age(before: int, words: str) -> None:
    assert f">{words}</time>" in ago(NOON - before, NOON)
    within = words.replace("Just", "just")
    assert f">{within}</time>" in ago(NOON - before, NOON, within=True)


def test_filters_format_numbers_durations_times_and_facts() -> None:
    assert number(1_234_567) == "1,234,567"
    assert [duration(seconds) for seconds in (1, 59, 60, 61, 3_600, 7_201)] == [
        "1 second", "59 seconds", "1 minute", "2 minutes", "1 hour", "3 hours"
    ]  # fmt: skip
    assert str(when(NOON)) == (
        '<time datetime="2026-03-15T12:00:00Z" title="2026-03-15 12:00:00 UTC">'
        "15 Mar 2026, 12:00 UTC</time>"
    )
    assert in_order({"admin", "read:users", "openid"}) == ["openid", "read:users", "admin"]
    assert scope_words("read:users") == "See all users"
    told = facts('{"fields": ["role"], "role": {"from": "viewer", "to": "admin"}, "user_id": 7}')
    assert told == [("fields", "role"), ("role", "viewer → admin"), ("user id", "7")]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Ada", "Ada"),
        ("مفتاح", "مفتاح"),
        ("👩\u200d🔬", "👩\u200d🔬"),
        ("Good\u202e", "Good"),
        ("\u2069\u2066\u200fShop", "Shop"),
        ("\u200b\u200b", "Unnamed (ID 7)"),
        ("\u2800\u3164 \U000e0041", "Unnamed (ID 7)"),
    ],
)
def test_name_filter_drops_controls_and_invisible_names(name: str, shown: str) -> None:
    assert named(name, 7) == shown


def test_every_error_status_has_a_title() -> None:
    never = {401, 406, 412, 422}  # pages send people to sign in, and show forms again
    assert set(STATUS.values()) - never <= TITLES.keys()


def test_every_notice_is_a_sentence() -> None:
    for name, words in NOTICES.items():
        assert words[0].isupper(), name
        assert words.endswith("."), name


async def test_notice_has_the_colour_of_its_outcome(api: Api) -> None:
    _, somebody = await signed_in(api)
    stranger = await visitor(api)
    for one, path, name, colour in (
        (stranger, "/sign-in", "sign-in-again", "warn"),
        (stranger, "/sign-in", "form-lost", "warn"),
        (stranger, "/sign-in", "not-decided", "warn"),
        (stranger, "/sign-in", "signed-out", "good"),
        (somebody, "/profile", "link-written", "warn"),
        (somebody, "/profile", "nothing-changed", ""),
        (somebody, "/profile", "profile-saved", "good"),
    ):
        page = await one.get(f"{path}?done={name}")
        (found,) = re.findall(r'<p class="notice (\w*)" role="status"[^>]*>(.*?)</p>', page.text)
        assert found == (colour, NOTICES[name])


@pytest.mark.parametrize(
    ("path", "entries"),
    [
        ("/profile", [("page", "Profile")]),
        ("/email", [("true", "Profile")]),
        ("/password", [("true", "Profile")]),
        ("/security", [("page", "Sign-in security")]),
        ("/security/app", [("true", "Sign-in security")]),
        ("/sandbox", [("page", "Overview")]),
        ("/sandbox/keys", [("page", "API keys")]),
    ],
)
async def test_menu_marks_the_current_page(
    api: Api, path: str, entries: list[tuple[str, str]]
) -> None:
    _, somebody = await signed_in(api)
    page = (await somebody.get(path)).text
    menu = r'<li><a [^>]*aria-current="(\w+)"><svg.*?</svg>\s*([^<]+)</a>'
    assert re.findall(menu, page, re.DOTALL) == entries
    icons = re.findall(r"<li><a [^>]*><svg.*?</svg>", page, re.DOTALL)
    drawn = {icon.partition("<svg")[2] for icon in icons}
    assert len(drawn) == len(icons)


async def test_changes_on_pages_are_audited_with_their_session(api: Api) -> None:
    user, admin = await signed_in(api, "admin")
    await admin.post("/keys", name="One", type="live", expiry="90d")
    await admin.post("/keys/revoke", id="1")
    await admin.post("/sandbox/keys", name="Two", type="test", expiry="never")
    await admin.post("/sandbox/keys/revoke", id="1")
    (session,) = await sessions_of(api.live, user.id, api.clock())
    mirror = await api.sandbox.users.by_account(user.id)
    assert mirror is not None
    for env, user_id in ((api.live, user.id), (api.sandbox, mirror.id)):
        entries = [
            (entry.action, entry.user_id, entry.email, entry.credential, entry.credential_id)
            for entry in await env.audit.page(limit=2)
        ]
        who = (user_id, user.email, "session", session.id)
        assert entries == [("key.revoked", *who), ("key.created", *who)]


async def test_first_change_in_the_sandbox_audits_the_mirror_user(api: Api) -> None:
    user, admin = await signed_in(api, "admin")
    made = await admin.post("/sandbox/webhooks/new", url="https://hooks.test/", types="*")
    assert made.status_code == 303, made.text
    mirror = await api.sandbox.users.by_account(user.id)
    assert mirror is not None
    entries = await api.sandbox.audit.page(limit=2)
    assert [(entry.action, entry.user_id) for entry in entries] == [
        ("webhook.created", mirror.id),
        ("user.created", None),
    ]


async def test_client_is_owned_by_its_registrant(api: Api) -> None:
    user, admin = await signed_in(api, "admin")
    form = {"name": "Shop", "redirect_uris": "https://shop.test/", "kind": "public"}
    for base in ("", "/sandbox"):
        made = await admin.post(f"{base}/clients/new", **form)
        assert made.status_code == 303, made.text
    mirror = await api.sandbox.users.by_account(user.id)
    assert mirror is not None
    for env, owner in ((api.live, user), (api.sandbox, mirror)):
        [[client]] = [batch async for batch in env.clients.batches()]
        assert client.user_id == owner.id


async def test_key_type_of_the_other_environment_is_refused(api: Api) -> None:
    user, somebody = await signed_in(api)
    for base, wrong in (("", "test"), ("/sandbox", "live"), ("/sandbox", "read")):
        answer = await somebody.post(f"{base}/keys", name="Key", type=wrong, expiry="never")
        assert answer.status_code == 422
    assert await keys_of(api.live, user.id) == []
    assert await api.sandbox.users.by_account(user.id) is None


async def test_password_change_needs_the_current_password(api: Api) -> None:
    user, somebody = await signed_in(api)
    answer = await somebody.post("/password", current_password="Wrong-123", password="Right-123")
    assert faults(answer) == {
        "current_password": "This is not the current password.",
        "password": "Enter your password again.",
    }
    assert said(answer) == "Correct the fields marked below."
    assert "Right-123" not in answer.text
    stored = await api.live.users.get(user.id)
    assert stored is not None
    assert stored.password_hash == user.password_hash


def test_date_has_its_time_in_its_title() -> None:
    assert dated(NOON) == (
        f'<time datetime="2026-03-15T12:00:00Z" title="2026-03-15 12:00:00 UTC">{day(NOON)}</time>'
    )
