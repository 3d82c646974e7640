"""`portico clients`: manages OAuth clients."""

from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from portico.cli.asking import asks, confirm
from portico.cli.listing import Form, print_list
from portico.cli.output import CommandError, answer, command_line, plain
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


class _Owned(NamedTuple):
    """A client and its owner's e-mail."""

    client: Client
    email: str | None


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
    wanted = Registration(chosen.name, chosen.redirect_uri, spelled(frozenset(chosen.scope)))
    return await register_client(env, owner, wanted, public=chosen.public, by=OPERATOR)


def run_list(settings: Settings, chosen: Namespace) -> None:
    print_list(settings, chosen, _LIST, _found)


async def _found(env: Environment) -> AsyncIterator[list[_Owned]]:
    async for batch in env.clients.batches():
        emails = await env.users.emails({each.user_id for each in batch if each.user_id})
        yield [_Owned(each, emails.get(each.user_id or 0)) for each in batch]


def _registration(client: Client) -> dict[str, Any]:
    return {
        "name": client.name,
        "redirect_uris": list(client.redirect_uris),
        "scopes": spelled(client.scopes).split(),
    }


def _entry(owned: _Owned) -> dict[str, Any]:
    client = owned.client
    return {
        "client_id": client.client_id,
        **_registration(client),
        "public": client.public,
        "owner": owned.email,
        "created_at": timestamp(client.created_at),
    }


def _cells(owned: _Owned) -> Sequence[str]:
    client = owned.client
    return (
        client.client_id,
        plain(client.name),
        "public" if client.public else "confidential",
        plain(owned.email or "nobody"),
        spelled(client.scopes) or "none",
        plain(" ".join(client.redirect_uris)),
    )


_LIST = Form(
    _entry,
    ("CLIENT ID", "NAME", "TYPE", "OWNER", "SCOPES", "REDIRECT URIS"),
    _cells,
    "There are no OAuth clients.",
)


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
    if asks(chosen):
        found = in_environment(settings, chosen, lambda env: _of_id(env, chosen.client_id))
        confirm(f"Delete {plain(found.name)}, and end its access to users' accounts?")

    async def delete(env: Environment) -> Client:
        return await delete_client(env, await _row_of(env, chosen.client_id), by=OPERATOR)

    client = in_environment(settings, chosen, delete)
    answer(
        {"client_id": client.client_id, "name": client.name},
        f"{plain(client.name)} is deleted and has lost its access to users' accounts.",
        as_json=chosen.json,
    )


async def _row_of(env: Environment, client_id: str) -> int:
    return (await _of_id(env, client_id)).id


async def _of_id(env: Environment, client_id: str) -> Client:
    client = await env.clients.by_client_id(client_id)
    if client is None:
        raise CommandError(f"There is no OAuth client {plain(client_id)}.")
    return client
