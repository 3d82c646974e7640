"""The token endpoint: who calls, what is read, and codes (RFC 6749, 7636, 9700; decisions §5)."""

import json
from base64 import b64encode
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from driving import NOON, Api
from owned import set_role
from portico.core.audit import OPERATOR
from portico.features.access.clients import Registered
from portico.features.events.audit import Audit, AuditFilter
from signing_in import (
    CALLBACK,
    CHALLENGE,
    FORM,
    VERIFIER,
    Visitor,
    client_of,
    code_of,
    named,
    oauth_refused,
    read,
    somewhere,
)

pytestmark = pytest.mark.one_engine

NOW = NOON // 1000


async def as_it_is(api: Api, body: bytes, content: str = FORM) -> httpx.Response:
    """The answer to these bytes, called a form or something else."""
    headers = [("content-type", content)]
    return await somewhere(api).exchange("POST", "/auth/token", headers, body)


def a_code(code: str, client: Registered | None = None, **more: Any) -> dict[str, Any]:
    """The parameters that exchange a code, with or without its client's."""
    grant = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK}
    return {**grant, **(named(client) if client else {}), **more}


async def test_code_is_exchanged_for_tokens(api: Api, visitor: Visitor, shop: Registered) -> None:
    ada = await api.account("editor", name="Ada Lovelace")
    scopes = "openid read:products write:products"
    code = await code_of(api.live, shop.client, ada, scopes, nonce="of this sign-in")
    answer = await visitor.exchange(shop, code)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["pragma"] == "no-cache"
    body = answer.json()
    id_token = body.pop("id_token")
    access_token, refresh_token = body.pop("access_token"), body.pop("refresh_token")
    assert access_token.startswith("oat_")
    assert refresh_token.startswith("ort_")
    assert body == {"token_type": "Bearer", "expires_in": 3600, "scope": scopes}
    assert (await visitor.me(access_token)).json()["data"]["id"] == ada.id
    claims = read(id_token)[1]
    assert len(claims.pop("at_hash")) == 22
    assert len(claims.pop("sid")) == 32
    assert claims == {
        "iss": "https://localhost:8443/auth",
        "sub": str(ada.id),
        "aud": shop.client.client_id,
        "iat": NOW,
        "exp": NOW + 3600,
        "auth_time": NOW,
        "acr": "1",
        "amr": ["pwd"],
        "nonce": "of this sign-in",
    }
    code = await code_of(api.live, shop.client, ada, "profile read:users", nonce="n")
    assert "id_token" not in (await visitor.exchange(shop, code)).json(), "without openid"


async def test_parameters_come_as_a_form_or_as_json(
    api: Api, visitor: Visitor, shop: Registered
) -> None:
    ada = await api.account()
    for content in (FORM, f"{FORM}; charset=UTF-8", "application/json", "Application/JSON"):
        grant = a_code(await code_of(api.live, shop.client, ada), shop)
        text = urlencode(grant) if "form" in content else json.dumps(grant)
        answer = await as_it_is(api, text.encode(), content)
        assert answer.status_code == 200, (content, answer.text)
    oauth_refused(await visitor.send("POST", "/auth/token", {}), 401, "invalid_client")
    for content in ("text/plain", "multipart/form-data; boundary=x", "application/jsonx", ""):
        oauth_refused(await as_it_is(api, b"{}", content), 415, "invalid_request")
    encoded = await visitor.form("token", named(shop), content_encoding="gzip")
    oauth_refused(encoded, 415, "invalid_request")


async def test_client_authenticates_by_basic_or_in_the_body(
    api: Api, visitor: Visitor, shop: Registered
) -> None:
    ada = await api.account()
    client_id, secret = shop.client.client_id, shop.secret or ""
    for basic, body in (
        ((client_id, secret), {}),
        ((client_id, secret), {"client_id": client_id}),
        ((client_id, secret), {"client_secret": ""}),
        (None, {"client_id": client_id, "client_secret": secret}),
    ):
        grant = a_code(await code_of(api.live, shop.client, ada))
        answer = await visitor.form("token", grant | body, basic=basic)
        assert answer.status_code == 200, answer.text
    pair = b64encode(f"{client_id}:{secret}".encode()).decode()
    asked = {"token": "ort_unknown"}
    answer = await visitor.form("revoke", asked, authorization=f"basic  {pair}")
    assert answer.status_code == 200


