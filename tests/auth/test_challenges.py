"""What a refusal tells programs about their credential (RFC 6750 §3)."""

import pytest

from driving import BASE, Api, refused
from signing_in import (
    AUTH,
    Visitor,
    client_of,
    login_of,
    named,
    oauth_refused,
    session_of,
    somewhere,
    tokens_of,
)

pytestmark = pytest.mark.one_engine

INVALID = 'Bearer error="invalid_token"'
TWICE = 'Bearer error="invalid_request"'


async def test_challenge_without_a_token_names_no_error(visitor: Visitor) -> None:
    for headers in ({}, {"authorization": "Basic eDp5"}, {"authorization": "Bearer=x"}):
        answer = await visitor.send("GET", f"{BASE['live']}/users", **headers)
        refused(answer, 401, "AUTHENTICATION_REQUIRED")
        assert answer.headers["www-authenticate"] == "Bearer"
    answer = await visitor.send("GET", f"{BASE['live']}/users", cookie="gone")
    refused(answer, 401, "AUTHENTICATION_REQUIRED")
    assert answer.headers["www-authenticate"] == "Bearer"
    answer = await visitor.log_in("nobody@example.com")
    refused(answer, 401, "AUTHENTICATION_REQUIRED")
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_challenge_for_an_invalid_token_names_invalid_token(
    api: Api, visitor: Visitor
) -> None:
    caller = await api.caller("viewer")
    login = await login_of(api.live, caller.user)
    application = await client_of(api.live)
    consent = await tokens_of(api.live, application.client, caller.user)
    elsewhere = (await api.caller("viewer", "test")).key
    tokens = [caller.key[:-1], "", "x", "sk_live_x", elsewhere, "oat_x", "a.b.c"]
    ended = [caller.key, login.access_token, consent.access_token]
    for token in ended:
        assert (await visitor.me(token)).status_code == 200
    async with api.live.db.transaction() as tx:
        tx.touch_all()
        await tx.run("UPDATE api_keys SET revoked_at = :now", {"now": api.clock()})
        await tx.run("UPDATE grants SET revoked_at = :now", {"now": api.clock()})
    for token in [*tokens, *ended]:
        for path in ("/users/me", "/nowhere"):
            answer = await visitor.send("GET", BASE["live"] + path, bearer=token)
            refused(answer, 401, "AUTHENTICATION_REQUIRED")
            assert answer.headers["www-authenticate"] == INVALID, token
        answer = await visitor.send("GET", f"{AUTH['live']}/userinfo", bearer=token)
        assert answer.headers["www-authenticate"] == INVALID, token


async def test_challenge_names_the_missing_scope(api: Api, visitor: Visitor) -> None:
    editor = await api.account("editor")
    application = await client_of(api.live)
    reads = (await tokens_of(api.live, application.client, editor, "read:users")).access_token
    identity = (await tokens_of(api.live, application.client, editor, "openid")).access_token
    cookie = await session_of(api.live, editor)
    for method, path, sent, scope in (
        ("GET", "/products", {"bearer": reads}, "read:products"),
        ("POST", "/products", {"bearer": reads}, "write:products"),
        ("POST", "/users", {"bearer": reads}, "write:users"),
        ("GET", "/users/me", {"bearer": identity}, "read:users"),
        ("POST", "/users", {"cookie": cookie}, "write:users"),
    ):
        answer = await visitor.send(method, BASE["live"] + path, {}, **sent)
        refused(answer, 403, "PERMISSION_DENIED")
        told = answer.headers["www-authenticate"]
        assert told == f'Bearer error="insufficient_scope", scope="{scope}"'
    answer = await visitor.send("GET", f"{AUTH['live']}/userinfo", bearer=reads)
    refused(answer, 403, "PERMISSION_DENIED")
    assert 'scope="openid"' in answer.headers["www-authenticate"]


