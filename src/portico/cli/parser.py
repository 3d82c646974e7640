"""What can be typed behind `portico`."""

from argparse import ArgumentParser

from portico.cli import initialise, serve
from portico.cli.arguments import Commands


def parser() -> ArgumentParser:
    """The parser of the whole command line; each command's `run` is its action."""
    top = ArgumentParser(
        prog="portico", description="A self-hosted API platform.", allow_abbrev=False
    )
    commands = Commands(top)

    init = commands.verb("init", initialise.run, "prepare the data directory and the first admin")
    init.add_argument("--admin-email", metavar="E", help="e-mail of the first admin")

    serving = commands.verb("serve", serve.run, "serve the API", json=False)
    serving.add_argument("--host", metavar="H", help="address to listen on (default 127.0.0.1)")
    serving.add_argument("--port", metavar="P", help="port to listen on (default 8443)")
    serving.add_argument("--workers", metavar="N", help="processes that serve (default 1)")
    return top
