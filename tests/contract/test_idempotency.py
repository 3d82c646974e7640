"""Requests that are sent again with the same Idempotency-Key (decisions §7)."""

import asyncio
import hmac
import json
from hashlib import sha256
from typing import Any

import httpx
import pytest

from driving import Api, Caller, InProcess, json_bytes, refused
from owned import sessions_of
from portico.domain.audit import OPERATOR
from portico.services.api_keys import revoke_key
from signing_in import COOKIE, client_of, session_of, tokens_of

EVE = {"name": "Eve", "email": "eve@example.com", "password": "Analytical1"}
PRODUCT = {"name": "Lamp", "category": "light", "price": 12.5}


def keyed(key: str = "order-17") -> dict[str, str]:
    return {"idempotency-key": key}


async def total(client: httpx.AsyncClient) -> int:
    answer = await client.get("/products?status=draft")
    return int(answer.json()["pagination"]["total_items"])


async def test_a_repeated_post_is_answered_as_before_and_has_no_second_effect(api: Api) -> None:
    editor = await api.caller("editor")
    first = await editor.post("/products", json=PRODUCT, headers=keyed())
    again = await editor.post("/products", json=PRODUCT, headers=keyed())
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert again.headers["location"] == first.headers["location"]
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    assert again.headers["x-request-id"] != first.headers["x-request-id"]
    assert await total(editor) == 1


async def test_another_body_with_the_same_key_is_refused(api: Api) -> None:
    editor = await api.caller("editor")
    await editor.post("/products", json=PRODUCT, headers=keyed())
    other = await editor.post("/products", json={**PRODUCT, "price": 13}, headers=keyed())
    assert "Idempotency-Key" in refused(other, 422, "VALIDATION_ERROR")
    assert await total(editor) == 1


async def test_an_empty_object_is_the_same_as_no_body(api: Api) -> None:
    caller = await api.caller("viewer")
    rotated = await caller.post("/api-keys/rotate", headers=keyed())
    assert rotated.status_code == 201
    async with api.unchanged():
        again = await caller.post("/api-keys/rotate", json={}, headers=keyed())
        assert again.status_code == 201
        assert again.json()["data"]["id"] == rotated.json()["data"]["id"]
        assert again.headers["idempotent-replayed"] == "true"
        typo = await caller.post("/api-keys/rotate", json={"typo": 1}, headers=keyed())
        assert "typo" in refused(typo, 400, "VALIDATION_ERROR")


async def test_a_key_belongs_to_its_account_its_environment_and_its_route(api: Api) -> None:
    ada = await api.caller("admin")
    bob = await api.caller("editor")
    sandbox = await api.caller("admin", "test", user=ada.user)
    user = {"name": "Eve", "email": "eve@example.com", "password": "Analytical1"}
    for caller in (ada, bob, sandbox):
        answer = await caller.post("/products", json=PRODUCT, headers=keyed())
        assert answer.status_code == 201
        assert "idempotent-replayed" not in answer.headers
    assert (await ada.post("/users", json=user, headers=keyed())).status_code == 201
    assert await total(ada) == 2
    assert await total(sandbox) == 1


async def test_a_key_that_was_used_for_one_resource_is_new_to_another(api: Api) -> None:
    admin = await api.caller("admin")
    webhook = {"url": "https://hooks.example.com/in", "types": ["*"]}
    made = [(await admin.post("/webhooks", json=webhook)).json()["data"]["id"] for _ in range(2)]
    for webhook_id in made:
        rotated = await admin.post(f"/webhooks/{webhook_id}/rotate-secret", headers=keyed())
        assert "idempotent-replayed" not in rotated.headers
        assert rotated.json()["data"]["id"] == webhook_id


async def test_any_credential_of_the_account_may_repeat_a_request(api: Api) -> None:
    first = await api.caller("editor")
    second = await api.caller("editor", user=first.user)
    await first.post("/products", json=PRODUCT, headers=keyed())
    again = await second.post("/products", json=PRODUCT, headers=keyed())
    assert again.headers["idempotent-replayed"] == "true"


