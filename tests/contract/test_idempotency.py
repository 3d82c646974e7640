"""Requests that are sent again with the same Idempotency-Key (decisions §7)."""

import asyncio
import hmac
from hashlib import sha256
from typing import Any

import httpx
import pytest

from driving import Api, Caller, InProcess, json_bytes, refused
from kinds import KINDS, create
from owned import keys_of, sessions_of
from portico.core.audit import OPERATOR
from portico.features.access.api_keys import revoke_key
from portico.features.people.storage import Users
from signing_in import COOKIE, PASSWORD, client_of, session_of, tokens_of

one_engine = pytest.mark.one_engine

LAMP = KINDS["/products"].new(0)
EVE = KINDS["/users"].new(0)
ONCE = {"idempotency-key": "order-17"}

ROTATE = "/api-keys/rotate"
CREATIONS: dict[str, dict[str, Any] | None] = {
    **{path: kind.new(0) for path, kind in KINDS.items()},
    ROTATE: None,
    "/webhooks/{webhook}/rotate-secret": None,
    "/webhooks/{webhook}/test": None,
}
"""Every POST that is repeated safely, with its body."""
SECRETS = ("key", "secret")


async def filled(admin: Caller, path: str) -> str:
    """The path with a new webhook."""
    if "{webhook}" not in path:
        return path
    return path.replace("/webhooks/{webhook}", await create(admin, "/webhooks"))


def replayed(answer: httpx.Response) -> bool:
    return bool(answer.headers.get("idempotent-replayed") == "true")


async def count_products(client: httpx.AsyncClient) -> int:
    answer = await client.get("/products?status=draft")
    return int(answer.json()["pagination"]["total_items"])


@pytest.mark.parametrize("path", CREATIONS)
async def test_a_repeated_post_has_one_effect_and_one_answer_without_its_secret(
    api: Api, path: str
) -> None:
    admin = await api.caller("admin")
    same_account = await api.caller("admin", user=admin.user)
    where, body = await filled(admin, path), CREATIONS[path]
    first = await admin.post(where, json=body, headers=ONCE)
    assert first.status_code in (201, 202), first.text
    assert not replayed(first)
    shown = first.json()
    secrets = [
        data.pop(name) for data in [shown.get("data", {})] for name in SECRETS if name in data
    ]
    async with api.unchanged():
        for caller in (admin,) if path == ROTATE else (admin, same_account):
            again = await caller.post(where, json=body, headers=ONCE)
            assert replayed(again)
            assert again.status_code == first.status_code
            assert again.headers.get("location") == first.headers.get("location")
            assert again.headers["x-request-id"] != first.headers["x-request-id"]
            assert again.json() == shown
            assert again.content == first.content or secrets
        other = {"typo": 1} if body is None else KINDS[path].new(1)
        status, field = (400, "typo") if body is None else (422, "Idempotency-Key")
        answer = await admin.post(where, json=other, headers=ONCE)
        assert refused(answer, status, "VALIDATION_ERROR").keys() == {field}
    assert not [secret for secret in secrets if secret in str(await api.state())]


@pytest.mark.parametrize("path", ["/products", ROTATE])
async def test_one_of_ten_processes_with_one_key_has_an_effect(api: Api, path: str) -> None:
    admin = await api.caller("admin")
    places = [api.beside() for _ in range(10)]
    answers = await asyncio.gather(
        *(
            Caller(place, admin.user, admin.record, admin.key, "live").post(
                path, json=CREATIONS[path], headers=ONCE
            )
            for place in places
        )
    )
    assert [answer.status_code for answer in answers] == [201] * 10
    assert len({answer.json()["data"]["id"] for answer in answers}) == 1
    assert sorted(map(replayed, answers)) == [False] + [True] * 9
    shown = [name for answer in answers for name in SECRETS if name in answer.json()["data"]]
    assert len(shown) == (path == ROTATE)


async def test_a_repeat_is_409_while_the_first_attempt_is_in_progress(api: Api) -> None:
    admin = await api.caller("admin")
    async with api.live.db.transaction() as tx:
        await api.live[Users].get(admin.user.id, tx)  # locks it, as a change does
        attempts = [
            asyncio.create_task(admin.post("/products", json=LAMP, headers=ONCE)) for _ in range(2)
        ]
        (repeat,), (first,) = await asyncio.wait(attempts, return_when=asyncio.FIRST_COMPLETED)
    refused(repeat.result(), 409, "CONFLICT")
    assert (await first).status_code == 201
    assert await count_products(admin) == 1


# What a key belongs to


async def test_a_key_belongs_to_its_account_environment_route_and_resource(api: Api) -> None:
    ada, bob = await api.caller("admin"), await api.caller("editor")
    sandbox = await api.caller("admin", "test", user=ada.user)
    for caller in (ada, bob, sandbox):
        answer = await caller.post("/products", json=LAMP, headers=ONCE)
        assert (answer.status_code, replayed(answer)) == (201, False)
    assert (await ada.post("/users", json=EVE, headers=ONCE)).status_code == 201
    assert (await count_products(ada), await count_products(sandbox)) == (2, 1)
    for where in [await create(ada, "/webhooks", number) for number in range(2)]:
        rotated = await ada.post(f"{where}/rotate-secret", headers=ONCE)
        assert not replayed(rotated)
        assert where == f"/webhooks/{rotated.json()['data']['id']}"
    for caller in (ada, await api.caller(user=ada.user)):
        rotated = await caller.post(ROTATE, headers=ONCE)
        assert not replayed(rotated)
        assert rotated.json()["data"]["previous_key"]["id"] == caller.record.id