async def test_client_with_wrong_credentials_is_refused(
    api: Api, shop: Registered, till: Registered
) -> None:
    client_id, secret = shop.client.client_id, shop.secret or ""
    public = till.client.client_id
    wrong: list[tuple[tuple[str, str] | None, dict[str, str]]] = [
        (None, {}),
        (None, {"client_secret": secret}),
        (None, {"client_id": client_id}),
        (None, {"client_id": client_id, "client_secret": ""}),
        (None, {"client_id": client_id, "client_secret": secret + "x"}),
        (None, {"client_id": client_id, "client_secret": secret[:-1]}),
        (None, {"client_id": client_id.upper(), "client_secret": secret}),
        (None, {"client_id": str(shop.client.id), "client_secret": secret}),
        (None, {"client_id": public, "client_secret": secret}),
        (None, {"client_id": "\u00e9", "client_secret": secret}),
        ((client_id, "wrong"), {}),
        ((client_id, ""), {}),
        (("%ff%fe", secret), {}),
        ((public, secret), {}),
    ]
    more = {"grant_type": "refresh_token", "refresh_token": "x", "token": "x"}
    async with api.unchanged(but="audit"):
        for basic, body in wrong:
            for endpoint in ("token", "revoke", "introspect"):
                answer = await Visitor(api).form(endpoint, body | more, basic=basic)
                oauth_refused(answer, 401, "invalid_client")
                assert answer.headers["www-authenticate"].startswith("Basic ")
        for header in ("Basic", "Basic !", "Basic YQ==", "Bearer x", "Basic \u00e9", "YTpi", ""):
            # Not even where the body has all that is needed: a client authenticates in one way.
            body = {"client_id": public, **more}
            answer = await Visitor(api).form("token", body, authorization=header)
            oauth_refused(answer, 401, "invalid_client")


async def test_two_ways_to_authenticate_at_once_are_refused(
    visitor: Visitor, shop: Registered, till: Registered
) -> None:
    basic = (shop.client.client_id, shop.secret or "")
    both = {"grant_type": "refresh_token", "refresh_token": "x", **named(shop)}
    oauth_refused(await visitor.form("token", both, basic=basic), 400, "invalid_request")
    other = {"grant_type": "refresh_token", "refresh_token": "x", **named(till)}
    oauth_refused(await visitor.form("token", other, basic=basic), 400, "invalid_request")


async def test_parameter_that_comes_twice_is_refused(
    api: Api, visitor: Visitor, shop: Registered
) -> None:
    grant = a_code(await code_of(api.live, shop.client, await api.account()), shop)
    for more in ("code=x", "code=", "client_secret=x"):
        answer = await visitor.form("token", f"{urlencode(grant)}&{more}")
        oauth_refused(answer, 400, "invalid_request")
    twice = json.dumps(grant)[:-1] + ', "code": "x"}'
    answer = await as_it_is(api, twice.encode(), "application/json")
    oauth_refused(answer, 400, "invalid_request")
    assert (await visitor.form("token", grant)).status_code == 200


async def test_unknown_parameters_are_ignored_and_empty_ones_left_out(
    api: Api, visitor: Visitor, shop: Registered
) -> None:
    ada = await api.account()
    code = await code_of(api.live, shop.client, ada)
    more = {"foo": "x", "token": "", "code_verifier": "", "scope": ""}
    assert (await visitor.exchange(shop, code, **more)).status_code == 200
    grant = a_code(await code_of(api.live, shop.client, ada), shop)
    repeated = f"{urlencode(grant)}&foo=a&foo=b&a=%00"
    assert (await visitor.form("token", repeated)).status_code == 200
    grant = a_code(await code_of(api.live, shop.client, ada), shop, unknown={"a": [1]}, number=1)
    answer = await as_it_is(api, json.dumps(grant).encode(), "application/json")
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("grant_type", "error"),
    [
        ("", "invalid_request"),
        ("password", "unsupported_grant_type"),
        ("client_credentials", "unauthorized_client"),
        ("Authorization_Code", "unsupported_grant_type"),
    ],
)
async def test_other_grants_are_refused(
    api: Api, visitor: Visitor, shop: Registered, grant_type: str, error: str
) -> None:
    ada = await api.account(password="Passw0rdd")
    body = {"username": ada.email, "password": "Passw0rdd", "grant_type": grant_type}
    oauth_refused(await visitor.form("token", body | named(shop)), 400, error)


async def test_code_with_a_challenge_needs_its_verifier(
    api: Api, visitor: Visitor, shop: Registered, till: Registered
) -> None:
    ada = await api.account()
    for client in (shop, till):
        code = await code_of(api.live, client.client, ada, challenge=CHALLENGE)
        for verifier in ("", "w" * 43, VERIFIER[:-1], VERIFIER + "v", CHALLENGE, "\u00e9"):
            answer = await visitor.exchange(client, code, code_verifier=verifier)
            oauth_refused(answer, 400, "invalid_grant")
        oauth_refused(await visitor.exchange(client, code), 400, "invalid_grant")
        answer = await visitor.exchange(client, code, code_verifier=VERIFIER)
        assert answer.status_code == 200
    code = await code_of(api.live, shop.client, ada)
    answer = await visitor.exchange(shop, code, code_verifier=VERIFIER)
    oauth_refused(answer, 400, "invalid_grant")


