"""Declares `portico keys`."""

from argparse import ArgumentParser

from portico.cli.arguments import Commands, add_sandbox, add_yes, by_function, by_rule, text
from portico.domain.words import KEY_TYPES


def add_to(commands: Commands) -> None:
    """Declares `portico keys …`."""
    keys = commands.noun("keys", "create, list and revoke API keys")
    create = keys.verb(
        "create",
        "portico.cli.keys:run_create",
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
        type=by_rule("portico.domain.api_keys:key_name"),
        required=True,
        help="what it is for",
    )
    create.add_argument(
        "--expires-in",
        metavar="DURATION",
        type=by_rule("portico.domain.durations:parse_duration"),
        help="such as 30s, 15m, 24h or 90d (default: never)",
    )
    _add_restrictions(create)
    add_sandbox(create)
    listing = keys.verb("list", "portico.cli.keys:run_list", "list API keys, oldest first")
    listing.add_argument("--owner", metavar="EMAIL", type=text, help="only this user's")
    add_sandbox(listing)
    revoke = keys.verb(
        "revoke",
        "portico.cli.keys:run_revoke",
        "revoke an API key",
        "It stops working immediately. This cannot be undone.",
    )
    revoke.add_argument(
        "id",
        metavar="ID",
        type=by_function("portico.cli.values:key_id"),
        help="key ID from portico keys list",
    )
    add_sandbox(revoke)
    add_yes(revoke)


def _add_restrictions(command: ArgumentParser) -> None:
    """Adds the options that restrict a key."""
    command.add_argument(
        "--scope",
        metavar="SCOPE",
        action="append",
        type=by_rule("portico.domain.new_keys:scope"),
        help="what it may do, such as read:products; can be repeated (default: all that its owner"
        " may do)",
    )
    command.add_argument(
        "--network",
        metavar="CIDR",
        action="append",
        type=by_rule("portico.domain.networks:network"),
        help="address or network it may be used from, such as 203.0.113.0/24; can be repeated"
        " (default: any)",
    )
