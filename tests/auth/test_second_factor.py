"""The second factor at every way in: codes of an app, recovery codes, and nothing in between."""

import re
from html import unescape
from urllib.parse import urlencode

import httpx
import pytest

from driving import NOON, Api
from owned import sessions_of
from portico.core.audit import OPERATOR
from portico.core.errors import AuthenticationRequired, Conflict
from portico.core.secrets import digest
from portico.core.sessions import BY_CODE
from portico.core.users import User
from portico.features.events.audit import Audit
from portico.features.people.guard import forgive
from portico.features.people.recovery import give_reset, reset_password
from portico.features.signin.rules import MOST_WRONG_CODES, step_of
from portico.features.signin.second_factor import (
    Enrolment,
    add_authenticator,
    offer_authenticator,
    read_enrolment,
    reset_factors,
)
from portico.features.signin.service import Attempt, prove
from portico.features.signin.sessions import Browser, open_session
from portico.features.signin.storage import FactorStore
from portico.web.pages.sent_once import AGAIN
from second_factor import (
    CODES,
    DASHBOARD,
    HERE,
    KEY,
    SITES,
    Person,
    Way,
    code_of,
    enrolled,
    factored,
    refused_for_otp,
    session_in,
)
from signing_in import AUTH, CALLBACK, PASSWORD, Visitor, client_of, read

pytestmark = pytest.mark.one_engine


@pytest.fixture
def way(api: Api) -> Way:
    """One way in of the API: both prove in the same function."""
    return Way(api, "/auth/login")


@pytest.mark.parametrize("path", ["/auth/login", "/v1/sessions"])
async def test_code_is_accepted_once_and_one_step_off(api: Api, path: str) -> None:
    user, way = await factored(api), Way(api, path)
    for steps, good in ((-2, False), (2, False), (-1, True), (-1, False), (0, True), (1, True)):
        answer = await way.send(user, code_of(api, steps))
        assert answer.is_success == good, steps
        if not good:
            refused_for_otp(answer)
    for junk in ("000000x", "١٢٣٤٥٦", " ", code_of(api)[:5]):
        refused_for_otp(await way.send(user, junk))


async def test_wrong_codes_and_passwords_share_the_guard(api: Api, way: Way) -> None:
    user = await factored(api)
    for _ in range(5):
        refused_for_otp(await way.send(user, "000000"))
        assert (await way.send(user, None, "Wrong-password1")).status_code == 401
    assert (await way.send(user, code_of(api))).status_code == 429
    api.clock.advance(seconds=60)
    assert (await way.send(user, code_of(api))).is_success


async def wrong_in_a_row(api: Api, user: User) -> int:
    """How many wrong codes of an account are counted."""
    async with api.live.db.transaction() as tx:
        return (await api.live[FactorStore].wrong_codes(tx, user.id)).in_a_row


async def test_wrong_codes_of_every_entrance_and_host_are_counted_together(api: Api) -> None:
    user = await factored(api)
    hosts = [api, api.beside()]
    ways = [Way(host, path) for host in hosts for path in ("/auth/login", "/v1/sessions")]
    people = [Person(api, DASHBOARD), Person(api, AUTH["live"])]
    for person in people:
        await person.password(user)
    for way in ways:
        for _ in range(2):
            refused_for_otp(await way.send(user, "000000"))
    for person in people:
        assert (await person.post("/sign-in/code", otp="aaaa-bbbb")).status_code == 422
    await forgive(api.live, user.email, "")
    async with api.unchanged():
        for way in ways:
            assert (await way.send(user, code_of(api))).status_code == 429
        for person in people:
            waiting = await person.post("/sign-in/code", otp=code_of(api))
            assert waiting.status_code == 429
            assert waiting.headers["retry-after"] == "60"
            assert "Too many failed attempts; try again in 60 seconds." in waiting.text