async def test_challenge_names_the_scope_missing_to_change_users(
    api: Api, visitor: Visitor
) -> None:
    admin, editor = await api.account("admin"), await api.account("editor")
    application = await client_of(api.live)
    reads = (await tokens_of(api.live, application.client, editor, "read:users")).access_token
    writes = (await tokens_of(api.live, application.client, admin, "write:users")).access_token
    cookie = await session_of(api.live, editor)
    for method, path, body, sent, scope in (
        ("PATCH", f"/users/{admin.id}", {"name": "Changed"}, {"cookie": cookie}, "write:users"),
        ("PATCH", "/users/me", {"name": "Changed"}, {"bearer": reads}, "write:users"),
        ("PATCH", "/users/me", {"role": "viewer"}, {"cookie": cookie}, "write:users"),
        ("PATCH", "/users/me", {"name": "Changed"}, {"bearer": writes}, "admin"),
        ("PATCH", f"/users/{editor.id}", {"role": "admin"}, {"bearer": writes}, "admin"),
        ("DELETE", f"/users/{admin.id}", None, {"bearer": writes}, "admin"),
    ):
        answer = await visitor.send(method, BASE["live"] + path, body, **sent)
        refused(answer, 403, "PERMISSION_DENIED")
        told = answer.headers.get("www-authenticate")
        assert told == f'Bearer error="insufficient_scope", scope="{scope}"', path


async def test_refusal_without_a_missing_scope_has_no_challenge(api: Api, visitor: Visitor) -> None:
    reader = await api.caller("admin", "read")
    application = await client_of(api.live)
    token = (await tokens_of(api.live, application.client, reader.user, "admin")).access_token
    for answer in (
        await reader.post("/products", json={}),
        await reader.delete("/nowhere"),
        await visitor.send("POST", f"{BASE['live']}/api-keys", {}, bearer=token),
    ):
        refused(answer, 403, "PERMISSION_DENIED")
        assert "www-authenticate" not in answer.headers


async def test_openid_token_opens_userinfo_alone(api: Api, visitor: Visitor) -> None:
    application = await client_of(api.live)
    for role in ("viewer", "admin"):
        ada = await api.account(role)
        for scopes in ("openid", "openid profile email"):
            pair = await tokens_of(api.live, application.client, ada, scopes)
            async with api.unchanged():
                for method, path, body in (
                    ("GET", "/users/me", None),
                    ("PATCH", "/users/me", {"name": "Changed"}),
                    ("PATCH", f"/users/{ada.id}", {"name": "Changed"}),
                    ("POST", "/api-keys/rotate", None),
                    ("DELETE", "/sessions", None),
                ):
                    url = BASE["live"] + path
                    answer = await visitor.send(method, url, body, bearer=pair.access_token)
                    refused(answer, 403, "PERMISSION_DENIED")
            answer = await visitor.send("GET", f"{BASE['live']}/nowhere", bearer=pair.access_token)
            refused(answer, 404, "RESOURCE_NOT_FOUND")
            url = f"{AUTH['live']}/userinfo"
            answer = await visitor.send("GET", url, bearer=pair.access_token)
            assert answer.json()["sub"] == str(ada.id)


@pytest.mark.parametrize("order", ["the good one first", "the good one last", "twice the same"])
async def test_two_authorization_headers_are_refused(api: Api, order: str) -> None:
    caller = await api.caller("admin")
    good, bad = (("authorization", f"Bearer {text}") for text in (caller.key, "x"))
    sent = {"the good one first": [good, bad], "the good one last": [bad, good]}
    for known in (False, True):
        if known:
            assert (await caller.get("/users/me")).status_code == 200
        for method, path in (("GET", "/v1/users/me"), ("GET", "/auth/userinfo"), ("POST", "/v1/x")):
            headers = sent.get(order, [good, good])
            answer = await somewhere(api).exchange(method, path, headers)
            refused(answer, 401, "AUTHENTICATION_REQUIRED")
            assert answer.headers["www-authenticate"] == TWICE


async def test_two_authorization_headers_of_a_client_are_refused(api: Api) -> None:
    application = await client_of(api.live)
    basic = ("authorization", "Basic eDp5")
    form = ("content-type", "application/x-www-form-urlencoded")
    body = f"client_id={named(application)['client_id']}&token=x".encode()
    answer = await somewhere(api).exchange("POST", "/auth/revoke", [basic, basic, form], body)
    oauth_refused(answer, 400, "invalid_request")
