"""The parts that pages are made of, each by itself."""

import pytest

from driving import NOON, Api
from owned import sessions_of
from pages.visiting import signed_in
from portico.core.requests import Sums
from portico.features.events.audit import Audit
from portico.features.operations.pages import HEIGHT, chart
from portico.features.operations.requests import HOURS
from portico.features.people.storage import Users
from portico.features.signin.pages.devices import agent_words
from portico.web.pages.html import named

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
    assert drawn.levels == [10_000, 5_000, 0]
    heights = [{part.kind: part.height for part in bar.parts} for bar in drawn.bars]
    assert heights[0] == {"refused": HEIGHT // 2}
    assert heights[-1] == {"answered": 2}, "one request leaves a trace beside ten thousand"
    assert heights[-2] == {"answered": HEIGHT - 4, "failed": 2, "refused": 2}
    assert not any(heights[1:-2])
    assert drawn.total == Sums(15_001, 1, 5_001)


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


async def test_changes_in_both_environments_are_audited_with_their_session(api: Api) -> None:
    user, admin = await signed_in(api, "admin")
    (session,) = await sessions_of(api.live, user.id, api.clock())
    for base, kind in (("", "live"), ("/sandbox", "test")):
        await admin.post(f"{base}/keys/new", name="One", type=kind, expiry="90d")
        await admin.post(f"{base}/keys/revoke", id="1")
    mirror = await api.sandbox[Users].by_account(user.id)
    assert mirror is not None
    for env, user_id in ((api.live, user.id), (api.sandbox, mirror.id)):
        entries = await env[Audit].page(limit=2)
        assert [entry.action for entry in entries] == ["api_key.revoked", "api_key.created"]
        for entry in entries:
            who = (entry.user_id, entry.email, entry.credential, entry.credential_id)
            assert who == (user_id, user.email, "session", session.id)
