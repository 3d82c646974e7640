"""What a refusal tells programs about their credential (RFC 6750 §3)."""

import pytest

from driving import BASE, Api, challenge, refused
from signing_in import (
    AUTH,
    Visitor,
    client_of,
    login_of,
    oauth_refused,
    session_of,
    somewhere,
    tokens_of,
)

pytestmark = pytest.mark.one_engine

INVALID = 'Bearer error="invalid_token"'


async def test_challenge_without_a_token_names_no_error(visitor: Visitor) -> None:
    for headers in ({}, {"authorization": "Basic eDp5"}, {"authorization": "Bearer=x"}):
        answer = await visitor.send("GET", f"{BASE['live']}/users", **headers)
        refused(answer, 401, "AUTHENTICATION_REQUIRED")
        assert challenge(answer) == "Bearer"
    answer = await visitor.send("GET", f"{BASE['live']}/users", cookie="gone")
    refused(answer, 401, "AUTHENTICATION_REQUIRED")
    assert challenge(answer) == "Bearer"
    answer = await visitor.log_in("nobody@example.com")
    refused(answer, 401, "AUTHENTICATION_REQUIRED")
    assert challenge(answer) == "Bearer"


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
        tx.invalidate_all()
        await tx.run("UPDATE api_keys SET revoked_at = :now", {"now": api.clock()})
        await tx.run("UPDATE grants SET revoked_at = :now", {"now": api.clock()})
    for token in [*tokens, *ended]:
        for path in ("/users/me", "/nowhere"):
            answer = await visitor.send("GET", BASE["live"] + path, bearer=token)
            refused(answer, 401, "AUTHENTICATION_REQUIRED")
            assert challenge(answer) == INVALID, token
        answer = await visitor.send("GET", f"{AUTH['live']}/userinfo", bearer=token)
        assert challenge(answer) == INVALID, token


async def test_challenge_names_the_missing_scope(api: Api, visitor: Visitor) -> None:
    admin, editor = await api.account("admin"), await api.account("editor")
    application = (await client_of(api.live)).client
    reads = {"bearer": (await tokens_of(api.live, application, editor, "read:users")).access_token}
    names = {"bearer": (await tokens_of(api.live, application, editor, "openid")).access_token}
    writes = {"bearer": (await tokens_of(api.live, application, admin, "write:users")).access_token}
    cookie = {"cookie": await session_of(api.live, editor)}
    for method, path, body, sent, scope in (
        ("GET", "/products", None, reads, "read:products"),
        ("POST", "/products", {}, reads, "write:products"),
        ("GET", "/users/me", None, names, "read:users"),
        ("POST", "/users", {}, cookie, "write:users"),
        ("PATCH", f"/users/{admin.id}", {"name": "Changed"}, cookie, "write:users"),
        ("PATCH", "/users/me", {"name": "Changed"}, reads, "write:users"),
        ("PATCH", "/users/me", {"name": "Changed"}, writes, "admin"),
        ("PATCH", f"/users/{editor.id}", {"role": "admin"}, writes, "admin"),
        ("DELETE", f"/users/{admin.id}", None, writes, "admin"),
    ):
        answer = await visitor.send(method, BASE["live"] + path, body, **sent)
        refused(answer, 403, "PERMISSION_DENIED")
        told = challenge(answer)
        assert told == f'Bearer error="insufficient_scope", scope="{scope}"', path
    answer = await visitor.send("GET", f"{AUTH['live']}/userinfo", **reads)
    refused(answer, 403, "PERMISSION_DENIED")
    assert 'scope="openid"' in challenge(answer)


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


async def test_two_authorization_headers_are_refused(api: Api) -> None:
    caller = await api.caller("admin")
    good, bad = (("authorization", f"Bearer {text}") for text in (caller.key, "x"))
    for known in (False, True):
        if known:
            assert (await caller.get("/users/me")).status_code == 200
        for headers in ([good, bad], [bad, good], [good, good]):
            for path in ("/v1/users/me", "/auth/userinfo"):
                answer = await somewhere(api).exchange("GET", path, headers)
                refused(answer, 401, "AUTHENTICATION_REQUIRED")
                assert challenge(answer) == 'Bearer error="invalid_request"'
    shop = (await client_of(api.live)).client.client_id
    basic = ("authorization", "Basic eDp5")
    form = ("content-type", "application/x-www-form-urlencoded")
    body = f"client_id={shop}&token=x".encode()
    answer = await somewhere(api).exchange("POST", "/auth/revoke", [basic, basic, form], body)
    oauth_refused(answer, 400, "invalid_request")
