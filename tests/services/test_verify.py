"""`POST /verify`: whose credential a service was sent, what it may do, and what it takes."""

import asyncio
from typing import Any

import httpx
import pytest

from driving import NOON, Api, Caller, refused
from portico.core.audit import OPERATOR
from portico.features.access.rules import KeyType
from portico.features.people.accounts import give_key, suspend

DAY_END = (NOON // 86_400_000 + 1) * 86_400
MONTH_END = 1_775_001_600
"""2026-04-01T00:00:00Z."""


async def asker(api: Api, key_type: KeyType = "live") -> Caller:
    return await api.caller("admin", key_type, name="Service")


async def ask(caller: httpx.AsyncClient, **check: Any) -> dict[str, Any]:
    answer = await caller.post("/verify", json=check)
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    data: dict[str, Any] = answer.json()["data"]
    assert data["valid"] == (data["code"] == "VALID")
    return data


async def test_a_valid_key_is_described_and_counted_against_its_owner_alone(api: Api) -> None:
    service, viewer = await asker(api), await api.caller("viewer", plan="free", name="Ada")
    answer = await service.post(
        "/verify", json={"credential": viewer.key, "scope": "read:invoices"}
    )
    assert "x-ratelimit-limit" not in answer.headers
    assert answer.json()["data"] == {
        "valid": True,
        "code": "VALID",
        "message": "The credential is valid for this.",
        "user": {"id": viewer.user.id, "name": "Ada", "role": "viewer", "plan": "free"},
        "credential": {
            "kind": "api_key",
            "id": viewer.record.id,
            "name": "A key",
            "scopes": ["read:invoices", "read:products", "read:users"],
            "expires_at": None,
        },
        "limit": {"limit": 30, "remaining": 29, "reset": NOON // 1000 + 60, "retry_after": 0},
    }
    assert (await viewer.get("/users/me")).headers["x-ratelimit-remaining"] == "28"
    assert (await service.get("/users/me")).headers["x-ratelimit-remaining"] == str(10**9 - 1)


RULES: list[tuple[str, dict[str, Any], str]] = [
    ("viewer", {}, "VALID"),
    ("viewer", {"scope": "read:invoices"}, "VALID"),
    ("support", {"scope": "read:invoices"}, "VALID"),
    ("support", {"scope": "read:products"}, "PERMISSION_DENIED"),
    ("editor", {"service": "mail", "scope": "read:invoices"}, "PERMISSION_DENIED"),
    ("admin", {"scope": "write:invoices"}, "VALID"),
    ("viewer", {"service": "invoices", "path": "/7"}, "VALID"),
    ("viewer", {"service": "invoices", "path": "/7", "method": "PUT"}, "PERMISSION_DENIED"),
    ("viewer", {"service": "invoices", "path": "/bulk", "method": "POST"}, "PERMISSION_DENIED"),
    ("editor", {"service": "invoices", "path": "/bulk", "method": "POST"}, "VALID"),
    (
        "editor",
        {"service": "mail", "path": "/x", "scope": "read:invoices"},
        "PERMISSION_DENIED",
    ),
    ("viewer", {"address": "192.0.2.1"}, "VALID"),
]


@pytest.mark.one_engine
async def test_verify_answers_by_role_and_rule(api: Api) -> None:
    service = await asker(api)
    callers = {role: await api.caller(role) for role in ("viewer", "support", "editor", "admin")}
    for role, check, code in RULES:
        data = await ask(service, credential=callers[role].key, **check)
        assert data["code"] == code, (role, check)
        assert data["limit"]["remaining"] < 10**9  # a refusal counts too, as the API's own do
        assert data["user"]["role"] == role


@pytest.mark.one_engine
async def test_a_public_rule_asks_and_counts_nobody(api: Api) -> None:
    service = await asker(api)
    data = await ask(service, credential="nonsense", service="invoices", path="/status")
    assert (data["code"], data["user"], data["limit"]) == ("VALID", None, None)


@pytest.mark.one_engine
async def test_a_read_only_key_may_only_read(api: Api) -> None:
    service, reader = await asker(api), await api.caller("admin", "read")
    for method, code in (("GET", "VALID"), ("HEAD", "VALID"), ("POST", "PERMISSION_DENIED")):
        assert (await ask(service, credential=reader.key, method=method))["code"] == code


@pytest.mark.one_engine
async def test_a_key_of_networks_is_judged_by_the_callers_address(api: Api) -> None:
    service, user = await asker(api), await api.account("viewer")
    _, key = await give_key(
        api.live, user, name="N", key_type="live", expires_at=None, by=OPERATOR, mail_owner=False,
        networks=["192.0.2.0/24"],
    )  # fmt: skip
    codes = [
        (await ask(service, credential=key, address=address))["code"]
        for address in ("192.0.2.7", "198.51.100.1")
    ]
    assert codes == ["VALID", "PERMISSION_DENIED"]
    assert (await ask(service, credential=key))["code"] == "VALID"
    assert refused(await service.post("/verify", json={"credential": key, "address": "x"}), 422)


@pytest.mark.one_engine
async def test_what_is_no_credential_is_told_so_and_counted_for_nobody(api: Api) -> None:
    service = await asker(api)
    for credential in ("", "x", "sk_live_x", "oat_x", "a.b.c", "é", "x" * 8192):
        data = await ask(service, credential=credential)
        assert data["code"] == "AUTHENTICATION_REQUIRED"
        assert (data["user"], data["credential"], data["limit"]) == (None, None, None)
        assert len(credential) < 2 or credential not in data["message"]


@pytest.mark.one_engine
async def test_an_ended_or_foreign_credential_is_invalid_and_says_why(api: Api) -> None:
    service, viewer = await asker(api), await api.caller("viewer")
    tester = await api.caller("viewer", "test")
    data = await ask(service, credential=tester.key)
    assert (data["code"], data["user"]) == ("AUTHENTICATION_REQUIRED", None)
    assert "https://localhost:8443/sandbox/v1" in data["message"]
    sandbox = await asker(api, "test")
    assert (await ask(sandbox, credential=tester.key))["code"] == "VALID"
    assert "https://localhost:8443/v1" in (await ask(sandbox, credential=viewer.key))["message"]
    await suspend(api.live, viewer.user.id, OPERATOR)
    data = await ask(service, credential=viewer.key)
    assert (data["code"], "suspended" in data["message"]) == ("AUTHENTICATION_REQUIRED", True)


@pytest.mark.one_engine
async def test_sessions_logins_and_foreign_sessions_are_told_apart(api: Api) -> None:
    user = await api.account("viewer", password="Analytical1")
    stranger = api.stranger()
    body = {"email": user.email, "password": "Analytical1"}
    login = await stranger.post("https://localhost:8443/auth/login", json=body)
    made = await stranger.post("/sessions", json=body)
    cookie = made.headers["set-cookie"].partition("=")[2].partition(";")[0]
    service = await asker(api)
    token = login.json()["access_token"]
    for credential, kind in ((token, "jwt"), (cookie, "session")):
        data = await ask(service, credential=credential)
        assert (data["code"], data["credential"]["kind"]) == ("VALID", kind)
        assert (data["credential"]["name"], data["user"]["id"]) == (None, user.id)
    sandbox = await asker(api, "test")
    for credential in (token, cookie):
        message = (await ask(sandbox, credential=credential))["message"]
        assert message.endswith("only valid at https://localhost:8443/v1.")


@pytest.mark.one_engine
async def test_who_lacks_the_scope_learns_nothing_and_is_counted(api: Api) -> None:
    victim = await api.caller("viewer")
    narrow = await api.caller("editor", plan="free")
    for credential in (victim.key, "nonsense"):
        answer = await narrow.post("/verify", json={"credential": credential})
        assert refused(answer, 403, "PERMISSION_DENIED") == {}
    assert answer.headers["x-ratelimit-remaining"] == "28"
    assert (await victim.get("/users/me")).headers["x-ratelimit-remaining"] == str(10**9 - 1)
    assert refused(await api.stranger().post("/verify", json={"credential": victim.key}), 401) == {}


@pytest.mark.one_engine
async def test_a_key_narrowed_to_verify_can_do_nothing_else(api: Api) -> None:
    admin = await api.caller("admin")
    made = await admin.post(
        "/api-keys", json={"name": "Service", "type": "live", "scopes": ["verify"]}
    )
    key = {"authorization": f"Bearer {made.json()['data']['key']}"}
    service = api.stranger(**key)
    assert (await ask(service, credential=admin.key))["code"] == "VALID"
    refused(await service.get("/products"), 403)
    refused(await service.get("/users"), 403)


async def test_the_limits_are_those_of_the_plan_with_cost_and_month(api: Api) -> None:
    service = await asker(api)
    user = await api.account("editor", plan="monthly")
    caller = await api.caller("editor", user=user)
    rule = {"service": "invoices", "path": "/bulk", "method": "POST"}
    left = [(await ask(service, credential=caller.key, **rule))["limit"] for _ in range(3)]
    assert [one["remaining"] for one in left] == [13, 6, 6]
    assert left[-1] == {
        "limit": 20, "remaining": 6, "reset": MONTH_END, "retry_after": MONTH_END - NOON // 1000,
    }  # fmt: skip
    assert (await ask(service, credential=caller.key, cost=7))["code"] == "RATE_LIMITED"
    assert (await ask(service, credential=caller.key, cost=0))["limit"]["remaining"] == 6
    assert (await ask(service, credential=caller.key, cost=6))["limit"]["remaining"] == 0
    refused(await caller.get("/users/me"), 429)  # the month holds for our own API too


async def test_a_named_limit_counts_beside_the_plan(api: Api) -> None:
    service, caller = await asker(api), await api.caller("viewer")
    rule = {"service": "invoices", "path": "/heavy/1"}
    codes = [(await ask(service, credential=caller.key, **rule))["code"] for _ in range(2)]
    data = await ask(service, credential=caller.key, limit="heavy")
    assert [*codes, data["code"]] == ["VALID", "VALID", "RATE_LIMITED"]
    assert data["limit"] == {
        "limit": 2, "remaining": 0, "reset": NOON // 1000 + 60, "retry_after": 60,
    }  # fmt: skip
    assert (await ask(service, credential=caller.key))["limit"]["remaining"] == 10**9 - 3


async def test_a_batch_is_answered_in_order_and_counted_exactly(api: Api) -> None:
    service = await asker(api)
    one, other = await api.caller("viewer", plan="tiny"), await api.caller("viewer", plan="tiny")
    keys = [one.key, other.key, "x", one.key, one.key, one.key, other.key]
    answer = await service.post("/verify", json={"checks": [{"credential": key} for key in keys]})
    assert [check["code"] for check in answer.json()["data"]] == [
        *("VALID", "VALID", "AUTHENTICATION_REQUIRED", "VALID", "VALID", "RATE_LIMITED", "VALID")
    ]


UNREADABLE: list[tuple[dict[str, Any], int, str]] = [
    ({}, 400, "checks.1.credential"),
    ({"credential": 1}, 400, "checks.1.credential"),
    ({"credential": "x", "more": 1}, 400, "checks.1.more"),
    ({"credential": "x", "service": "invoices", "path": "/../x"}, 400, "checks.1.path"),
    ({"credential": "x", "path": "/x"}, 422, "checks.1.path"),
    ({"credential": "x", "service": "nope"}, 422, "checks.1.service"),
    ({"credential": "x", "limit": "nope"}, 422, "checks.1.limit"),
    ({"credential": "x", "scope": "read:moon"}, 422, "checks.1.scope"),
    ({"credential": "x", "cost": 1001}, 422, "checks.1.cost"),
]


@pytest.mark.one_engine
async def test_one_unreadable_check_refuses_all_and_counts_nothing(api: Api) -> None:
    service, caller = await asker(api), await api.caller("viewer", plan="free")
    for check, status, field in UNREADABLE:
        body = {"checks": [{"credential": caller.key}, check]}
        answer = await service.post("/verify", json=body)
        assert refused(answer, status).keys() == {field}, check
    assert (await caller.get("/users/me")).headers["x-ratelimit-remaining"] == "29"
    refused(await service.post("/verify", json={}), 400)
    for checks in ([], [{"credential": "x"}] * 101):
        refused(await service.post("/verify", json={"checks": checks}), 422)


async def test_of_many_at_once_exactly_the_limit_is_valid(api: Api) -> None:
    service, caller = await asker(api), await api.caller("viewer", plan="free")
    asked = [ask(service, credential=caller.key, cost=7) for _ in range(20)]
    codes = [data["code"] for data in await asyncio.gather(*asked)]
    assert codes.count("VALID") == 4
