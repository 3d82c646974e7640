"""Cookie sessions: how they begin, how long they hold, whose pages may use them
(specification §3.2, §5.4; decisions §5)."""

from pathlib import Path

import pytest

from driving import BASE, NOON, Api, InProcess, refused, settings_for
from owned import sessions_of
from signing_in import AUTH, COOKIE, PASSWORD, Visitor, cookie_of, login_of, session_of

pytestmark = pytest.mark.one_engine

IDLE = 1_800
DAY = 86_400
LAMP = {"name": "Lamp", "category": "light", "price": 1}
OWN_ORIGIN = "https://localhost:8443"
FOREIGN = [
    "https://evil.example",
    "http://localhost:8443",
    "https://localhost:8443.evil.example",
    "https://LOCALHOST:8443",
    "null",
    "",
]


async def test_new_session_sets_a_host_cookie_with_strict_attributes(
    api: Api, visitor: Visitor
) -> None:
    ada = await api.account("editor", password=PASSWORD, name="Ada Lovelace")
    answer = await visitor.open_session(ada.email)
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    body = answer.json()
    assert body.keys() == {"data", "message"}
    assert body["data"].keys() == {"user", "expires_at", "idle_expires_at"}
    assert body["data"]["user"]["email"] == ada.email
    assert body["data"]["expires_at"] == "2026-03-16T12:00:00.000Z"
    assert body["data"]["idle_expires_at"] == "2026-03-15T12:30:00.000Z"
    (cookie,) = answer.headers.get_list("set-cookie")
    secret, _, attributes = cookie.partition("; ")
    assert secret.startswith(f"{COOKIE}=")
    assert len(secret) == len(f"{COOKIE}=") + 43
    assert attributes == "Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=86400"
    assert cookie_of(answer) not in answer.text
    me = await visitor.me(cookie=cookie_of(answer))
    assert me.json()["data"]["id"] == ada.id


SHARED = {
    "PORTICO_BASE_URL": "https://api.portico.test/v1",
    "PORTICO_SANDBOX_URL": "https://try.portico.test/v1",
    "PORTICO_AUTH_URL": "https://auth.portico.test",
    "PORTICO_DASHBOARD_URL": "https://portico.test",
    "PORTICO_COOKIE_DOMAIN": "portico.test",
}


async def test_shared_domain_has_a_secure_cookie_for_the_four_own_origins(tmp_path: Path) -> None:
    async with Api(settings_for(tmp_path, SHARED)) as shared:
        ada, stranger = await shared.account("editor", password=PASSWORD), shared.stranger()
        at = "https://api.portico.test/v1"
        credentials = {"email": ada.email, "password": PASSWORD}
        answer = await stranger.post(f"{at}/sessions", json=credentials)
        secret, _, attributes = answer.headers["set-cookie"].partition("; ")
        assert secret.startswith("__Secure-session=")
        wanted = "Path=/; Domain=portico.test; Secure; HttpOnly; SameSite=Strict; Max-Age=86400"
        assert attributes == wanted
        stranger.cookies.clear()
        other_name = {"cookie": secret.replace("__Secure-", "__Host-")}
        refused(await stranger.get(f"{at}/users/me", headers=other_name), 401)
        for host, status in (
            *((f"{own}portico.test", 201) for own in ("", "api.", "try.", "auth.")),
            *(
                (host, 403)
                for host in ("evil.portico.test", "portico.test.evil.example", "xportico.test")
            ),
        ):
            headers = {"cookie": secret, "origin": f"https://{host}"}
            answer = await stranger.post(f"{at}/products", json=LAMP, headers=headers)
            assert answer.status_code == status, host


async def test_session_ends_after_thirty_idle_minutes(api: Api, visitor: Visitor) -> None:
    ada = await api.account()
    used, unused = [await session_of(api.live, ada) for _ in range(2)]
    assert [one.user_id for one in await sessions_of(api.live, ada.id, NOON)] == [ada.id] * 2
    api.clock.now = NOON + IDLE * 1000 - 1
    assert (await visitor.me(cookie=used)).status_code == 200
    api.clock.now = NOON + IDLE * 1000
    refused(await visitor.me(cookie=unused), 401)
    assert (await visitor.me(cookie=used)).status_code == 200
    api.clock.advance(seconds=IDLE, milliseconds=-1)
    assert (await visitor.me(cookie=used)).status_code == 200
    api.clock.advance(seconds=IDLE)
    for _ in range(2):
        refused(await visitor.me(cookie=used), 401)
    assert await sessions_of(api.live, ada.id, api.clock()) == []


