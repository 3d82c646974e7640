"""What an OAuth token is for (RFC 8707, 9068): it is good there, and nowhere else."""

import itertools
from contextlib import suppress
from typing import Any

import httpx
import pytest

from declared_services import DECLARED
from driving import BASE, Api, refused
from portico.core.oauth import AuthorizationRefused
from portico.core.users import User
from portico.features.access.authorization import read_request
from portico.features.access.backchannel import LOGOUT_TOKEN_TYPE
from portico.features.access.clients import Registered
from portico.features.access.pages.end_session import read_logout
from portico.features.access.signing import Signer
from signing_in import (
    AUTH,
    CALLBACK,
    Visitor,
    client_of,
    code_of,
    login_of,
    named,
    oauth_refused,
    read,
)

API = BASE["live"]
INVOICES = f"{API}/invoices"
AGENTS = f"{API}/mcp"
SCOPES = "openid read:products read:invoices send:mail"
GET_7 = {"x_forwarded_method": "GET", "x_forwarded_uri": "/7"}


@pytest.fixture
def environ() -> dict[str, str]:
    """One engine: no statement is new."""
    return {}


@pytest.fixture
def declared() -> str:
    """One service whose tokens are valid for less than others."""
    return DECLARED.replace('"urn:mail"', '"urn:mail"\ntoken_seconds = 900')


@pytest.fixture
async def shop(api: Api) -> Registered:
    return await client_of(api.live, scopes="read:products read:invoices send:mail")


@pytest.fixture
async def ada(api: Api) -> User:
    return await api.account("viewer", name="Ada Lovelace")


async def tokens(
    api: Api, shop: Registered, ada: User, resource: str | None, scopes: str = SCOPES, **more: str
) -> dict[str, Any]:
    code = await code_of(api.live, shop.client, ada, scopes, resource=resource)
    answer = await Visitor(api).exchange(shop, code, **more)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def asked(shop: Registered, **more: str) -> list[tuple[str, str]]:
    return [
        ("response_type", "code"),
        ("client_id", shop.client.client_id),
        ("redirect_uri", CALLBACK),
        *more.items(),
    ]


ASKED: list[tuple[dict[str, str], str | None]] = [
    ({"resource": API}, None),
    ({"resource": AGENTS}, AGENTS),
    ({"resource": INVOICES}, INVOICES),
    ({"resource": "urn:mail"}, "urn:mail"),
    ({"scope": "openid"}, None),
    ({"scope": "openid read:products"}, None),
    ({"scope": "openid read:invoices offline_access"}, INVOICES),
    ({"scope": "send:mail"}, "urn:mail"),
    ({"scope": "send:mail read:invoices"}, None),
    ({"scope": "read:products read:invoices"}, None),
]
UNKNOWN: list[tuple[str, ...]] = [
    ("https://other.example",),
    (f"{API}/",),
    (BASE["sandbox"],),
    (AUTH["live"],),
    (API, API),
    (API, INVOICES),
]


async def test_resource_of_a_request_is_the_named_one_or_that_of_its_scopes(
    api: Api, shop: Registered
) -> None:
    for more, resource in ASKED:
        request = await read_request(api.live, asked(shop, **more))
        assert request.wanted.resource == resource, more
    for several in UNKNOWN:
        named = [("resource", one) for one in several]
        with pytest.raises(AuthorizationRefused) as refusal:
            await read_request(api.live, [*asked(shop), *named])
        assert refusal.value.error == "invalid_target", several


async def test_resource_of_a_code_or_refresh_token_cannot_be_changed(
    api: Api, shop: Registered, ada: User
) -> None:
    visitor = Visitor(api)
    code = await code_of(api.live, shop.client, ada, SCOPES, resource=AGENTS)
    async with api.unchanged():
        for other in (API, INVOICES, "urn:mail", "https://other.example"):
            oauth_refused(await visitor.exchange(shop, code, resource=other), 400, "invalid_target")
    first = (await visitor.exchange(shop, code, resource=AGENTS)).json()
    async with api.unchanged():
        answer = await visitor.renew(shop, first["refresh_token"], resource=API)
        oauth_refused(answer, 400, "invalid_target")
    assert (await visitor.renew(shop, first["refresh_token"])).status_code == 200


