"""The parts that pages are made of, each by itself."""

import re

import pytest

from driving import NOON, Api
from owned import keys_of, sessions_of
from pages.visiting import faults, said, signed_in, visitor
from portico.domain.errors import BrokenRule, Fault, Invalid, Unreadable
from portico.domain.requests import Sums
from portico.domain.rules import OneOf
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
from portico.pages.forms import Form, read_form
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
def test_an_email_breaks_before_its_last_at(address: str, shown: str) -> None:
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
def test_an_agent_is_named_as_people_would(agent: str, words: str) -> None:
    assert agent_words(agent) == words


@pytest.mark.parametrize("span", [HOURS, DAYS])
def test_a_chart_has_a_bar_for_each_unit_and_loses_no_request(span: Span) -> None:
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


def test_a_chart_of_nothing_is_empty() -> None:
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
def test_a_time_is_told_by_how_long_ago_it_was(before: int, words: str) -> None:
    assert f">{words}</time>" in ago(NOON - before, NOON)
    within = words.replace("Just", "just")
    assert f">{within}</time>" in ago(NOON - before, NOON, within=True)


def test_values_are_written_as_people_read_them() -> None:
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
def test_a_name_turns_no_words_around_it_and_always_shows(name: str, shown: str) -> None:
    assert named(name, 7) == shown


def test_a_form_keeps_what_was_sent_and_says_what_is_wrong() -> None:
    form = read_form(f"{FORM}; charset=UTF-8", b"name=%20Ada%20&role=owner&empty=&pick=a&pick=b")

    def short(_text: str) -> str:
        raise BrokenRule("must be longer")

    assert form.read("name", str.strip) == "Ada"
    form.read("role", OneOf(("admin", "viewer")))
    form.read("empty", str)
    form.read("missing", str)
    assert form.optional("empty", short) is None
    assert form.several("pick", ("a", "b")) == ["a", "b"]
    with pytest.raises(Invalid) as refused:
        form.check()
    assert {fault.field for fault in refused.value.details} == {"role", "empty", "missing"}
    assert form.fault("role") == "Must be one of admin, viewer."
    assert form.fault("name") == ""
    assert form.first == "role"
    assert form.shown("name", "stored") == " Ada "
    assert form.all_shown("pick", ()) == ["a", "b"]
    for name, allowed in (("pick", ("a",)), ("name", ())):
        with pytest.raises(Unreadable):
            form.several(name, allowed)
    with pytest.raises(Unreadable):
        form.text("pick")


def test_a_form_that_was_not_sent_shows_what_is_stored() -> None:
    form = Form()
    assert form.shown("name", "stored") == "stored"
    assert form.all_shown("scopes", ("admin",)) == ("admin",)
    form.check()
    form.refuse(Invalid("Together they are wrong.", [Fault("name", "Taken already!")]))
    assert form.fault("name") == "Taken already!"


def test_every_status_of_an_error_has_a_title() -> None:
    never = {401, 406, 412, 422}  # pages send people to sign in, and show forms again
    assert set(STATUS.values()) - never <= TITLES.keys()


def test_every_notice_is_a_sentence() -> None:
    for name, words in NOTICES.items():
        assert words[0].isupper(), name
        assert words.endswith("."), name


async def test_a_notice_of_no_success_is_not_in_its_colour(api: Api) -> None:
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
async def test_the_menu_tells_where_one_is(
    api: Api, path: str, entries: list[tuple[str, str]]
) -> None:
    _, somebody = await signed_in(api)
    page = (await somebody.get(path)).text
    menu = r'<li><a [^>]*aria-current="(\w+)"><svg.*?</svg>\s*([^<]+)</a>'
    assert re.findall(menu, page, re.DOTALL) == entries
    icons = re.findall(r"<li><a [^>]*><svg.*?</svg>", page, re.DOTALL)
    drawn = {icon.partition("<svg")[2] for icon in icons}
    assert len(drawn) == len(icons)


async def test_what_is_done_on_pages_is_in_the_audit_log(api: Api) -> None:
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


async def test_the_sandboxs_log_knows_who_was_never_there_before(api: Api) -> None:
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


async def test_a_client_is_the_property_of_who_registers_it(api: Api) -> None:
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


async def test_a_key_lives_as_long_as_was_chosen(api: Api) -> None:
    user, somebody = await signed_in(api)
    for expiry in ("30d", "90d", "365d", "never"):
        await somebody.made("/keys", name=expiry, type="read", expiry=expiry)
    owned = await keys_of(api.live, user.id)
    lives = [one.expires_at and (one.expires_at - NOON) // DAY for one in owned]
    assert lives == [30, 90, 365, None]


async def test_only_types_of_the_shown_environment_are_made(api: Api) -> None:
    user, somebody = await signed_in(api)
    for base, wrong in (("", "test"), ("/sandbox", "live"), ("/sandbox", "read")):
        answer = await somebody.post(f"{base}/keys", name="Key", type=wrong, expiry="never")
        assert answer.status_code == 422
    assert await keys_of(api.live, user.id) == []
    assert await api.sandbox.users.by_account(user.id) is None


async def test_a_password_is_changed_only_with_the_one_so_far(api: Api) -> None:
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


def test_a_date_has_its_time_in_its_title() -> None:
    assert dated(NOON) == (
        f'<time datetime="2026-03-15T12:00:00Z" title="2026-03-15 12:00:00 UTC">{day(NOON)}</time>'
    )