async def test_a_session_cannot_replay_the_rotation_of_a_key_with_its_id(api: Api) -> None:
    caller = await api.caller("viewer")
    secret = await session_of(api.live, caller.user)
    (session,) = await sessions_of(api.live, caller.user.id, api.clock())
    assert session.id == caller.record.id
    by_session = {"cookie": f"{COOKIE}={secret}", **ONCE}
    refused(await api.stranger().post(ROTATE, headers=by_session), 403)
    assert "key" in (await caller.post(ROTATE, headers=ONCE)).json()["data"]
    refused(await api.stranger().post(ROTATE, headers=by_session), 403)


async def test_a_narrow_credential_neither_binds_nor_replays_what_it_may_not_do(api: Api) -> None:
    admin = await api.caller("admin")
    shop = await client_of(api.live, admin.user)
    pair = await tokens_of(api.live, shop.client, admin.user, "write:users")
    narrow = api.stranger(authorization=f"Bearer {pair.access_token}")
    boss = {**EVE, "role": "admin"}
    refused(await narrow.post("/users", json=boss, headers=ONCE), 403)
    assert (await admin.post("/users", json=boss, headers=ONCE)).status_code == 201
    for body in (boss, {**boss, "name": "Zoe"}):
        refused(await narrow.post("/users", json=body, headers=ONCE), 403)


# What is kept


async def test_a_key_is_forgotten_after_exactly_24_hours(api: Api) -> None:
    editor = await api.caller("editor", plan="free")
    await editor.post("/products", json=LAMP, headers=ONCE)
    api.clock.advance(days=1, milliseconds=-1)
    again = await editor.post("/products", json=LAMP, headers=ONCE)
    assert replayed(again)
    assert again.headers["x-ratelimit-remaining"] == "29", "a replay counts"
    api.clock.advance(milliseconds=1)
    for expected in (False, True):
        anew = await editor.post("/products", json={**LAMP, "price": 13}, headers=ONCE)
        assert replayed(anew) is expected
    assert await count_products(editor) == 2


async def test_a_refusal_by_validation_is_not_kept_and_one_after_it_is(api: Api) -> None:
    admin = await api.caller("admin")
    expired = {**KINDS["/api-keys"].new(0), "expires_at": "2001-01-01T00:00:00Z"}
    for path, wrong, status in (
        ("/products", {"name": "x"}, 400),
        ("/products", {**LAMP, "price": -1}, 422),
        ("/api-keys", expired, 422),
    ):
        async with api.unchanged():
            refused(await admin.post(path, json=wrong, headers=ONCE), status, "VALIDATION_ERROR")
    for path in ("/products", "/api-keys"):
        mended = await admin.post(path, json=KINDS[path].new(0), headers=ONCE)
        assert (mended.status_code, replayed(mended)) == (201, False)
    taken = {**EVE, "email": admin.user.email}
    first = await admin.post("/users", json=taken, headers=ONCE)
    refused(first, 409, "DUPLICATE_RESOURCE")
    again = await admin.post("/users", json=taken, headers=ONCE)
    assert (again.status_code, again.content, replayed(again)) == (409, first.content, True)


@pytest.mark.parametrize("path", ["/products", ROTATE])
async def test_a_refusal_of_a_key_revoked_meanwhile_is_not_kept(api: Api, path: str) -> None:
    first = await api.caller("editor")
    second = await api.caller(user=first.user)

    async def revoke() -> None:
        await revoke_key(api.live, first.record.id, OPERATOR)

    body = json_bytes(CREATIONS[path] or {})
    sent = [("content-type", "application/json"), *ONCE.items()]
    headers = [("authorization", f"Bearer {first.key}"), *sent]
    answer = await InProcess(api).exchange("POST", f"/v1{path}", headers, revoke, body)
    refused(answer, 401, "AUTHENTICATION_REQUIRED")
    keys = await keys_of(api.live, first.user.id)
    assert (len(keys), await count_products(second)) == (2, 0)
    again = await second.post(path, content=body, headers=dict(sent))
    assert (again.status_code, replayed(again)) == (201, False)


@one_engine
async def test_the_kept_digest_of_a_body_needs_the_key_which_is_not_kept(api: Api) -> None:
    admin = await api.caller("admin")
    body = json_bytes(EVE)
    headers = {**ONCE, "content-type": "application/json"}
    assert (await admin.post("/users", content=body, headers=headers)).status_code == 201
    held = str(await api.live.db.all("SELECT * FROM idempotency_keys"))
    for stored in (body, sha256(body).digest(), sha256(PASSWORD.encode()).digest()):
        assert repr(stored)[2:-1] not in held
    assert repr(hmac.digest(b"order-17", body, "sha256")) in held


# Requests


@one_engine
async def test_a_malformed_or_repeated_header_is_refused(api: Api) -> None:
    editor = await api.caller("editor")
    async with api.unchanged():
        for keys in ([""], ["with space"], ["x" * 256], ["ä"], ["one", "two"]):
            headers = [(b"idempotency-key", key.encode("latin-1")) for key in keys]
            answer = await editor.post("/products", json=LAMP, headers=headers)
            assert "Idempotency-Key" in refused(answer, 400, "VALIDATION_ERROR")


@one_engine
async def test_sign_in_ignores_the_key(api: Api) -> None:
    user = await api.account(password=PASSWORD)
    body = {"email": user.email, "password": PASSWORD}
    answers = [await api.stranger().post("/sessions", json=body, headers=ONCE) for _ in range(2)]
    assert [(answer.status_code, replayed(answer)) for answer in answers] == [(201, False)] * 2
    assert len({answer.headers["set-cookie"] for answer in answers}) == 2
