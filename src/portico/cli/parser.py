"""What can be typed behind `portico`."""

from argparse import ArgumentParser
from importlib.metadata import version

from portico.cli import (
    audit,
    backup,
    clients,
    doctor,
    initialise,
    keys,
    maintenance,
    openapi,
    products,
    sandbox,
    serve,
    sessions,
    signing_keys,
    users,
)
from portico.cli.arguments import Commands


def parser() -> ArgumentParser:
    """The parser of the whole command line; each command's `run` is its action."""
    top = ArgumentParser(
        prog="portico", description="A self-hosted API platform.", allow_abbrev=False
    )
    top.add_argument("--version", action="version", version=f"portico {version('portico')}")
    commands = Commands(top)

    init = commands.verb("init", initialise.run, "prepare the data directory and the first admin")
    init.add_argument("--admin-email", metavar="E", help="e-mail of the first admin")

    serving = commands.verb("serve", serve.run, "serve the API", json=False)
    serving.add_argument("--host", metavar="H", help="address to listen on (default 127.0.0.1)")
    serving.add_argument("--port", metavar="P", help="port to listen on (default 8443)")
    serving.add_argument("--workers", metavar="N", help="processes that serve (default 1)")

    commands.verb(
        "migrate",
        maintenance.run,
        "bring the databases up to this program",
        "A server does the same when it starts. Nothing leads back but a backup.",
    )
    commands.verb(
        "doctor",
        doctor.run,
        "find what is wrong, and say what to do about it",
        "Changes nothing, and may run beside a server. Exits with 1 if there is a problem.",
    )

    backup.add_to(commands)
    nouns = (users, keys, sessions, clients, signing_keys, products, sandbox, audit, openapi)
    for command in nouns:
        command.add_to(commands)
    return top