@pytest.mark.parametrize("name", ["live", "sandbox"])
@pytest.mark.parametrize(("scope", "seconds"), [("read:invoices", 3600), ("send:mail", 900)])
async def test_token_for_a_service_is_a_jwt_that_says_what_it_is(
    api: Api, name: str, scope: str, seconds: int
) -> None:
    env = api.live if name == "live" else api.sandbox
    audience = "urn:mail" if scope == "send:mail" else f"{BASE[name]}/invoices"
    ada, shop = await api.account("editor", env=env), await client_of(env)
    wanted = (await read_request(env, asked(shop, scope=scope))).wanted
    scopes = f"openid {scope}"
    code = await code_of(env, shop.client, ada, scopes, resource=wanted.resource)
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK}
    answer = await Visitor(api).form("token", {**form, **named(shop)}, env=name)
    given = answer.json()
    head, claims = read(given["access_token"])
    assert head["typ"] == "at+jwt"
    now = api.clock() // 1000
    assert len(claims.pop("jti")) == 32
    assert claims == {
        "iss": AUTH[name],
        "aud": audience,
        "sub": str(ada.id),
        "client_id": shop.client.client_id,
        "scope": given["scope"],
        "sid": claims["sid"],
        "iat": now,
        "exp": now + seconds,
    }
    assert given["expires_in"] == seconds


async def test_token_for_no_service_is_opaque(api: Api, shop: Registered, ada: User) -> None:
    for resource in (None, AGENTS):
        opaque = await tokens(api, shop, ada, resource)
        assert opaque["access_token"].startswith("oat_")


async def test_token_opens_its_resource_alone(api: Api, shop: Registered, ada: User) -> None:
    service = await api.caller("admin", name="Service")
    places = itertools.count(2)  # invalid tokens count against the address

    async def verdict(token: str, name: str) -> int:
        body = {"credential": token, "service": name}
        valid = (await service.post("/verify", json=body)).json()["data"]["valid"]
        return 200 if valid else 401

    async def opened(token: str) -> dict[str, int]:
        visitor = Visitor(api, f"127.0.0.{next(places)}")

        async def get(url: str, **headers: str) -> httpx.Response:
            return await visitor.send("GET", url, bearer=token, **headers)

        answers = {
            "api": await get(f"{API}/users/me"),
            "userinfo": await get(f"{AUTH['live']}/userinfo"),
            "invoices": await get(f"{AUTH['live']}/check/invoices", **GET_7),
            "mail": await get(f"{AUTH['live']}/check/mail", **GET_7),
            "forwarded": await get(f"{INVOICES}/7"),
        }
        for answer in answers.values():
            if answer.status_code == 401:
                refused(answer, 401)
                assert 'error="invalid_token"' in answer.headers["www-authenticate"]
        found = {name: answer.status_code for name, answer in answers.items()}
        return {
            **found,
            **{f"verify {one}": await verdict(token, one) for one in ("invoices", "mail")},
        }

    nothing = dict.fromkeys(await opened("oat_unknown"), 401)
    expected: dict[str | None, dict[str, int]] = {
        None: {"api": 200, "userinfo": 200, "verify invoices": 200, "verify mail": 200},
        AGENTS: {},
        INVOICES: {"invoices": 200, "forwarded": 502, "verify invoices": 200},
        "urn:mail": {"mail": 200, "verify mail": 200},
    }
    for resource, opens in expected.items():
        token = (await tokens(api, shop, ada, resource))["access_token"]
        for _ in range(2):  # once looked up, once from memory
            assert await opened(token) == {**nothing, **opens}, resource


async def test_signed_token_counts_for_what_it_is_alone(
    api: Api, shop: Registered, ada: User
) -> None:
    """Each kind of token that one key signs, at each place that takes one of them."""
    given = await tokens(api, shop, ada, INVOICES)
    session = read(given["id_token"])[1]
    logout = {name: session[name] for name in ("aud", "sub", "sid")}
    other = await client_of(api.live)
    signed = {
        "login": (await login_of(api.live, ada)).access_token,
        "access": given["access_token"],
        "id": given["id_token"],
        "logout": api.live[Signer].sign(logout, api.clock(), LOGOUT_TOKEN_TYPE),
    }

    async def is_hint(token: str, of: Registered) -> bool:
        with suppress(AuthorizationRefused):
            await read_request(api.live, asked(of, id_token_hint=token))
            return True
        return False

    async def ends(token: str, of: Registered) -> bool:
        parameters = [("id_token_hint", token), ("client_id", of.client.client_id)]
        with suppress(AuthorizationRefused):
            return (await read_logout(api.live, parameters)).hint is not None
        return False

    taken: dict[str, set[str]] = {}
    for number, (kind, token) in enumerate(signed.items(), 50):
        visitor = Visitor(api, f"127.0.0.{number}")
        check = f"{AUTH['live']}/check/invoices"
        places = {
            "api": (await visitor.me(token)).status_code == 200,
            "service": (await visitor.send("GET", check, bearer=token, **GET_7)).is_success,
            "hint": await is_hint(token, shop),
            "hint of another client": await is_hint(token, other),
            "logout": await ends(token, shop),
            "logout of another client": await ends(token, other),
        }
        taken[kind] = {place for place, takes in places.items() if takes}
    assert taken == {
        "login": {"api", "service"},
        "access": {"service"},
        "id": {"hint", "logout"},
        "logout": set(),
    }
