"""`portico clients`: manages OAuth clients."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from portico.cli.arguments import Commands, add_sandbox, add_yes, by_rule, text
from portico.cli.lazy import lazy_imports
from portico.cli.listing import ListForm, print_list
from portico.cli.output import CommandError, answer, asks, command_line, confirm, plain

if TYPE_CHECKING:
    from portico.core.oauth import Client
    from portico.environment import Environment
    from portico.features.access.clients import Registered
    from portico.settings import Settings

with lazy_imports():
    from portico.cli import prepared
    from portico.core import audit, errors, oauth
    from portico.core import text as core_text
    from portico.features.access import clients as services_clients
    from portico.features.access import storage as access_storage
    from portico.features.people import accounts
    from portico.features.people import storage as people_storage
    from portico.web import envelope


def add_to(commands: Commands) -> None:
    """Declares `portico clients …`."""
    clients = commands.noun(
        "clients", "create, list and delete OAuth clients, and renew their secrets"
    )
    create = clients.verb(
        "create",
        run_create,
        "register an OAuth client and print its secret once",
        "Codes are sent only to the redirect URIs: https://…, http:// on a loopback address (any"
        "\nport), or a native application's own scheme such as com.example.app:/callback.",
    )
    _add_registration_options(create)
    listing = clients.verb("list", run_list, "list OAuth clients, oldest first")
    add_sandbox(listing)
    renew = clients.verb(
        "renew-secret",
        run_renew,
        "replace the secret of an OAuth client",
        "The old secret stops working immediately. Access that users granted stays.",
    )
    delete = clients.verb(
        "delete",
        run_delete,
        "delete an OAuth client",
        "Its access to users' accounts ends immediately.",
    )
    for verb in (renew, delete):
        verb.add_argument(
            "client_id", metavar="CLIENT_ID", type=text, help="client ID from portico clients list"
        )
        add_sandbox(verb)
    add_yes(delete)


def _add_registration_options(create: ArgumentParser) -> None:
    """Adds the options that describe a new client."""
    create.add_argument(
        "--name",
        metavar="N",
        type=by_rule(lambda given: oauth.client_name(given)),
        required=True,
        help="name that users see",
    )
    create.add_argument(
        "--redirect-uri",
        metavar="URI",
        type=by_rule(lambda given: oauth.redirect_uri(given)),
        nargs="+",
        action="extend",
        default=[],
        help="where codes may be sent; can be repeated; not needed with --grant or --service",
    )
    create.add_argument(
        "--scope",
        metavar='"…"',
        type=text,  # the settings declare some, and are read later
        action="append",
        required=True,
        help='what it can ask for, such as "read:products write:products"; can be repeated; every'
        " client can also ask for openid, profile and email",
    )
    create.add_argument(
        "--public",
        action="store_true",
        help="for a native or single-page application, which cannot keep a secret",
    )
    create.add_argument(
        "--owner",
        metavar="EMAIL",
        type=text,
        help="account whose plan limits its requests (default: the first admin)",
    )
    create.add_argument(
        "--first-party",
        action="store_true",
        help="an application of your own, whose users are not asked for consent",
    )
    create.add_argument(
        "--grant",
        choices=("client_credentials", "device_code", "token_exchange"),
        action="append",
        default=[],
        help="a further grant that it may use; can be repeated",
    )
    create.add_argument(
        "--jwks",
        metavar="FILE",
        type=Path,
        help="its public keys (a JSON Web Key Set), with which it signs instead of a secret",
    )
    create.add_argument(
        "--jwks-uri", metavar="URL", type=text, help="where its public keys are, instead of --jwks"
    )
    create.add_argument(
        "--service",
        metavar="NAME",
        type=text,
        help="a declared service whose tokens it may introspect",
    )
    create.add_argument(
        "--post-logout-redirect-uri",
        metavar="URI",
        type=by_rule(lambda given: oauth.redirect_uri(given)),
        nargs="+",
        action="extend",
        default=[],
        help="where the browser may go after signing out; can be repeated",
    )
    create.add_argument(
        "--backchannel-logout-uri",
        metavar="URL",
        type=by_rule(lambda given: core_text.web_url(given)),
        help="where logout tokens are sent when a session of a user ends",
    )
    add_sandbox(create)


class _Owned(NamedTuple):
    """A client and its owner's e-mail."""

    client: Client
    email: str | None


