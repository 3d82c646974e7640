"""`portico keys`: manages API keys."""

from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from portico.app import system_clock
from portico.cli.asking import asks, confirm
from portico.cli.listing import Form, print_list
from portico.cli.output import CommandError, answer, command_line, minute, plain
from portico.cli.prepared import in_environment
from portico.contract.api_keys import in_order
from portico.contract.envelope import optional_timestamp, timestamp
from portico.domain.api_keys import ApiKey, status
from portico.domain.audit import OPERATOR
from portico.domain.errors import Invalid
from portico.domain.oauth import spelled
from portico.domain.users import Shared
from portico.services.accounts import account, give_key
from portico.services.api_keys import read_key, revoke_key
from portico.services.environment import Environment
from portico.settings import Settings


class _Owned(NamedTuple):
    key: ApiKey
    owner: Shared


def run_create(settings: Settings, chosen: Namespace) -> None:
    if chosen.sandbox and chosen.type != "test":
        raise CommandError(f"--type {chosen.type} belongs to live; --sandbox takes --type test", 2)
    try:
        facts = in_environment(settings, chosen, lambda env: _give(env, chosen))
    except Invalid as error:
        faults = "; ".join(f"{fault.field} {fault.message}" for fault in error.details)
        raise CommandError(faults) from error
    expiry = f"It expires at {facts['expires_at']}." if facts["expires_at"] else "It never expires."
    is_test = chosen.type == "test"
    kind = "Sandbox key" if is_test else "Key"
    revoke = command_line(f"keys revoke {facts['id']}", sandbox=is_test)
    answer(
        facts,
        f"{kind} {facts['id']} is created for {plain(facts['owner'])}. {expiry}\n\n"
        f"  {facts['key']}\n\nStore it now; it is not shown again. To revoke it: {revoke}",
        as_json=chosen.json,
        lost=f"{kind} {facts['id']} was created: revoke it with {revoke}, and create another.",
    )


async def _give(env: Environment, chosen: Namespace) -> dict[str, Any]:
    owner = await account(env, chosen.owner)
    expires_at = None
    if chosen.expires_in is not None:
        expires_at = env.clock() + chosen.expires_in
    key, secret = await give_key(
        env,
        owner,
        name=chosen.name,
        key_type=chosen.type,
        expires_at=expires_at,
        scopes=chosen.scope,
        networks=chosen.network,
        by=OPERATOR,
    )
    return {
        "id": key.id,
        "name": key.name,
        "type": key.type,
        "key": secret,
        "hint": key.hint,
        "owner": owner.email,
        "expires_at": optional_timestamp(key.expires_at),
        **({"scopes": in_order(key.scopes)} if key.scopes else {}),
        **({"networks": key.networks} if key.networks else {}),
    }


def run_list(settings: Settings, chosen: Namespace) -> None:
    headings = (
        *("ID", "TYPE", "NAME", "OWNER", "HINT", "SCOPES", "NETWORKS"),
        *("CREATED", "LAST USED", "STATUS"),
    )
    form = Form(_entry, headings, partial(_cells, system_clock()), "There are no keys.")
    print_list(settings, chosen, form, partial(_found, chosen))


async def _found(chosen: Namespace, env: Environment) -> AsyncIterator[list[_Owned]]:
    user_id = None if chosen.owner is None else (await account(env, chosen.owner)).id
    async for batch in env.api_keys.batches(user_id):
        owners = await env.users.standing([*{key.user_id for key in batch}])
        # An owner who was deleted since the batch was read took the keys along.
        yield [_Owned(key, owners[key.user_id]) for key in batch if key.user_id in owners]


def _entry(owned: _Owned) -> dict[str, Any]:
    key, owner = owned
    return {
        "id": key.id,
        "name": key.name,
        "type": key.type,
        "hint": key.hint,
        "owner": owner.email,
        "owner_suspended": owner.suspended_at is not None,
        "scopes": in_order(key.scopes),
        "networks": key.networks,
        "created_at": timestamp(key.created_at),
        "last_used_at": optional_timestamp(key.last_used_at),
        "expires_at": optional_timestamp(key.expires_at),
        "revoked_at": optional_timestamp(key.revoked_at),
    }


def _cells(now: int, owned: _Owned) -> Sequence[str]:
    key, owner = owned
    return (
        str(key.id),
        key.type,
        plain(key.name),
        plain(owner.email),
        key.hint,
        "all" if key.scopes is None else spelled(key.scopes),
        "any" if key.networks is None else " ".join(key.networks),
        minute(key.created_at),
        minute(key.last_used_at) if key.last_used_at else "never",
        _status(owned, now),
    )


def _status(owned: _Owned, now: int) -> str:
    """The status as the API spells it, and since or until when."""
    key, owner = owned
    word = status(key, now)
    if word == "active" and owner.suspended_at is not None:
        return f"{word}, owner suspended"
    at = key.expires_at if key.revoked_at is None else key.revoked_at
    if at is None:
        return word
    return f"{word} {'until ' if word == 'active' else ''}{minute(at)}"


def run_revoke(settings: Settings, chosen: Namespace) -> None:
    if asks(chosen):
        found = in_environment(settings, chosen, lambda env: read_key(env, chosen.id, OPERATOR))
        confirm(f"Revoke key {found.id} ({plain(found.name)}, {found.hint}) for good?")
    key = in_environment(settings, chosen, lambda env: revoke_key(env, chosen.id, OPERATOR))
    revoked_at = optional_timestamp(key.revoked_at)
    answer(
        {"id": key.id, "name": key.name, "hint": key.hint, "revoked_at": revoked_at},
        f"Key {key.id} ({plain(key.name)}, {key.hint}) is revoked.",
        as_json=chosen.json,
    )
