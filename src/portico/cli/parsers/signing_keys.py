"""Declares `portico signing-keys`."""

from portico.cli.arguments import Commands, add_sandbox


def add_to(commands: Commands) -> None:
    """Declares `portico signing-keys …`."""
    keys = commands.noun("signing-keys", "list and rotate the keys that sign JSON Web Tokens")
    rotate = keys.verb(
        "rotate",
        "portico.cli.signing_keys:run_rotate",
        "create the next signing key",
        "It is published immediately and used after 15 minutes, when everyone has fetched it. The"
        "\nprevious key stays published as long as tokens that it signed are valid.",
    )
    rotate.add_argument(
        "--at-once",
        action="store_true",
        help="use it now, and refuse what older keys signed: for a leaked key",
    )
    add_sandbox(rotate)
    listing = keys.verb(
        "list", "portico.cli.signing_keys:run_list", "list signing keys, oldest first"
    )
    add_sandbox(listing)
