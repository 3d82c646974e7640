"""What can be typed behind `portico clients`."""

from argparse import ArgumentParser

from portico.cli.arguments import Commands, ruled, take_sandbox, text


def add_to(commands: Commands) -> None:
    """Declares `portico clients …`."""
    clients = commands.noun("clients", "create, list, renew and delete OAuth clients")
    create = clients.verb(
        "create",
        "portico.cli.clients:run_create",
        "register an OAuth client and print its secret once",
        "Codes are sent to the redirect URIs alone: https://…, http:// on a loopback address (any"
        "\nport), or a native application's own scheme such as com.example.app:/callback.",
    )
    _take_registration(create)
    listing = clients.verb(
        "list", "portico.cli.clients:run_list", "list OAuth clients, oldest first"
    )
    take_sandbox(listing)
    renew = clients.verb(
        "renew-secret",
        "portico.cli.clients:run_renew",
        "give an OAuth client another secret",
        "The old one fails at once; what was granted stays.",
    )
    delete = clients.verb(
        "delete",
        "portico.cli.clients:run_delete",
        "delete an OAuth client",
        "All that was granted to it ends at once.",
    )
    for verb in (renew, delete):
        verb.add_argument(
            "client_id",
            metavar="CLIENT_ID",
            type=text,
            help="from portico clients list",
        )
        take_sandbox(verb)


def _take_registration(create: ArgumentParser) -> None:
    """Adds what is said of a new client."""
    create.add_argument(
        "--name",
        metavar="N",
        type=ruled("portico.domain.oauth:client_name"),
        required=True,
        help="what users see",
    )
    create.add_argument(
        "--redirect-uri",
        metavar="URI",
        type=ruled("portico.domain.oauth:redirect_uri"),
        nargs="+",
        action="extend",
        required=True,
        help="where codes may be sent; can be given more than once",
    )
    create.add_argument(
        "--scope",
        metavar='"…"',
        type=ruled("portico.domain.oauth:client_scopes"),
        required=True,
        help='what it may ask for, such as "read:products write:products"; openid, profile and'
        " email are open to all",
    )
    create.add_argument(
        "--public",
        action="store_true",
        help="it cannot keep a secret: a native or single-page application",
    )
    create.add_argument(
        "--owner",
        metavar="EMAIL",
        type=text,
        help="whose plan its requests count against (default: the first admin)",
    )
    take_sandbox(create)