async def test_session_ends_after_a_day_of_use(api: Api, visitor: Visitor) -> None:
    session = await session_of(api.live, await api.account())
    while api.clock.now + IDLE * 1000 < NOON + DAY * 1000:
        api.clock.advance(seconds=IDLE, milliseconds=-1)
        assert (await visitor.me(cookie=session)).status_code == 200
    api.clock.now = NOON + DAY * 1000 - 1
    assert (await visitor.me(cookie=session)).status_code == 200
    api.clock.now = NOON + DAY * 1000
    refused(await visitor.me(cookie=session), 401)


async def test_restart_neither_ends_nor_extends_a_session(api: Api, visitor: Visitor) -> None:
    ada = await api.account()
    used, unused = [await session_of(api.live, ada) for _ in range(2)]
    api.clock.advance(seconds=IDLE - 1)
    for session in (used, unused):
        assert (await visitor.me(cookie=session)).status_code == 200
    seen = api.clock.now
    await api.stop()
    await api.start()
    api.clock.now = seen + IDLE * 1000 - 1
    assert (await visitor.me(cookie=used)).status_code == 200
    api.clock.now = seen + IDLE * 1000
    refused(await visitor.me(cookie=unused), 401)


async def test_new_session_replaces_the_session_of_the_request(api: Api, visitor: Visitor) -> None:
    ada = await api.account(password=PASSWORD)
    mallory = await api.account()
    planted = await session_of(api.live, mallory)
    other = await session_of(api.live, ada)
    answer = await visitor.open_session(ada.email, cookie=planted)
    mine = cookie_of(answer)
    assert mine != planted
    refused(await visitor.me(cookie=planted), 401)
    assert (await visitor.me(cookie=mine)).json()["data"]["id"] == ada.id
    assert (await visitor.me(cookie=other)).status_code == 200
    assert (await visitor.open_session(ada.email, cookie="invented")).status_code == 201


async def test_failed_sign_in_leaves_the_session_alone(api: Api, visitor: Visitor) -> None:
    ada = await api.account(password=PASSWORD)
    session = await session_of(api.live, ada)
    answer = await visitor.open_session(ada.email, "wrong", cookie=session)
    refused(answer, 401)
    assert "set-cookie" not in answer.headers
    assert (await visitor.me(cookie=session)).status_code == 200


async def test_session_writes_from_a_foreign_origin_are_refused(api: Api, visitor: Visitor) -> None:
    editor = await api.account("editor")
    session = await session_of(api.live, editor)
    url = f"{BASE['live']}/products"
    async with api.unchanged():
        for origin in FOREIGN:
            answer = await visitor.send("POST", url, LAMP, cookie=session, origin=origin)
            refused(answer, 403, "PERMISSION_DENIED")
            ended = await visitor.send(
                "DELETE", f"{BASE['live']}/sessions", cookie=session, origin=origin
            )
            refused(ended, 403, "PERMISSION_DENIED")
        for site in ("cross-site", "same-site"):
            answer = await visitor.send("POST", url, LAMP, cookie=session, sec_fetch_site=site)
            refused(answer, 403, "PERMISSION_DENIED")
    own: list[dict[str, str]] = [
        {},
        {"origin": OWN_ORIGIN},
        {"origin": OWN_ORIGIN, "sec_fetch_site": "same-site"},
        {"sec_fetch_site": "same-origin"},
    ]
    for headers in own:
        made = await visitor.send("POST", url, LAMP, cookie=session, **headers)
        assert made.status_code == 201, headers
    # What only reads is kept from other sites by their browser.
    me = f"{BASE['live']}/users/me"
    read = await visitor.send("GET", me, cookie=session, origin="https://evil.example")
    assert read.status_code == 200
    assert "access-control-allow-origin" not in read.headers


