"""Requests that want a sign-in of their own: at the question and at the decision, whatever becomes
of the address in between (OpenID Connect Core §3.1.2.1)."""

from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest

from authorizing import (
    CONSENT,
    Person,
    address,
    asks_for_consent,
    exchanged,
    query,
    told,
    wants_sign_in,
)
from driving import Api
from portico.features.access.authorization import PARAMETER, SECONDS
from portico.features.access.clients import Registered
from signing_in import AUTH, PASSWORD, client_of, read

pytestmark = pytest.mark.one_engine

FRESH: list[dict[str, str]] = [
    {"max_age": "0"},
    {"prompt": "login consent", "max_age": "600"},
    {"prompt": "select_account"},
]


@pytest.fixture
async def shop(api: Api) -> Registered:
    """A client."""
    return await client_of(api.live)


@pytest.fixture
async def ada(api: Api, shop: Registered) -> Person:
    """A user whose last sign-in was two minutes ago."""
    person = Person(api, await api.account("editor", password=PASSWORD))
    CONSENT[person.user.id] = query(shop)
    await person.sign_in()
    api.clock.advance(seconds=120)
    return person


async def stamped(person: Person, url: str) -> str:
    """The address that a request has once its user has signed in for it."""
    where = wants_sign_in(await person.get(url))
    assert (await person.get(where)).status_code == 200, "also for who is signed in"
    return await person.sign_in(where)


@pytest.mark.parametrize("wishes", FRESH, ids=str)
async def test_decision_needs_the_sign_in_that_the_request_wants(
    api: Api, shop: Registered, ada: Person, wishes: dict[str, str]
) -> None:
    asked = address(shop, **wishes)
    async with api.unchanged():
        wants_sign_in(await ada.decide(asked))
    api.clock.advance(seconds=5)
    after = await stamped(ada, asked)
    api.clock.advance(seconds=90)
    assert asks_for_consent(await ada.get(after))
    code = told(await ada.decide(after))["code"]
    bought = await exchanged(api, shop, code)
    _, claims = read(bought["id_token"])
    assert claims["auth_time"] == api.clock() // 1000 - 90, "of the new sign-in"
    wants_sign_in(await ada.get(asked))
    wants_sign_in(await ada.decide(asked))


async def test_changed_or_moved_stamp_asks_for_another_sign_in(
    api: Api, shop: Registered, ada: Person
) -> None:
    asked = address(shop, max_age="0")
    after = await stamped(ada, asked)
    api.clock.advance(seconds=1)
    (stamp,) = parse_qs(urlsplit(after).query)[PARAMETER]
    other = await client_of(api.live)
    stamps = ["", "AAAA", f"{api.clock()}.1", "9" * 500, "%C3%A9", stamp[:-2], f"{stamp}AAAA"]
    forged = [
        asked,
        *(f"{asked}&{PARAMETER}={each}" for each in stamps),
        f"{address(shop, max_age='0', scope='openid')}&{PARAMETER}={stamp}",
        f"{address(other, max_age='0')}&{PARAMETER}={stamp}",
        f"{address(shop, prompt='login')}&{PARAMETER}={stamp}",
    ]
    async with api.unchanged():
        for url in forged:
            wants_sign_in(await ada.get(url))
            wants_sign_in(await ada.decide(url))
    assert "code" in told(await ada.decide(after)), "unchanged it works"


async def test_late_decision_asks_for_another_sign_in(
    api: Api, shop: Registered, ada: Person
) -> None:
    after = await stamped(ada, address(shop, prompt="login"))
    api.clock.advance(seconds=SECONDS - 1)
    assert asks_for_consent(await ada.get(after))
    api.clock.advance(seconds=1)
    again = wants_sign_in(await ada.decide(after))
    assert asks_for_consent(await ada.get(await ada.sign_in(again)))


async def test_clock_slightly_behind_asks_for_no_second_sign_in(
    api: Api, shop: Registered, ada: Person
) -> None:
    api.clock.advance(seconds=-123)
    assert asks_for_consent(await ada.get(address(shop, max_age="60")))
    api.clock.advance(seconds=300)
    where = wants_sign_in(await ada.get(address(shop, prompt="login")))
    api.clock.advance(seconds=-3)
    after = await ada.sign_in(where)
    assert asks_for_consent(await ada.get(after))
    api.clock.advance(seconds=3)
    assert asks_for_consent(await ada.get(after))