async def test_a_key_is_forgotten_after_24_hours_exactly(api: Api) -> None:
    editor = await api.caller("editor")
    await editor.post("/products", json=PRODUCT, headers=keyed())
    api.clock.advance(days=1, milliseconds=-1)
    again = await editor.post("/products", json=PRODUCT, headers=keyed())
    assert again.headers["idempotent-replayed"] == "true"
    api.clock.advance(milliseconds=1)
    other = {**PRODUCT, "price": 13}
    anew = await editor.post("/products", json=other, headers=keyed())
    assert "idempotent-replayed" not in anew.headers
    again = await editor.post("/products", json=other, headers=keyed())
    assert again.headers["idempotent-replayed"] == "true"
    assert again.content == anew.content
    assert await total(editor) == 2


async def test_what_fails_validation_is_not_kept(api: Api) -> None:
    editor = await api.caller("editor")
    refused(await editor.post("/products", json={"name": "x"}, headers=keyed()), 400)
    refused(await editor.post("/products", json={**PRODUCT, "price": -1}, headers=keyed()), 422)
    mended = await editor.post("/products", json=PRODUCT, headers=keyed())
    assert mended.status_code == 201
    assert "idempotent-replayed" not in mended.headers


async def test_nor_is_what_is_only_found_wrong_as_it_is_carried_out(api: Api) -> None:
    admin = await api.caller("admin")
    past = {"name": "Shop", "type": "live", "expires_at": "2001-01-01T00:00:00Z"}
    refused(await admin.post("/api-keys", json=past, headers=keyed()), 422, "VALIDATION_ERROR")
    mended = past | {"expires_at": "2101-01-01T00:00:00Z"}
    assert (await admin.post("/api-keys", json=mended, headers=keyed())).status_code == 201


async def test_a_refusal_after_validation_is_kept(api: Api) -> None:
    admin = await api.caller("admin")
    user = {"name": "Eve", "email": admin.user.email, "password": "Analytical1"}
    first = await admin.post("/users", json=user, headers=keyed())
    refused(first, 409, "DUPLICATE_RESOURCE")
    again = await admin.post("/users", json=user, headers=keyed())
    assert again.content == first.content
    assert again.status_code == 409
    assert again.headers["idempotent-replayed"] == "true"


async def test_a_refusal_of_the_credential_binds_no_other(api: Api) -> None:
    admin = await api.caller("admin")
    shop = await client_of(api.live, admin.user)
    pair = await tokens_of(api.live, shop.client, admin.user, "write:users")
    boss = {**EVE, "role": "admin"}
    headers = {"authorization": f"Bearer {pair.access_token}", **keyed()}
    refused(await api.stranger().post("/users", json=boss, headers=headers), 403)
    assert (await admin.post("/users", json=boss, headers=keyed())).status_code == 201


async def test_an_answer_is_replayed_to_nobody_who_could_not_have_asked_for_it(api: Api) -> None:
    admin = await api.caller("admin")
    shop = await client_of(api.live, admin.user)
    pair = await tokens_of(api.live, shop.client, admin.user, "write:users")
    narrow = {"authorization": f"Bearer {pair.access_token}", **keyed()}
    boss = {**EVE, "role": "admin"}
    assert (await admin.post("/users", json=boss, headers=keyed())).status_code == 201
    refused(await api.stranger().post("/users", json=boss, headers=narrow), 403)
    changed = {**boss, "name": "Zoe"}
    refused(await api.stranger().post("/users", json=changed, headers=narrow), 403)


async def test_a_key_that_is_revoked_as_it_is_rotated_is_told_so(api: Api) -> None:
    caller = await api.caller("viewer")
    sent = [("authorization", f"Bearer {caller.key}"), ("content-type", "application/json")]

    async def revoked() -> None:
        await revoke_key(api.live, caller.record.id, OPERATOR)

    answer = await InProcess(api).exchange("POST", "/v1/api-keys/rotate", sent, revoked, b"{}")
    refused(answer, 401)


