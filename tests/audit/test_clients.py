"""What the audit log tells of OAuth clients: enough to see what was done to one that is gone."""

from typing import Any

from audit.conftest import Noted
from driving import Api
from portico.core.audit import OPERATOR
from portico.core.oauth import Client
from portico.features.access.clients import (
    Registration,
    change_client,
    delete_client,
    note_refusal,
    register_client,
    renew_secret,
)

OURS = Registration("Payroll", ["https://payroll.example.com/cb"], "read:products")
THEIRS = Registration("Payroll", ["https://evil.example.net/cb"], "admin")
SEVERAL = Registration("Payroll", ["https://a.test/", "https://b.test/"], "admin read:users")


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


async def test_a_client_that_is_saved_as_it_was_leaves_nothing(api: Api, noted: Noted) -> None:
    client, _ = await register_client(api.live, None, SEVERAL, public=True, by=OPERATOR)
    await noted()
    async with api.unchanged():
        assert (
            await change_client(api.live, client.id, SEVERAL._asdict(), whatever, by=OPERATOR)
            == client
        )
    assert await noted() == []
