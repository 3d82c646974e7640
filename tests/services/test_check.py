"""`GET /check/{service}`: what a proxy is told about a request, before it lets it pass."""

from pathlib import Path

import httpx
import msgspec
import pytest

from declared_services import DECLARED
from driving import Api, InProcess, refused, settings_for
from portico.core.secrets import from_base64url

pytestmark = pytest.mark.one_engine

CHECK = "https://localhost:8443/auth/check"
GET_7 = {"x-forwarded-method": "GET", "x-forwarded-uri": "/7?a=b"}


def asked(method: str, uri: str) -> dict[str, str]:
    return {"x-forwarded-method": method, "x-forwarded-uri": uri}


def claims(token: str) -> tuple[dict[str, object], dict[str, object]]:
    head, body, _ = token.split(".")
    return tuple(msgspec.json.decode(from_base64url(one)) for one in (head, body))


async def test_a_request_that_may_pass_is_told_with_who_asks(api: Api) -> None:
    caller = await api.caller("viewer", plan="free")
    answer = await caller.get(f"{CHECK}/invoices", headers=GET_7)
    assert (answer.status_code, answer.content) == (200, b"")
    told = {name[10:]: value for name, value in answer.headers.items() if "x-portico-" in name}
    token = told.pop("identity")
    assert told == {
        "user": str(caller.user.id),
        "role": "viewer",
        "scopes": "read:invoices read:products read:users",
        "plan": "free",
        "credential": f"api_key:{caller.record.id}",
        "environment": "live",
    }
    assert answer.headers["x-ratelimit-remaining"] == "29"
    head, body = claims(token)
    now = api.clock() // 1000
    assert head["typ"] == "portico-identity+jwt"
    assert body == {
        "iss": "https://localhost:8443/auth",
        "aud": "https://localhost:8443/v1/invoices",
        "sub": str(caller.user.id),
        "role": "viewer",
        "scope": "read:invoices read:products read:users",
        "plan": "free",
        "credential": f"api_key:{caller.record.id}",
        "iat": now,
        "exp": now + 60,
    }
    refused(await api.stranger(authorization=f"Bearer {token}").get("/users/me"), 401)


async def test_an_identity_is_sent_again_for_half_a_minute_and_not_after_a_change(api: Api) -> None:
    caller = await api.caller("viewer")

    async def token() -> str:
        answer = await caller.get(f"{CHECK}/invoices", headers=GET_7)
        return answer.headers["x-portico-identity"]

    first = await token()
    api.clock.advance(seconds=29)
    assert await token() == first
    api.clock.advance(seconds=1)
    assert await token() != first
    admin = await api.caller("admin")
    second = await token()
    await admin.patch(f"/users/{caller.user.id}", json={"role": "support"})
    assert claims(await token())[1]["role"] == "support"
    assert await token() != second


RULES: list[tuple[str, dict[str, str], int]] = [
    ("viewer", GET_7, 200),
    ("viewer", asked("POST", "/7"), 403),
    ("viewer", asked("POST", "/bulk"), 403),
    ("editor", asked("POST", "/bulk"), 200),
    ("viewer", {"x-original-method": "HEAD", "x-original-uri": "/"}, 200),
    ("viewer", {**GET_7, "x-original-method": "GET", "x-original-uri": "/7?a=b"}, 200),
    ("viewer", {**asked("GET", "/status"), "x-original-uri": "/7"}, 400),
    ("viewer", {"x-forwarded-uri": "/7"}, 400),
    ("viewer", {"x-forwarded-method": "GET"}, 400),
    ("viewer", {"x_forwarded_method": "GET", "x_forwarded_uri": "/7"}, 400),
    ("viewer", asked("GET", "/a/%2e%2e/b"), 400),
    ("viewer", asked("GET", "/a%2fb"), 400),
    ("viewer", asked("GET", "//evil.example/a b"), 400),
]


async def test_the_rule_of_the_original_request_decides(api: Api) -> None:
    callers = {role: await api.caller(role) for role in ("viewer", "editor")}
    for role, headers, status in RULES:
        answer = await callers[role].get(f"{CHECK}/invoices", headers=headers)
        assert answer.status_code == status, (role, headers)
        assert ("x-portico-identity" in answer.headers) == (status == 200)
        assert "x-ratelimit-remaining" in answer.headers


async def test_a_public_rule_asks_nobody(api: Api) -> None:
    for stranger in (api.stranger(), api.stranger(authorization="Bearer nonsense")):
        answer = await stranger.get(f"{CHECK}/invoices", headers=asked("GET", "/status"))
        assert answer.status_code == 200
        assert answer.headers["x-ratelimit-limit"] == "30"
        assert not [name for name in answer.headers if name.startswith("x-portico-")]
        refused(await stranger.get(f"{CHECK}/invoices", headers=GET_7), 401)


async def test_only_a_proxy_here_or_a_trusted_one_may_ask(api: Api) -> None:
    caller = await api.caller("viewer")
    client = httpx.AsyncClient(transport=InProcess(api, "192.0.2.1:5000"))
    headers = {**GET_7, "authorization": f"Bearer {caller.key}"}
    foreign = await client.get(f"{CHECK}/invoices", headers=headers)
    refused(foreign, 403)
    assert foreign.headers["x-ratelimit-remaining"] == "29"
    refused(await caller.get(f"{CHECK}/nothing", headers=GET_7), 404)
    refused(await caller.post(f"{CHECK}/invoices", headers=GET_7), 405)


async def test_nobody_is_within_a_keys_networks_whom_no_proxy_has_named(tmp_path: Path) -> None:
    (tmp_path / "portico.toml").write_text(DECLARED)
    trusting = settings_for(tmp_path, {"PORTICO_TRUSTED_PROXIES": "10.0.0.1"})
    async with Api(trusting) as api:
        admin = await api.caller("admin")
        proxy = httpx.AsyncClient(transport=InProcess(api, "10.0.0.1:5000"))
        wanted = {"name": "N", "type": "live", "networks": ["10.0.0.0/8"]}
        key = (await admin.post("/api-keys", json=wanted)).json()["data"]["key"]
        headers = {**GET_7, "authorization": f"Bearer {key}", "x-forwarded-proto": "https"}
        for address in (f"{CHECK}/invoices", "https://localhost:8443/v1/invoices/7"):
            refused(await proxy.get(address, headers=headers), 403)
            named = {**headers, "x-forwarded-for": "10.0.0.7"}
            assert (await proxy.get(address, headers=named)).status_code in (200, 502)


async def test_limits_are_told_with_their_headers(api: Api) -> None:
    caller = await api.caller("viewer")
    heavy = asked("GET", "/heavy/1")
    statuses = [
        (await caller.get(f"{CHECK}/invoices", headers=heavy)).status_code for _ in range(2)
    ]
    answer = await caller.get(f"{CHECK}/invoices", headers=heavy)
    assert [*statuses, answer.status_code] == [200, 200, 429]
    refused(answer, 429, "RATE_LIMITED")
    assert answer.headers["retry-after"] == "60"
    assert answer.headers["x-ratelimit-limit"] == "2"


async def test_the_sandbox_checks_its_own_credentials_alone(api: Api) -> None:
    tester, caller = await api.caller("viewer", "test"), await api.caller("viewer")
    sandbox = "https://localhost:8443/sandbox/auth/check/invoices"
    assert (await tester.get(sandbox, headers=GET_7)).status_code == 200
    refused(await caller.get(sandbox, headers=GET_7), 401)
    refused(await tester.get(f"{CHECK}/invoices", headers=GET_7), 401)