async def test_a_request_whose_credential_ended_may_come_again_with_another(api: Api) -> None:
    first = await api.caller("editor")
    second = await api.caller(user=first.user)
    body = json_bytes(PRODUCT)
    sent = [("content-type", "application/json"), *keyed().items()]

    async def revoked() -> None:
        await revoke_key(api.live, first.record.id, OPERATOR)

    headers = [("authorization", f"Bearer {first.key}"), *sent]
    answer = await InProcess(api).exchange("POST", "/v1/products", headers, revoked, body)
    refused(answer, 401)
    again = await second.post("/products", content=body, headers=dict(sent))
    assert (again.status_code, await total(second)) == (201, 1)


async def test_a_session_has_no_part_in_the_rotation_of_a_key_with_the_same_id(api: Api) -> None:
    caller = await api.caller("viewer")
    secret = await session_of(api.live, caller.user)
    (session,) = await sessions_of(api.live, caller.user.id, api.clock())
    assert session.id == caller.record.id
    by_session = {"cookie": f"{COOKIE}={secret}", **keyed()}
    refused(await api.stranger().post("/api-keys/rotate", headers=by_session), 403)
    rotated = await caller.post("/api-keys/rotate", headers=keyed())
    assert "key" in rotated.json()["data"]
    refused(await api.stranger().post("/api-keys/rotate", headers=by_session), 403)


async def test_a_replayed_rotation_leaves_the_secret_out_and_keeps_none(api: Api) -> None:
    caller = await api.caller("viewer")
    first = await caller.post("/api-keys/rotate", headers=keyed())
    secret = first.json()["data"]["key"]
    again = await caller.post("/api-keys/rotate", headers=keyed())
    assert again.status_code == 201
    assert again.headers["idempotent-replayed"] == "true"
    shown = again.json()["data"]
    assert again.headers["location"] == first.headers["location"]
    assert "key" not in shown
    assert shown == {name: v for name, v in first.json()["data"].items() if name != "key"}
    rows = await api.live.db.all("SELECT body FROM idempotency_keys")
    assert len(rows) == 1
    assert secret.encode() not in bytes(rows[0][0])


@pytest.mark.parametrize("kept_before", [(), (("cache-control", "no-store"),)])
async def test_a_replay_has_one_cache_control_also_where_its_answer_was_kept_with_one(
    api: Api, kept_before: tuple[tuple[str, str], ...]
) -> None:
    caller = await api.caller("viewer")
    await caller.post("/api-keys/rotate", headers=keyed())
    (row,) = await api.live.db.all("SELECT headers FROM idempotency_keys")
    headers = json.dumps([*json.loads(row[0]), *kept_before])
    async with api.live.db.transaction() as tx:
        await tx.run("UPDATE idempotency_keys SET headers = :headers", {"headers": headers})
    again = await caller.post("/api-keys/rotate", headers=keyed())
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers.get_list("cache-control") == ["no-store"]


async def test_of_requests_at_the_same_time_one_has_an_effect_and_others_wait_or_replay(
    api: Api,
) -> None:
    admin = await api.caller("admin")
    answers = await asyncio.gather(
        *(admin.post("/users", json=EVE, headers=keyed()) for _ in range(20))
    )
    again = await admin.post("/users", json=EVE, headers=keyed())
    made = [answer for answer in answers if answer.status_code == 201]
    assert sum("idempotent-replayed" not in answer.headers for answer in made) == 1
    assert {answer.content for answer in made} == {again.content}
    for answer in answers:
        if answer.status_code != 201:
            refused(answer, 409, "CONFLICT")


async def test_two_processes_with_one_key_have_one_effect(api: Api) -> None:
    editor = await api.caller("editor")
    answers = await everywhere(api, editor, "/products", PRODUCT)
    assert [answer.status_code for answer in answers] == [201] * 20
    assert len({answer.content for answer in answers}) == 1
    assert await total(editor) == 1


