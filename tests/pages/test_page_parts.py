"""The parts that pages are made of, each by itself."""

import pytest

from driving import NOON, Api
from owned import sessions_of
from pages.visiting import signed_in
from portico.core.requests import Sums
from portico.core.times import DAY, HOUR, MINUTE, SECOND
from portico.features.events.audit import Audit
from portico.features.operations.chart import HEIGHT, chart
from portico.features.operations.requests import HOURS
from portico.features.people.storage import Users
from portico.features.signin.pages.devices import agent_words
from portico.web.pages.filters import ago, duration, email, named, number, scope_words, when
from portico.web.pages.responder import TITLES
from portico.web.problems import STATUS

MOZILLA = "Mozilla/5.0"
CHROME = "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Safari/537.36"


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("", "Unknown program"),
        ("curl/8.5.0", "curl"),
        ("Ledger (build 7)", "Ledger"),
        ("Mozilla/5.0", "A browser on an unknown system"),
        (f"{MOZILLA} (X11; Linux x86_64) {CHROME}", "Chrome on Linux"),
        (f"{MOZILLA} (Windows NT 10.0; Win64; x64) {CHROME} Edg/150.0.0.0", "Edge on Windows"),
        (f"{MOZILLA} (Macintosh; Intel Mac OS X 10_15_7) Safari/605.1.15", "Safari on macOS"),
        (f"{MOZILLA} (iPhone; CPU like Mac OS X) CriOS/150 Safari/604.1", "Chrome on iPhone"),
        (f"{MOZILLA} (Android 15; rv:140.0) Gecko/140.0 Firefox/140.0", "Firefox on Android"),
    ],
)
def test_user_agent_is_named_by_browser_and_system(agent: str, words: str) -> None:
    assert agent_words(agent) == words


def test_chart_has_a_bar_for_each_unit_and_loses_no_request() -> None:
    now = NOON // HOURS.milliseconds
    oldest = now - HOURS.units + 1
    counts = {
        now: Sums(1),
        now - 1: Sums(10_000, failed=1, refused=1),
        oldest: Sums(5_000, refused=5_000),
        oldest - 1: Sums(9),
    }
    drawn = chart(counts, HOURS, NOON)
    assert len(drawn.bars) == HOURS.units
    assert drawn.most == 10_000
    heights = [{part.kind: part.height for part in bar.parts} for bar in drawn.bars]
    assert heights[0] == {"refused": HEIGHT // 2}
    assert heights[-1] == {"answered": 2}, "one request leaves a trace beside ten thousand"
    assert heights[-2] == {"answered": HEIGHT - 4, "failed": 2, "refused": 2}
    assert not any(heights[1:-2])
    assert drawn.total == Sums(15_001, 1, 5_001)


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


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("مفتاح", "مفتاح"),
        ("👩\u200d🔬", "👩\u200d🔬"),
        ("Good\u202e", "Good"),
        ("\u2800\u3164 \U000e0041", "Unnamed (ID 7)"),
    ],
)
def test_name_filter_drops_controls_and_invisible_names(name: str, shown: str) -> None:
    assert named(name, 7) == shown


def test_every_error_status_has_a_title() -> None:
    never = {401, 406, 412, 422}  # pages send people to sign in, and show forms again
    assert set(STATUS.values()) - never <= TITLES.keys()


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (email("<ada>@example.com"), "&lt;ada&gt;<wbr>@example.com"),
        (number(1_234_567), "1,234,567"),
        (duration(1), "1 second"),
        (duration(61), "2 minutes"),
        (scope_words("read:users"), "See all users"),
        (
            when(NOON),
            (
                '<time datetime="2026-03-15T12:00:00Z" title="2026-03-15 12:00:00 UTC">'
                "15 Mar 2026, 12:00 UTC</time>"
            ),
        ),
    ],
)
def test_filter_writes_a_value_for_people(shown: str, expected: str) -> None:
    assert str(shown) == expected


async def test_changes_in_both_environments_are_audited_with_their_session(api: Api) -> None:
    user, admin = await signed_in(api, "admin")
    (session,) = await sessions_of(api.live, user.id, api.clock())
    for base, kind in (("", "live"), ("/sandbox", "test")):
        await admin.post(f"{base}/keys", name="One", type=kind, expiry="90d")
        await admin.post(f"{base}/keys/revoke", id="1")
    mirror = await api.sandbox[Users].by_account(user.id)
    assert mirror is not None
    for env, user_id in ((api.live, user.id), (api.sandbox, mirror.id)):
        entries = await env[Audit].page(limit=2)
        assert [entry.action for entry in entries] == ["key.revoked", "key.created"]
        for entry in entries:
            who = (entry.user_id, entry.email, entry.credential, entry.credential_id)
            assert who == (user_id, user.email, "session", session.id)
