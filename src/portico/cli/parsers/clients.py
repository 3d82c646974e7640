"""Declares `portico clients`."""

from argparse import ArgumentParser

from portico.cli.arguments import Commands, add_sandbox, add_yes, by_rule, text


def add_to(commands: Commands) -> None:
    """Declares `portico clients …`."""
    clients = commands.noun(
        "clients", "create, list and delete OAuth clients, and renew their secrets"
    )
    create = clients.verb(
        "create",
        "portico.cli.clients:run_create",
        "register an OAuth client and print its secret once",
        "Codes are sent only to the redirect URIs: https://…, http:// on a loopback address (any"
        "\nport), or a native application's own scheme such as com.example.app:/callback.",
    )
    _add_registration_options(create)
    listing = clients.verb(
        "list", "portico.cli.clients:run_list", "list OAuth clients, oldest first"
    )
    add_sandbox(listing)
    renew = clients.verb(
        "renew-secret",
        "portico.cli.clients:run_renew",
        "replace the secret of an OAuth client",
        "The old secret stops working immediately. Access that users granted stays.",
    )
    delete = clients.verb(
        "delete",
        "portico.cli.clients:run_delete",
        "delete an OAuth client",
        "Its access to users' accounts ends immediately.",
    )
    for verb in (renew, delete):
        verb.add_argument(
            "client_id",
            metavar="CLIENT_ID",
            type=text,
            help="client ID from portico clients list",
        )
        add_sandbox(verb)
    add_yes(delete)


def _add_registration_options(create: ArgumentParser) -> None:
    """Adds the options that describe a new client."""
    create.add_argument(
        "--name",
        metavar="N",
        type=by_rule("portico.domain.oauth:client_name"),
        required=True,
        help="name that users see",
    )
    create.add_argument(
        "--redirect-uri",
        metavar="URI",
        type=by_rule("portico.domain.oauth:redirect_uri"),
        nargs="+",
        action="extend",
        required=True,
        help="where codes may be sent; can be repeated",
    )
    create.add_argument(
        "--scope",
        metavar='"…"',
        type=by_rule("portico.domain.oauth:client_scopes"),
        action="extend",
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
    add_sandbox(create)