async def test_two_processes_with_one_key_make_one_user_though_the_e_mail_is_unique(
    api: Api,
) -> None:
    admin = await api.caller("admin")
    answers = await everywhere(api, admin, "/users", EVE)
    assert [answer.status_code for answer in answers] == [201] * 20
    assert len({answer.content for answer in answers}) == 1
    replayed = ["idempotent-replayed" in answer.headers for answer in answers]
    assert sorted(replayed) == [False] + [True] * 19


async def test_two_processes_with_one_key_rotate_once(api: Api) -> None:
    caller = await api.caller("viewer")
    answers = await everywhere(api, caller, "/api-keys/rotate", None)
    assert [answer.status_code for answer in answers] == [201] * 20
    assert len({answer.json()["data"]["id"] for answer in answers}) == 1
    assert sum("key" in answer.json()["data"] for answer in answers) == 1


async def test_another_api_key_of_the_account_is_rotated_for_itself(api: Api) -> None:
    first = await api.caller("viewer")
    second = await api.caller(user=first.user)
    rotated = [await one.post("/api-keys/rotate", headers=keyed()) for one in (first, second)]
    assert [answer.status_code for answer in rotated] == [201, 201]
    assert ["key" in answer.json()["data"] for answer in rotated] == [True, True]
    previous = [answer.json()["data"]["previous_key"]["id"] for answer in rotated]
    assert previous == [first.record.id, second.record.id]


async def test_what_is_kept_does_not_tell_the_body_to_who_has_the_database(api: Api) -> None:
    admin = await api.caller("admin")
    body = json_bytes(EVE)
    headers = {**keyed(), "content-type": "application/json"}
    assert (await admin.post("/users", content=body, headers=headers)).status_code == 201
    held = str(await api.live.db.all("SELECT * FROM idempotency_keys"))
    for stored in (body, sha256(body).digest(), sha256(b"Analytical1").digest()):
        assert repr(stored)[2:-1] not in held
    assert repr(hmac.digest(b"order-17", body, "sha256")) in held, "under what is not stored"


async def everywhere(
    api: Api, caller: Caller, path: str, body: dict[str, Any] | None
) -> list[httpx.Response]:
    """The same request to each of twenty processes at once."""
    places = [api.beside() for _ in range(20)]
    return await asyncio.gather(
        *(
            Caller(place, caller.user, caller.record, caller.key, "live").post(
                path, json=body, headers=keyed()
            )
            for place in places
        )
    )


@pytest.mark.parametrize("key", ["", "with space", "x" * 256, "ä"])
async def test_a_malformed_key_is_refused_and_nothing_happens(api: Api, key: str) -> None:
    editor = await api.caller("editor")
    async with api.unchanged():
        headers = {b"idempotency-key": key.encode("latin-1")}
        answer = await editor.post("/products", json=PRODUCT, headers=headers)
        assert "Idempotency-Key" in refused(answer, 400, "VALIDATION_ERROR")


async def test_a_key_sent_twice_is_refused(api: Api) -> None:
    editor = await api.caller("editor")
    headers = httpx.Headers([("idempotency-key", "one"), ("idempotency-key", "two")])
    answer = await editor.post("/products", json=PRODUCT, headers=headers)
    refused(answer, 400, "VALIDATION_ERROR")


async def test_sign_in_ignores_the_key(api: Api) -> None:
    user = await api.account(password="Analytical1")
    stranger = api.stranger()
    body = {"email": user.email, "password": "Analytical1"}
    cookies = set()
    for _ in range(2):
        answer = await stranger.post("/sessions", json=body, headers=keyed())
        assert answer.status_code == 201
        assert "idempotent-replayed" not in answer.headers
        cookies.add(answer.headers["set-cookie"])
    assert len(cookies) == 2


async def test_a_replay_counts_against_the_limit(api: Api) -> None:
    poor = await api.caller("editor", plan="tiny")
    left = []
    for _ in range(3):
        answer = await poor.post("/products", json=PRODUCT, headers=keyed())
        left.append(answer.headers["x-ratelimit-remaining"])
    assert left == ["2", "1", "0"]
    refused(await poor.post("/products", json=PRODUCT, headers=keyed()), 429)