@pytest.mark.parametrize("asker", ["nobody", "somebody else"])
async def test_earlier_sign_in_answers_no_request_of_another_visitor(
    api: Api, shop: Registered, ada: Person, asker: str
) -> None:
    await ada.sign_in()
    other = Person(api, await api.account("viewer", password=PASSWORD))
    if asker == "somebody else":
        await other.sign_in()
    for seconds in (0.001, 50):
        api.clock.advance(seconds=seconds)
        where = wants_sign_in(await other.get(address(shop, prompt="login")))
        after = dict(parse_qsl(urlsplit(where).query))["next"]
        async with api.unchanged():
            wants_sign_in(await ada.get(after))
            wants_sign_in(await ada.decide(after))


async def test_sign_in_before_the_request_never_counts_as_fresh(
    api: Api, shop: Registered, ada: Person
) -> None:
    await ada.sign_in()
    for seconds in (0, 2):
        api.clock.advance(seconds=seconds)
        where = wants_sign_in(await ada.get(address(shop, prompt="login")))
        after = dict(parse_qsl(urlsplit(where).query))["next"]
        wants_sign_in(await ada.get(after))
        wants_sign_in(await ada.decide(after))


async def test_denying_needs_no_sign_in(shop: Registered, ada: Person) -> None:
    answer = await ada.decide(address(shop, max_age="0"), "deny")
    assert told(answer)["error"] == "access_denied"


@pytest.mark.parametrize(
    ("way", "max_age", "error"),
    [
        ("signed in", "", "consent_required"),
        ("signed in", "3600", "consent_required"),
        ("signed in", "60", "login_required"),
        ("signed in", "0", "login_required"),
        ("nobody", "", "login_required"),
        ("in a frame", "", "login_required"),
    ],
)
async def test_prompt_none_never_shows_a_page(
    api: Api, shop: Registered, ada: Person, way: str, max_age: str, error: str
) -> None:
    headers = {"sec-fetch-site": "same-origin"}
    if way != "signed in":
        ada.browser.cookies.clear()
    if way == "in a frame":
        headers = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "iframe"}
    asked = address(shop, prompt="none", **({"max_age": max_age} if max_age else {}))
    async with api.unchanged():
        assert told(await ada.get(asked, **headers))["error"] == error
        if way == "signed in":
            assert told(await ada.decide(asked))["error"] == "consent_required"


async def test_id_token_hint_admits_its_own_user_alone(
    api: Api, shop: Registered, ada: Person
) -> None:
    """OpenID Connect Core §3.1.2.2: no token is for another user, whoever is signed in."""
    code = told(await ada.decide(address(shop)))["code"]
    hint = (await exchanged(api, shop, code))["id_token"]
    api.clock.advance(days=1)  # it has expired, and all sessions
    eve = Person(api, await api.account("editor", password=PASSWORD))
    CONSENT[eve.user.id] = query(shop)
    await eve.sign_in()
    async with api.unchanged():
        asked = address(shop, id_token_hint=hint)
        where = wants_sign_in(await eve.get(asked))
        assert "another account" in (await eve.get(where)).text
        assert wants_sign_in(await eve.decide(asked)) == where
        silent = await eve.get(address(shop, id_token_hint=hint, prompt="none"))
        assert told(silent)["error"] == "login_required"
    after = await ada.sign_in(where)
    assert told(await ada.get(after))["code"]
    _, claims = read(
        (await exchanged(api, shop, told(await ada.decide(after))["code"]))["id_token"]
    )
    assert claims["sub"] == str(ada.user.id)
    silent = await ada.get(address(shop, id_token_hint=hint, prompt="none"))
    assert told(silent)["code"]


async def test_foreign_id_token_hint_is_refused(api: Api, shop: Registered, ada: Person) -> None:
    code = told(await ada.decide(address(shop)))["code"]
    hint = (await exchanged(api, shop, code))["id_token"]
    login = await api.stranger().post(
        f"{AUTH['live']}/login", json={"email": ada.user.email, "password": PASSWORD}
    )
    theirs = await client_of(api.live)
    async with api.unchanged():
        for client, bad in (
            (shop, hint[:-8]),
            (shop, "x"),
            (shop, "x" * 20_000),
            (shop, login.json()["access_token"]),
            (theirs, hint),
        ):
            answer = told(await ada.get(address(client, id_token_hint=bad)))
            assert answer["error"] == "invalid_request"
    long = address(shop, nonce="n" * 2_000)
    hint = (await exchanged(api, shop, told(await ada.decide(long))["code"]))["id_token"]
    assert len(hint) > 2_000
    assert told(await ada.get(address(shop, id_token_hint=hint)))["code"]
