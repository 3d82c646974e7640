"""`portico keys`: manages API keys."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from portico.cli.arguments import Commands, add_sandbox, add_yes, by_rule, key_id, text
from portico.cli.lazy import lazy_imports
from portico.cli.listing import ListForm, print_list
from portico.cli.output import CommandError, answer, asks, command_line, confirm, minute, plain
from portico.core.words import KEY_TYPES

if TYPE_CHECKING:
    from portico.core.users import AccountState
    from portico.environment import Environment
    from portico.features.access.rules import ApiKey
    from portico.settings import Settings

with lazy_imports():
    from portico import app
    from portico.cli import prepared
    from portico.core import audit, errors, networks, oauth, times
    from portico.features.access import api_keys as services_api_keys
    from portico.features.access import rules as access_rules
    from portico.features.access import rules as domain_api_keys
    from portico.features.access import schemas as access_schemas
    from portico.features.access import storage as access_storage
    from portico.features.people import accounts
    from portico.features.people import storage as people_storage
    from portico.web import envelope


def add_to(commands: Commands) -> None:
    """Declares `portico keys …`."""
    keys = commands.noun("keys", "create, list and revoke API keys")
    create = keys.verb(
        "create",
        run_create,
        "create an API key and print it once",
        "A test key belongs to the sandbox. It is created for the live account's mirror user there,"
        "\nor with --sandbox for a user that exists only in the sandbox.",
    )
    create.add_argument(
        "--owner", metavar="EMAIL", type=text, required=True, help="user who owns the key"
    )
    create.add_argument(
        "--type",
        choices=KEY_TYPES,
        required=True,
        help="live: all that its owner may do; read: only GET; test: the sandbox",
    )
    create.add_argument(
        "--name",
        metavar="N",
        type=by_rule(lambda given: domain_api_keys.key_name(given)),
        required=True,
        help="what it is for",
    )
    create.add_argument(
        "--expires-in",
        metavar="DURATION",
        type=by_rule(lambda given: times.parse_duration(given)),
        help="such as 30s, 15m, 24h or 90d (default: never)",
    )
    _add_restrictions(create)
    add_sandbox(create)
    listing = keys.verb("list", run_list, "list API keys, oldest first")
    listing.add_argument("--owner", metavar="EMAIL", type=text, help="only this user's")
    add_sandbox(listing)
    revoke = keys.verb(
        "revoke",
        run_revoke,
        "revoke an API key",
        "It stops working immediately. This cannot be undone.",
    )
    revoke.add_argument("id", metavar="ID", type=key_id, help="key ID from portico keys list")
    add_sandbox(revoke)
    add_yes(revoke)


def _add_restrictions(command: ArgumentParser) -> None:
    """Adds the options that restrict a key."""
    command.add_argument(
        "--scope",
        metavar="SCOPE",
        action="append",
        type=text,  # the settings declare some, and are read later
        help="what it may do, such as read:products; can be repeated (default: all that its owner"
        " may do)",
    )
    command.add_argument(
        "--network",
        metavar="CIDR",
        action="append",
        type=by_rule(lambda given: networks.network(given)),
        help="address or network it may be used from, such as 203.0.113.0/24; can be repeated"
        " (default: any)",
    )


class _Owned(NamedTuple):
    key: ApiKey
    owner: AccountState


def run_create(settings: Settings, chosen: Namespace) -> None:
    if chosen.sandbox and chosen.type != "test":
        raise CommandError(f"--type {chosen.type} belongs to live; --sandbox takes --type test", 2)
    try:
        facts = prepared.in_environment(settings, chosen, lambda env: _give(env, chosen))
    except errors.Invalid as error:
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
    try:
        scopes = None if chosen.scope is None else [*map(access_rules.scope, chosen.scope)]
    except errors.BrokenRule as rule:
        raise CommandError(f"--scope {rule}", 2) from None
    owner = await accounts.account(env, chosen.owner)
    expires_at = None
    if chosen.expires_in is not None:
        expires_at = env.clock() + chosen.expires_in
    key, secret = await accounts.give_key(
        env,
        owner,
        name=chosen.name,
        key_type=chosen.type,
        expires_at=expires_at,
        scopes=scopes,
        networks=chosen.network,
        by=audit.OPERATOR,
    )
    return {
        "id": key.id,
        "name": key.name,
        "type": key.type,
        "key": secret,
        "hint": key.hint,
        "owner": owner.email,
        "expires_at": envelope.optional_timestamp(key.expires_at),
        **({"scopes": access_schemas.in_order(key.scopes)} if key.scopes else {}),
        **({"networks": key.networks} if key.networks else {}),
    }


def run_list(settings: Settings, chosen: Namespace) -> None:
    headings = (
        *("ID", "TYPE", "NAME", "OWNER", "HINT", "SCOPES", "NETWORKS"),
        *("CREATED", "LAST USED", "STATUS"),
    )
    form = ListForm(_entry, headings, partial(_cells, app.system_clock()), "There are no keys.")
    print_list(settings, chosen, form, partial(_found, chosen))


async def _found(chosen: Namespace, env: Environment) -> AsyncIterator[list[_Owned]]:
    user_id = None if chosen.owner is None else (await accounts.account(env, chosen.owner)).id
    async for batch in env[access_storage.ApiKeys].batches(user_id):
        owners = await env[people_storage.Users].statuses([*{key.user_id for key in batch}])
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
        "scopes": access_schemas.in_order(key.scopes),
        "networks": key.networks,
        "created_at": envelope.timestamp(key.created_at),
        "last_used_at": envelope.optional_timestamp(key.last_used_at),
        "expires_at": envelope.optional_timestamp(key.expires_at),
        "revoked_at": envelope.optional_timestamp(key.revoked_at),
    }


def _cells(now: int, owned: _Owned) -> Sequence[str]:
    key, owner = owned
    return (
        str(key.id),
        key.type,
        plain(key.name),
        plain(owner.email),
        key.hint,
        "all" if key.scopes is None else oauth.spelled(key.scopes),
        "any" if key.networks is None else " ".join(key.networks),
        minute(key.created_at),
        minute(key.last_used_at) if key.last_used_at else "never",
        _status(owned, now),
    )


def _status(owned: _Owned, now: int) -> str:
    """The status as the API spells it, and since or until when."""
    key, owner = owned
    word = domain_api_keys.status(key, now)
    if word == "active" and owner.suspended_at is not None:
        return f"{word}, owner suspended"
    at = key.expires_at if key.revoked_at is None else key.revoked_at
    if at is None:
        return word
    return f"{word} {'until ' if word == 'active' else ''}{minute(at)}"


def run_revoke(settings: Settings, chosen: Namespace) -> None:
    if asks(chosen):
        found = prepared.in_environment(
            settings, chosen, lambda env: services_api_keys.read_key(env, chosen.id, audit.OPERATOR)
        )
        confirm(f"Revoke key {found.id} ({plain(found.name)}, {found.hint}) for good?")
    key = prepared.in_environment(
        settings, chosen, lambda env: services_api_keys.revoke_key(env, chosen.id, audit.OPERATOR)
    )
    revoked_at = envelope.optional_timestamp(key.revoked_at)
    answer(
        {"id": key.id, "name": key.name, "hint": key.hint, "revoked_at": revoked_at},
        f"Key {key.id} ({plain(key.name)}, {key.hint}) is revoked.",
        as_json=chosen.json,
    )
