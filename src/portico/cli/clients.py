"""`portico clients`: manages OAuth clients."""

from argparse import Namespace
from typing import Any

from portico.cli.output import CommandError, answer, command_line, plain, table
from portico.cli.prepared import in_environment
from portico.contract.envelope import timestamp
from portico.domain.audit import OPERATOR
from portico.domain.oauth import Client, spelled
from portico.services.accounts import account
from portico.services.clients import (
    Registered,
    Registration,
    delete_client,
    register_client,
    renew_secret,
)
from portico.services.environment import Environment
from portico.settings import Settings


def run_create(settings: Settings, chosen: Namespace) -> None:
    made = in_environment(settings, chosen, lambda env: _register(env, chosen))
    client = made.client
    facts = {"client_id": client.client_id}
    if made.secret is not None:
        facts["client_secret"] = made.secret
    renew = command_line(f"clients renew-secret {client.client_id}", sandbox=chosen.sandbox)
    answer(
        {**facts, **_registration(client)},
        f"{plain(client.name)} is registered.\n\n"
        + "\n".join(f"  {name:14}{value}" for name, value in facts.items())
        + ("\n\nStore the secret now; it is not shown again." if made.secret else ""),
        as_json=chosen.json,
        lost=f"The client was registered: {renew} prints another." if made.secret else "",
    )


async def _register(env: Environment, chosen: Namespace) -> Registered:
    owner = await (account(env, chosen.owner) if chosen.owner else env.users.first_admin())
    wanted = Registration(chosen.name, chosen.redirect_uri, spelled(chosen.scope))
    return await register_client(env, owner, wanted, public=chosen.public, by=OPERATOR)


def run_list(settings: Settings, chosen: Namespace) -> None:
    found = in_environment(settings, chosen, _found)
    answer([_entry(*each) for each in found], _table(found), as_json=chosen.json)


async def _found(env: Environment) -> list[tuple[Client, str | None]]:
    found = []
    for client in await env.clients.all():
        owner = await env.users.get(client.user_id) if client.user_id else None
        found.append((client, owner.email if owner else None))
    return found


def _registration(client: Client) -> dict[str, Any]:
    return {
        "name": client.name,
        "redirect_uris": list(client.redirect_uris),
        "scopes": spelled(client.scopes).split(),
    }


def _entry(client: Client, owner: str | None) -> dict[str, Any]:
    return {
        "client_id": client.client_id,
        **_registration(client),
        "public": client.public,
        "owner": owner,
        "created_at": timestamp(client.created_at),
    }


def _table(found: list[tuple[Client, str | None]]) -> str:
    if not found:
        return "There are no OAuth clients."
    rows = [
        (
            client.client_id,
            plain(client.name),
            "public" if client.public else "confidential",
            plain(owner or "nobody"),
            spelled(client.scopes) or "none",
            plain(" ".join(client.redirect_uris)),
        )
        for client, owner in found
    ]
    return table([("CLIENT ID", "NAME", "TYPE", "OWNER", "SCOPES", "REDIRECT URIS"), *rows])


def run_renew(settings: Settings, chosen: Namespace) -> None:
    async def renew(env: Environment) -> Registered:
        return await renew_secret(env, await _row_of(env, chosen.client_id), by=OPERATOR)

    made = in_environment(settings, chosen, renew)
    answer(
        {"client_id": made.client.client_id, "client_secret": made.secret},
        f"{plain(made.client.name)} has a new secret:\n\n  {made.secret}\n\n"
        "Store it now; it is not shown again.",
        as_json=chosen.json,
        lost="The old secret no longer works: renew it again.",
    )


def run_delete(settings: Settings, chosen: Namespace) -> None:
    async def delete(env: Environment) -> Client:
        return await delete_client(env, await _row_of(env, chosen.client_id), by=OPERATOR)

    client = in_environment(settings, chosen, delete)
    answer(
        {"client_id": client.client_id, "name": client.name},
        f"{plain(client.name)} is deleted and has lost its access to users' accounts.",
        as_json=chosen.json,
    )


async def _row_of(env: Environment, client_id: str) -> int:
    client = await env.clients.by_client_id(client_id)
    if client is None:
        raise CommandError(f"There is no OAuth client {plain(client_id)}.")
    return client.id