def run_create(settings: Settings, chosen: Namespace) -> None:
    made = prepared.in_environment(settings, chosen, lambda env: _register(env, chosen))
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
    owner = await (
        accounts.account(env, chosen.owner)
        if chosen.owner
        else env[people_storage.Users].first_admin()
    )
    wanted = services_clients.Registration(
        chosen.name,
        chosen.redirect_uri,
        " ".join(chosen.scope),
        first_party=chosen.first_party,
        grants=tuple(dict.fromkeys(chosen.grant)),
        service=chosen.service,
        jwks=chosen.jwks and _read(chosen.jwks),
        jwks_uri=chosen.jwks_uri,
        post_logout_redirect_uris=chosen.post_logout_redirect_uri,
        backchannel_logout_uri=chosen.backchannel_logout_uri,
    )
    try:
        return await services_clients.register_client(
            env, owner, wanted, public=chosen.public, by=audit.OPERATOR
        )
    except errors.Invalid as error:
        faults = "; ".join(f"{fault.field} {fault.message}" for fault in error.details)
        raise CommandError(faults or error.message, 2) from None


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise CommandError(f"{plain(str(file))} cannot be read: {error}") from None


def run_list(settings: Settings, chosen: Namespace) -> None:
    print_list(settings, chosen, _LIST, _found)


async def _found(env: Environment) -> AsyncIterator[list[_Owned]]:
    async for batch in env[access_storage.Clients].batches():
        emails = await env[people_storage.Users].emails(
            {each.user_id for each in batch if each.user_id}
        )
        yield [_Owned(each, emails.get(each.user_id or 0)) for each in batch]


def _registration(client: Client) -> dict[str, Any]:
    return {
        "name": client.name,
        "redirect_uris": list(client.redirect_uris),
        "scopes": oauth.spelled(client.scopes).split(),
    }


def _entry(owned: _Owned) -> dict[str, Any]:
    client = owned.client
    return {
        "client_id": client.client_id,
        **_registration(client),
        "public": client.public,
        "owner": owned.email,
        "created_at": envelope.timestamp(client.created_at),
    }


def _cells(owned: _Owned) -> Sequence[str]:
    client = owned.client
    return (
        client.client_id,
        plain(client.name),
        "public" if client.public else "confidential",
        plain(owned.email or "nobody"),
        oauth.spelled(client.scopes) or "none",
        plain(" ".join(client.redirect_uris)),
    )


_LIST = ListForm(
    _entry,
    ("CLIENT ID", "NAME", "TYPE", "OWNER", "SCOPES", "REDIRECT URIS"),
    _cells,
    "There are no OAuth clients.",
)


def run_renew(settings: Settings, chosen: Namespace) -> None:
    async def renew(env: Environment) -> Registered:
        return await services_clients.renew_secret(
            env, await _row_of(env, chosen.client_id), by=audit.OPERATOR
        )

    made = prepared.in_environment(settings, chosen, renew)
    answer(
        {"client_id": made.client.client_id, "client_secret": made.secret},
        f"{plain(made.client.name)} has a new secret:\n\n  {made.secret}\n\n"
        "Store it now; it is not shown again.",
        as_json=chosen.json,
        lost="The old secret no longer works: renew it again.",
    )


def run_delete(settings: Settings, chosen: Namespace) -> None:
    if asks(chosen):
        found = prepared.in_environment(settings, chosen, lambda env: _of_id(env, chosen.client_id))
        confirm(f"Delete {plain(found.name)}, and end its access to users' accounts?")

    async def delete(env: Environment) -> Client:
        return await services_clients.delete_client(
            env, await _row_of(env, chosen.client_id), by=audit.OPERATOR
        )

    client = prepared.in_environment(settings, chosen, delete)
    answer(
        {"client_id": client.client_id, "name": client.name},
        f"{plain(client.name)} is deleted and has lost its access to users' accounts.",
        as_json=chosen.json,
    )


async def _row_of(env: Environment, client_id: str) -> int:
    return (await _of_id(env, client_id)).id


async def _of_id(env: Environment, client_id: str) -> Client:
    client = await env[access_storage.Clients].by_client_id(client_id)
    if client is None:
        raise CommandError(f"There is no OAuth client {plain(client_id)}.")
    return client
