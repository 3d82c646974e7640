"""The program of docs/billing.md: what a billing provider has signed sets a plan."""

import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from documents import document
from operating import Installation, Service

GUIDE = document("docs/billing.md")
SECRET = "whsec_of_the_provider"
PLANS = "[plans.pro]\nper_minute = 1000\nper_day = 10000\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp("billing")
    (directory / "portico.toml").write_text(PLANS)
    prepared = Installation(directory).prepared()
    with prepared.serving() as service:
        yield service


@pytest.fixture
def app(server: Service, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The guide's program."""
    installation = server.installation
    monkeypatch.setenv("BILLING_SECRET", SECRET)
    monkeypatch.setenv("PORTICO_BASE_URL", f"https://localhost:{installation.port}/v1")
    monkeypatch.setenv("PORTICO_CA", str(installation.data / "tls/ca.pem"))
    body = {"name": "Billing", "type": "live", "scopes": ["admin"]}
    made = server.ask("/v1/api-keys", method="POST", key=installation.key, body=body)
    monkeypatch.setenv("PORTICO_API_KEY", made.json["data"]["key"])
    (program,) = [block.text for block in GUIDE.blocks if block.language == "python"]
    names: dict[str, Any] = {}
    exec(program, names)  # noqa: S102 - a program of our own
    return names["app"]


def subscribed(customer: str, status: str, kind: str = "updated") -> bytes:
    price = {"items": {"data": [{"price": {"id": "price_pro"}}]}}
    data = {"object": {"customer": customer, "status": status, **price}}
    return json.dumps({"type": f"customer.subscription.{kind}", "data": data}).encode()


def signature(body: bytes, secret: str = SECRET, age: int = 0) -> str:
    sent = str(int(time.time()) - age)
    signed = hmac.new(secret.encode(), f"{sent}.".encode() + body, hashlib.sha256)
    return f"t={sent},v1={signed.hexdigest()}"


async def test_a_signed_webhook_sets_the_plan_and_no_other_does(server: Service, app: Any) -> None:
    key = server.installation.key
    person = {"name": "Ada", "email": "ada@example.com", "password": "Aa1-ada-xx", "role": "viewer"}
    user = server.ask("/v1/users", method="POST", key=key, body=person).json["data"]["id"]
    account = f"/v1/users/{user}/account"
    (given,) = [block.text for block in GUIDE.blocks if block.language == "sh"]
    assert account in given
    said = server.installation.shell(given, PORTICO_API_KEY=key)
    assert json.loads(said)["data"]["external_id"] == "cus_4711"

    def plan() -> str:
        return str(server.ask(account, key=key).json["data"]["plan"])

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://billing") as provider:

        async def send(body: bytes, signed: str) -> int:
            answer = await provider.post(
                "/billing", content=body, headers={"stripe-signature": signed}
            )
            return answer.status_code

        bought = subscribed("cus_4711", "active")
        for forged in (
            *("", "t=1,v1=", f"t=x,{signature(bought)[2:]}"),
            *(signature(bought, "other"), signature(bought, age=600), signature(bought + b" ")),
        ):
            assert await send(bought, forged) == 400
        assert await send(bought, f"{signature(bought)},v1=00") == 200
        assert plan() == "pro"
        assert await send(bought, signature(bought)) == 200
        other = subscribed("cus_1", "active")
        assert await send(other, signature(other)) == 404
        ended = subscribed("cus_4711", "canceled", "deleted")
        assert await send(ended, signature(ended)) == 200
        assert plan() == "free"