@pytest.mark.parametrize("url", [f"{BASE['live']}/sessions", f"{AUTH['live']}/login"])
async def test_sign_in_from_a_foreign_origin_is_refused(api: Api, url: str) -> None:
    ada = await api.account(password=PASSWORD)
    body = {"email": ada.email, "password": PASSWORD}
    sites = [{"origin": origin} for origin in FOREIGN]
    sites += [{"sec_fetch_site": site} for site in ("cross-site", "same-site")]
    async with api.unchanged():
        for headers in sites:
            refused(await Visitor(api).send("POST", url, body, **headers), 403)
    for headers in ({}, {"origin": OWN_ORIGIN}):
        assert (await Visitor(api).send("POST", url, body, **headers)).is_success


async def test_authorization_header_beats_the_cookie_even_when_invalid(
    api: Api, visitor: Visitor
) -> None:
    ada, bob = await api.account(), await api.account()
    session = await session_of(api.live, ada)
    token = (await login_of(api.live, bob)).access_token
    assert (await visitor.me(token, cookie=session)).json()["data"]["id"] == bob.id
    url = f"{BASE['live']}/users/me"
    for header in ("Bearer x", "Bearer ", "", "Basic YTpi", f"Bearer {token}x", "Bearer é", "é"):
        answer = await visitor.send("GET", url, cookie=session, authorization=header)
        refused(answer, 401, "AUTHENTICATION_REQUIRED")
    assert (await visitor.me(cookie=session)).json()["data"]["id"] == ada.id


async def test_sign_out_ends_the_session_and_clears_the_cookie(api: Api, visitor: Visitor) -> None:
    ada = await api.account()
    session, other = [await session_of(api.live, ada) for _ in range(2)]
    url = f"{BASE['live']}/sessions"
    answer = await visitor.send("DELETE", url, cookie=session)
    assert (answer.status_code, answer.content) == (204, b"")
    (cookie,) = answer.headers.get_list("set-cookie")
    assert cookie == f"{COOKIE}=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0"
    refused(await visitor.me(cookie=session), 401)
    refused(await visitor.send("DELETE", url, cookie=session), 401)
    assert (await visitor.me(cookie=other)).status_code == 200


async def test_sign_out_without_a_session_is_refused(api: Api, visitor: Visitor) -> None:
    ada = await api.account("admin")
    session = await session_of(api.live, ada)
    token = (await login_of(api.live, ada)).access_token
    url = f"{BASE['live']}/sessions"
    async with api.unchanged():
        refused(await visitor.send("DELETE", url, bearer=token, cookie=session), 403)
        refused(await visitor.send("DELETE", url), 401)
    assert (await visitor.me(cookie=session)).status_code == 200


async def test_malformed_session_cookie_is_401(api: Api, visitor: Visitor) -> None:
    session = await session_of(api.live, await api.account())
    for before, after in (
        ("session=", ""),
        ("__Secure-session=", ""),
        (f"{COOKIE}=", "x"),
        ("x", ""),
    ):
        sent = f"{before}{session}{after}"
        answer = await visitor.send("GET", f"{BASE['live']}/users/me", None, Cookie=sent)
        refused(answer, 401, "AUTHENTICATION_REQUIRED")
    for empty in ("", f"{COOKIE}="):
        answer = await visitor.send("GET", f"{BASE['live']}/users/me", None, Cookie=empty)
        refused(answer, 401, "AUTHENTICATION_REQUIRED")


async def test_session_secret_is_not_stored(api: Api, visitor: Visitor) -> None:
    ada = await api.account(password=PASSWORD)
    session = cookie_of(await visitor.open_session(ada.email))
    assert session not in repr(await api.state())


async def test_session_cookie_is_found_among_others_in_any_cookie_line(api: Api) -> None:
    session = await session_of(api.live, await api.account())
    lines = [("cookie", "theme=dark"), ("cookie", f"a={'x' * 2000};{COOKIE}={session} ;last=1")]
    assert (await InProcess(api).exchange("GET", "/v1/users/me", lines)).status_code == 200
