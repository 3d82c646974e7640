"""What the audit log tells of OAuth clients: enough to see what was done to one that is gone."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from audit.conftest import Noted
from declared_services import DECLARED
from driving import BASE, Api
from portico.core.audit import OPERATOR
from portico.core.oauth import ACCESS_TOKEN_KIND, CLIENT_CREDENTIALS, TOKEN_EXCHANGE, Client
from portico.core.scopes import PERMISSIONS
from portico.core.users import User
from portico.features.access.clients import (
    Registration,
    change_client,
    delete_client,
    note_refusal,
    register_client,
    renew_secret,
)
from portico.features.events.audit import Audit
from portico.features.events.schemas import rows
from signing_in import CALLBACK, Visitor, code_of, login_of, named
from tool_calls import call

pytestmark = pytest.mark.one_engine

OURS = Registration("Payroll", ["https://payroll.example.com/cb"], "read:products")
THEIRS = Registration("Payroll", ["https://evil.example.net/cb"], "admin")
SHOP = Registration("Shop", [CALLBACK], "write:products")
WORKER = Registration("Worker", (), "write:products", grants=("client_credentials",))
MAILER = Registration("Mailer", (), "write:products", grants=("token_exchange",), service="mail")
LAMP: dict[str, Any] = {"name": "Lamp", "category": "light", "price": 1}
MCP = f"{BASE['live']}/mcp"


@pytest.fixture
def environ(environ: dict[str, str], tmp_path: Path) -> Iterator[dict[str, str]]:
    """With a service, whose client may exchange the tokens of others."""
    (tmp_path / "portico.toml").write_text(DECLARED)
    yield environ
    PERMISSIONS.only_built_in()


def whatever(_client: Client) -> None:
    """Changes the client whatever it is."""


async def test_a_client_is_told_of_from_its_registration_to_its_end(api: Api, noted: Noted) -> None:
    owner = await api.account("viewer")
    await noted()
    client, _ = await register_client(api.live, owner, OURS, public=False, by=OPERATOR)
    await change_client(api.live, client.id, THEIRS._asdict(), whatever, by=OPERATOR)
    await renew_secret(api.live, client.id, by=OPERATOR)
    await note_refusal(api.live, client, OPERATOR)
    await delete_client(api.live, client.id, by=OPERATOR)

    ours: dict[str, Any] = {
        "name": "Payroll",
        "redirect_uris": ["https://payroll.example.com/cb"],
        "scopes": "read:products",
        "public": False,
        "user_id": owner.id,
    }
    theirs = {"redirect_uris": ["https://evil.example.net/cb"], "scopes": "admin"}
    moved = {name: {"from": ours[name], "to": value} for name, value in theirs.items()}
    name = {"name": "Payroll"}
    assert await noted() == [
        ("client.created", "client", client.client_id, ours),
        ("client.updated", "client", client.client_id, moved),
        ("client.secret_renewed", "client", client.client_id, name),
        ("client.refused", "client", client.client_id, name),
        ("client.deleted", "client", client.client_id, {**ours, **theirs}),
    ]


async def token_of(api: Api, kind: str, user: User) -> tuple[str, Client | None]:
    """A user's credential of this kind, and the client that acts by it."""
    if kind == "key":
        return (await api.caller(user=user)).key, None
    if kind == "login":
        return (await login_of(api.live, user)).access_token, None
    if kind == "client's own":
        worker = await register_client(api.live, user, WORKER, public=False, by=OPERATOR)
        form = {"grant_type": CLIENT_CREDENTIALS, **named(worker)}
        return (await Visitor(api).form("token", form)).json()["access_token"], worker.client
    shop = await register_client(api.live, None, SHOP, public=False, by=OPERATOR)
    resource = {"tool": MCP, "exchanged": "urn:mail"}.get(kind)
    code = await code_of(api.live, shop.client, user, "write:products", resource=resource)
    token = (await Visitor(api).exchange(shop, code)).json()["access_token"]
    if kind != "exchanged":
        return token, shop.client
    mailer = await register_client(api.live, None, MAILER, public=False, by=OPERATOR)
    subject = {"subject_token": token, "subject_token_type": ACCESS_TOKEN_KIND}
    form = {"grant_type": TOKEN_EXCHANGE, **subject, "resource": BASE["live"], **named(mailer)}
    return (await Visitor(api).form("token", form)).json()["access_token"], mailer.client


@pytest.mark.parametrize("kind", ["key", "login", "client's own", "token", "tool", "exchanged"])
async def test_a_change_by_an_oauth_token_names_its_client_and_no_other_does(
    api: Api, kind: str
) -> None:
    user = await api.account("editor")
    token, acts = await token_of(api, kind, user)
    caller = api.stranger(authorization=f"Bearer {token}")

    async def entry() -> dict[str, Any]:
        if kind == "tool":
            await call(caller, "create_record", kind="products", values=LAMP)
        else:
            assert (await caller.post("/products", json=LAMP)).status_code == 201
        entry: dict[str, Any] = json.loads(rows("ndjson", await api.live[Audit].page(limit=1)))
        return entry

    told = await entry()
    assert (told["action"], told["user"]["id"]) == ("product.created", user.id)
    if acts is None:
        assert told["client"] is None
        return
    assert told["client"] == {"client_id": acts.client_id, "name": acts.name}

    await change_client(api.live, acts.id, {"name": "Renamed"}, whatever, by=OPERATOR)
    later = await entry()
    assert later["client"] == {"client_id": acts.client_id, "name": "Renamed"}
    await delete_client(api.live, acts.id, by=OPERATOR)
    kept = await api.live[Audit].page(before=later["id"] + 1, limit=1)
    assert json.loads(rows("ndjson", kept)) == later, "what an entry tells outlives its client"
