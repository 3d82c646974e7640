"""What can be typed behind `portico`."""

from argparse import SUPPRESS, ArgumentParser

from portico.cli import initialise, serve


def parser() -> ArgumentParser:
    """The parser of the whole command line; each command's `run` is its action."""
    shared = ArgumentParser(add_help=False)
    shared.add_argument(
        "--data", metavar="DIR", default=SUPPRESS, help="data directory (default ./portico-data)"
    )
    json = ArgumentParser(add_help=False)
    json.add_argument("--json", action="store_true", help="print one JSON value and nothing else")
    top = ArgumentParser(
        prog="portico", description="A self-hosted API platform.", parents=[shared]
    )
    verbs = top.add_subparsers(title="commands", metavar="COMMAND", required=True)

    init = verbs.add_parser(
        "init", parents=[shared, json], help="prepare the data directory and the first admin"
    )
    init.add_argument("--admin-email", metavar="E", help="e-mail of the first admin")
    init.set_defaults(run=initialise.run)

    serving = verbs.add_parser("serve", parents=[shared], help="serve the API")
    serving.add_argument("--host", metavar="H", help="address to listen on (default 127.0.0.1)")
    serving.add_argument("--port", metavar="P", help="port to listen on (default 8443)")
    serving.add_argument("--workers", metavar="N", help="processes that serve (default 1)")
    serving.set_defaults(run=serve.run)
    return top