@pytest.mark.parametrize("reset", ["link", "factors"])
async def test_hundredth_wrong_code_in_a_row_ends_codes_until_a_reset(
    api: Api, way: Way, reset: str
) -> None:
    user = await factored(api)
    async with api.live.db.transaction() as tx:
        for _ in range(MOST_WRONG_CODES - 1):
            await api.live[FactorStore].count_wrong_code(tx, user.id, api.clock())
    api.clock.advance(days=1)
    assert "wrong" in refused_for_otp(await way.send(user, "000000"))
    api.clock.advance(days=30)
    person = Person(api, DASHBOARD)
    await person.password(user)
    async with api.unchanged():
        for code in (code_of(api), CODES[0]):
            assert "No code is accepted any more" in refused_for_otp(await way.send(user, code))
            answer = await person.post("/sign-in/code", otp=code)
            assert answer.status_code == 422
            assert "No code is accepted any more" in answer.text
    if reset == "link":
        handed = await give_reset(api.live, user.id, OPERATOR)
        refused_for_otp(await way.send(user, code_of(api)))
        await reset_password(api.live, handed.link.partition("?token=")[2], "An0therWord", OPERATOR)
        assert (await way.send(user, code_of(api), "An0therWord")).is_success
    else:
        await reset_factors(api.live, user.id, OPERATOR)
        enrolment = Enrolment(KEY, step_of(api.clock()) - 2, "Phone", CODES)
        await api.live.change(
            OPERATOR, lambda change: add_authenticator(api.live, change, user, enrolment)
        )
        assert (await way.send(user, code_of(api))).is_success
    assert await wrong_in_a_row(api, user) == 0


@pytest.mark.parametrize("site", SITES)
async def test_pages_ask_for_the_code_after_the_password(api: Api, site: str) -> None:
    name, at = SITES[site]
    env = api.live if name == "live" else api.sandbox
    user = await factored(api, env)
    person = Person(api, at)
    first = await person.password(user)
    assert "/sign-in/code?next=" in first.headers["location"]
    assert not session_in(first)
    (entry,) = await env[Audit].page(limit=1)
    assert (entry.action, entry.target_id) == ("second_factor.asked", str(user.id))
    assert (entry.credential, entry.user_id) == ("password", None)
    page = await person.browser.get(HERE + first.headers["location"])
    assert 'name="otp"' in page.text
    async with api.unchanged(but="audit wrong_codes"):
        wrong = await person.post("/sign-in/code", otp="000000")
        assert wrong.status_code == 422
        assert "wrong" in wrong.text
    assert session_in(await person.post("/sign-in/code", otp=code_of(api)))
    (session,) = await sessions_of(env, user.id, api.clock())
    assert session.amr == BY_CODE
    assert not session_in(await person.post("/sign-in/code", otp=code_of(api, 1))), "it waited once"


async def test_factor_added_meanwhile_is_required(api: Api) -> None:
    user = await api.account(password=PASSWORD)
    proven = await prove(api.live, Attempt(user.email, PASSWORD, OPERATOR))
    app = Enrolment(KEY, step_of(api.clock()) - 2, "Phone", CODES)
    await api.live.change(OPERATOR, lambda change: add_authenticator(api.live, change, user, app))
    async with api.unchanged():
        with pytest.raises(AuthenticationRequired, match="has a second factor"):
            await open_session(api.live, proven, OPERATOR, Browser("", None))


async def test_pending_sign_in_ends_after_ten_minutes_and_with_the_password(api: Api) -> None:
    user = await factored(api)
    person = Person(api, DASHBOARD)
    await person.password(user)
    api.clock.advance(seconds=600)
    async with api.unchanged():
        late = await person.post("/sign-in/code", otp=code_of(api))
    assert late.headers["location"].startswith("/dashboard/sign-in?done=sign-in-again")
    await person.password(user)
    visitor = await api.caller(user=await api.account("admin"))
    changed = await visitor.patch(f"/users/{user.id}", json={"password": "Another-1word"})
    assert changed.status_code == 200
    async with api.unchanged():
        answer = await person.post("/sign-in/code", otp=code_of(api))
    assert "sign-in-again" in answer.headers["location"]


async def test_second_step_continues_to_the_requested_page(api: Api) -> None:
    user = await factored(api)
    person = Person(api, DASHBOARD)
    first = await person.password(user, next="/dashboard/keys?a=b")
    page = await person.browser.get(HERE + first.headers["location"])
    hidden = re.search(r'name="next" value="(.*?)"', page.text)
    assert hidden
    second = await person.post("/sign-in/code", otp=code_of(api), next=unescape(hidden[1]))
    assert second.headers["location"] == "/dashboard/keys?a=b"
    third = await Person(api, DASHBOARD).post("/sign-in/code", next="https://evil.test/")
    assert third.headers["location"].endswith("next=%2Fdashboard"), "and nowhere else"