async def test_code_is_for_its_own_client_and_redirect_uri(api: Api, visitor: Visitor) -> None:
    ada = await api.account()
    loopback = "http://127.0.0.1:51004/cb"
    uris = (CALLBACK, "https://shop.example/other", loopback)
    one, other = [await client_of(api.live, redirect_uris=uris) for _ in range(2)]
    for own, others in (
        (CALLBACK, [*uris[1:], CALLBACK + "/", CALLBACK + "?", CALLBACK.upper(), "x"]),
        (loopback, ["http://127.0.0.1:51005/cb"]),
    ):
        code = await code_of(api.live, one.client, ada, redirect_uri=own)
        async with api.unchanged():
            oauth_refused(await visitor.exchange(other, code, own), 400, "invalid_grant")
            for uri in others:
                oauth_refused(await visitor.exchange(one, code, uri), 400, "invalid_grant")
        bought = (await visitor.exchange(one, code, own)).json()
        async with api.unchanged():
            oauth_refused(await visitor.exchange(other, code, own), 400, "invalid_grant")
        assert (await visitor.me(bought["access_token"])).status_code == 200
    for malformed in ("x", "oac_" + "A" * 43, "\u00e9", "x" * 12_000):
        oauth_refused(await visitor.exchange(one, malformed), 400, "invalid_grant")


async def test_scopes_beyond_the_role_are_left_out_and_the_answer_says_so(
    api: Api, visitor: Visitor, shop: Registered
) -> None:
    for role, asked, left in (
        ("viewer", "read:products write:products", "read:products"),
        ("editor", "openid read:users admin", "openid read:users read:products write:products"),
        ("viewer", "admin", "read:users read:products"),
        ("admin", "admin", "admin"),
        ("viewer", "write:users", ""),
    ):
        ada, _ = [await api.account("admin") for _ in range(2)]
        code = await code_of(api.live, shop.client, ada, asked)
        await set_role(api.live, ada.email, role, OPERATOR)
        scope = (await visitor.exchange(shop, code)).json()["scope"]
        assert set(scope.split()) == set(left.split()), (role, asked)


async def test_wrong_client_secrets_are_audited_up_to_the_rate_limit(
    api: Api, shop: Registered
) -> None:
    visitor = Visitor(api)
    for number in range(32):
        posing = (shop.client.client_id, "ocs_wrong")
        refused = await visitor.form("token", {"grant_type": "refresh_token"}, basic=posing)
        assert refused.status_code == (401 if number < 30 else 429)
    entries = await api.live[Audit].page(AuditFilter(action="client.refused"), limit=99)
    assert len(entries) == 30
    assert {entry.target_id for entry in entries} == {shop.client.client_id}
    assert "ocs_wrong" not in str(entries)
    in_body = await visitor.form("introspect", {"token": "none", **named(shop)})
    assert in_body.status_code == 429, "of this address"
    right = (shop.client.client_id, shop.secret or "")
    in_header = await visitor.form("introspect", {"token": "none"}, basic=right)
    assert in_header.json() == {"active": False}


@pytest.mark.parametrize("name", ["grant_type", "code", "redirect_uri", "client_secret"])
async def test_missing_parameter_or_one_of_another_type_is_refused(
    api: Api, shop: Registered, name: str
) -> None:
    grant = a_code(await code_of(api.live, shop.client, await api.account()), shop)
    async with api.unchanged(but="audit" if name == "client_secret" else ""):
        for value in (1, None, True, [grant[name]], {"a": grant[name]}):
            body = json.dumps({**grant, name: value}).encode()
            answer = await as_it_is(api, body, "application/json")
            oauth_refused(answer, 400, "invalid_request")
        del grant[name]
        answer = await Visitor(api).form("token", grant)
        secret = name == "client_secret"
        oauth_refused(answer, *(401, "invalid_client") if secret else (400, "invalid_request"))


async def test_unreadable_form_is_refused(api: Api, shop: Registered) -> None:
    for body, alone in (
        (b"", (401, "invalid_client")),
        (b"a=%00", (401, "invalid_client")),
        (b"&&=", (401, "invalid_client")),
        (b"\xff", (400, "invalid_request")),
        (b"grant_type=%ff", (400, "invalid_request")),
        (b"a&" * 60, (400, "invalid_request")),
    ):
        oauth_refused(await as_it_is(api, body), *alone)
        answer = await as_it_is(api, f"{urlencode(named(shop))}&".encode() + body)
        oauth_refused(answer, 400, "invalid_request")
    large = urlencode({**named(shop), "code": "x" * 16_384})
    oauth_refused(await as_it_is(api, large.encode()), 413, "invalid_request")