@pytest.mark.parametrize("steps", [0, -1])
async def test_code_that_sets_up_an_app_is_used_up(api: Api, steps: int) -> None:
    user = await api.account(password=PASSWORD)
    person = Person(api, DASHBOARD)
    await person.password(user)
    made = await enrolled(api, person, "/security/app", steps)
    assert made.status_code == 303, made.text
    shown = await person.browser.get(HERE + made.headers["location"])
    codes = re.findall(r"[a-z2-7]{4}(?:-[a-z2-7]{4}){5}", shown.text)
    assert len(set(codes)) == 10
    login = Way(api, "/auth/login")
    key: str = person.key  # type: ignore[attr-defined]
    refused_for_otp(await login.send(user, code_of(api, steps, key)))
    assert (await login.send(user, code_of(api, steps + 1, key))).is_success
    assert (await login.send(user, codes[0])).is_success
    for page in ("", "/security", "/audit"):
        assert key not in (await person.browser.get(DASHBOARD + page)).text
    row = await api.live.db.one("SELECT secret FROM authenticators")
    assert row is not None
    assert key.encode() not in bytes(row[0])
    api.clock.advance(milliseconds=AGAIN)
    assert (await person.browser.get(HERE + made.headers["location"])).status_code == 410


async def test_wrong_clock_is_reported_when_an_app_is_set_up(api: Api) -> None:
    user = await api.account(password=PASSWORD)
    person = Person(api, DASHBOARD)
    await person.password(user)
    told = {10: "5 minutes fast", -10: "5 minutes slow", 1: "fast", 100: "is wrong"}
    for steps, words in told.items():
        async with api.unchanged():
            answer = await enrolled(api, person, "/security/app", steps)
        assert answer.status_code == 422
        assert words in answer.text
    kept = re.search(r"secret=([A-Z2-7]{32})&", answer.text)
    assert kept
    assert kept[1] == person.key, "what was scanned stays"  # type: ignore[attr-defined]


async def test_enrolment_offer_of_another_account_is_refused(api: Api) -> None:
    ada, grace = await api.account(), await api.account()
    offer = offer_authenticator(api.live, ada.id)
    code = code_of(api, 0, offer.secret)
    for sealed in (offer.sealed, "", "é", "AAAA", offer.sealed[:-4]):
        with pytest.raises(Exception, match="load it again"):
            read_enrolment(api.live, grace.id, sealed, code, "Phone")
    assert read_enrolment(api.live, ada.id, offer.sealed, code, "Phone").secret == offer.secret


async def test_factors_are_renamed_renewed_and_removed(api: Api) -> None:
    user = await factored(api)
    person, login = Person(api, DASHBOARD), Way(api, "/auth/login")
    await person.password(user)
    await person.post("/sign-in/code", otp=code_of(api))
    csrf = await person.csrf("/security")
    (row,) = await api.live.db.all("SELECT id FROM authenticators")
    own = {"csrf": csrf, "id": str(row[0])}
    assert (await person.post("/security/rename", **own, name="Pixel <9>")).status_code == 303
    assert "Pixel &lt;9&gt;" in (await person.browser.get(f"{DASHBOARD}/security")).text
    assert (await person.post("/security/recovery-codes", csrf=csrf)).status_code == 303
    refused_for_otp(await login.send(user, CODES[0]))
    for path in ("/security/rename", "/security/remove"):
        async with api.unchanged():
            gone = await person.post(path, csrf=csrf, id="999", name="x")
        assert gone.status_code == 404
    assert (await person.post("/security/remove", **own)).status_code == 303
    assert (await login.send(user)).is_success
    assert (await person.post("/security/remove", **own)).status_code == 404, "two tabs"
    asked = await person.browser.get(f"{DASHBOARD}/security/recovery-codes")
    assert asked.status_code == 409
    assert "Recovery codes replace a second factor. Set one up first." in asked.text


async def test_acr_values_require_two_factors_of_accounts_with_two(api: Api) -> None:
    user = await api.account(password=PASSWORD)
    shop = await client_of(api.live)
    person = Person(api, AUTH["live"])
    await person.password(user)
    base = {"response_type": "code", "client_id": shop.client.client_id}
    base |= {"redirect_uri": CALLBACK, "scope": "openid"}
    asking = f"/authorize?{urlencode({**base, 'acr_values': 'urn:junk 2'})}"
    csrf = await person.csrf(asking)  # who has no second factor goes on without
    app = Enrolment(KEY, step_of(api.clock()) - 2, "Phone", CODES)
    await api.live.change(OPERATOR, lambda change: add_authenticator(api.live, change, user, app))
    for answer in (
        await person.browser.get(person.at + asking),
        await person.post(asking, csrf=csrf, decision="allow"),
    ):
        assert answer.status_code == 303
        assert "/auth/sign-in?again=yes" in answer.headers["location"]
    silent = await person.browser.get(f"{person.at}{asking}&prompt=none")
    assert "error=login_required" in silent.headers["location"]
    weaker = urlencode({**base, "acr_values": "1 2"})
    assert (await person.browser.get(f"{person.at}/authorize?{weaker}")).status_code == 200
    await person.password(user)
    await person.post("/sign-in/code", otp=code_of(api))
    csrf = await person.csrf(asking)
    back = await person.post(asking, csrf=csrf, decision="allow")
    code = httpx.URL(back.headers["location"]).params["code"]
    _, claims = read((await Visitor(api).exchange(shop, code)).json()["id_token"])
    assert (claims["acr"], claims["amr"]) == ("2", ["pwd", "otp", "mfa"])
    assert claims["auth_time"] == NOON // 1000


async def test_api_sign_in_without_a_code_is_refused_and_audited(api: Api, way: Way) -> None:
    user = await factored(api)
    async with api.unchanged(but="audit"):
        assert "second factor" in refused_for_otp(await way.send(user))
        refused_for_otp(await way.send(user, ""))
    for entry in await api.live[Audit].page(limit=2):
        assert (entry.action, entry.target_id) == ("second_factor.refused", str(user.id))
        assert (entry.credential, entry.address) == ("password", "192.0.2.7")
    for _ in range(18):
        refused_for_otp(await way.send(user))
    assert (await way.send(user, code_of(api))).is_success, "a missing code is not counted"
    plain = await api.account(password=PASSWORD)
    assert (await way.send(plain, "123456")).is_success, "ignored where there is no factor"


async def test_wrong_password_beside_a_code_neither_uses_it_up_nor_counts_it(
    api: Api, way: Way
) -> None:
    user = await factored(api)
    async with api.unchanged(but="audit"):
        for code in ("000000", code_of(api), CODES[0]):
            answer = await way.send(user, code, "Wrong-password1")
            assert answer.status_code == 401
            assert answer.json()["error"]["details"] == []
    for code in (code_of(api), CODES[0]):
        assert (await way.send(user, code)).is_success
        refused_for_otp(await way.send(user, code))


async def test_codes_work_once_however_they_are_typed(api: Api, way: Way) -> None:
    user = await factored(api)
    app, recovery = code_of(api), CODES[1].replace("-", "")
    spelled = [f"\u00a0{app[:2]}\u2011{app[2:4]}\t{app[4:]}\r\n", CODES[2].upper()]
    spelled.append(f"{recovery[:5]}\u2013{recovery[5:]} ")
    for code in spelled:
        assert (await way.send(user, code)).is_success
        refused_for_otp(await way.send(user, code))
    other = await factored(api)
    assert (await way.send(other, CODES[1])).is_success, "everybody has their own"
    assert (await api.live[FactorStore].of_user(user.id)).recovery_codes == 8
    rows = await api.live.db.all("SELECT code_hash FROM recovery_codes")
    assert digest(recovery) not in {bytes(row[0]) for row in rows}
    assert digest(CODES[3].replace("-", "")) in {bytes(row[0]) for row in rows}


async def test_factors_outlive_a_new_password_and_the_password_outlives_their_reset(
    api: Api,
) -> None:
    user, login = await factored(api), Way(api, "/auth/login")
    again = Enrolment(KEY, 0, "Tab", CODES)
    with pytest.raises(Conflict):
        await api.live.change(OPERATOR, lambda c: add_authenticator(api.live, c, user, again))
    caller = await api.caller(user=await api.account("admin"))
    await caller.patch(f"/users/{user.id}", json={"password": PASSWORD + "2"})
    refused_for_otp(await login.send(user, None, PASSWORD + "2"))
    async with api.live.db.transaction() as tx:
        await tx.run("UPDATE authenticators SET secret = :junk", {"junk": b"x" * 60})
    unreadable = await login.send(user, code_of(api), PASSWORD + "2")
    assert unreadable.status_code == 503
    await reset_factors(api.live, user.id, OPERATOR)
    assert (await login.send(user, None, PASSWORD + "2")).is_success
    with pytest.raises(Conflict):
        await reset_factors(api.live, user.id, OPERATOR)
