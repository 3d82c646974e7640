"""How commands are declared, and the options that many of them share.

Printing help or rejecting a command line loads only this module and `parsers`. Anything that takes
time to load is therefore named here as "module:function".
"""

from argparse import (
    SUPPRESS,
    ArgumentParser,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any


class Commands:
    """The commands of `portico`, or of a noun such as `portico users`."""

    def __init__(self, parser: ArgumentParser) -> None:
        """`parser` reads the arguments before the command."""
        _add_data(parser)
        self._verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def noun(self, name: str, summary: str) -> "Commands":
        """Adds a noun and returns its commands."""
        return Commands(self._verbs.add_parser(name, help=summary, description=_sentence(summary)))

    def verb(
        self, name: str, run: str, summary: str, details: str = "", *, json: bool = True
    ) -> ArgumentParser:
        """Adds a command and returns its parser, to which the caller adds the arguments.

        `run` names the action as "module:function": a `Run`, loaded only when the command runs.
        Lists of commands show `summary`; the command's own help adds `details`. With `json`, the
        command takes `--json`.
        """
        command = self._verbs.add_parser(
            name,
            help=summary,
            description="\n\n".join(filter(None, (_sentence(summary), details))),
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        _add_data(command)
        if json:
            command.add_argument(
                "--json", action="store_true", help="print one JSON value and nothing else"
            )
        command.set_defaults(run=run, sandbox=False)  # for commands without `--sandbox`
        return command


def by_function(reference: str) -> Callable[[str], Any]:
    """An argument type that calls the function "module:function"."""
    return lambda text: resolve_name(reference)(text)


def by_rule(rule: str) -> Callable[[str], Any]:
    """An argument type that applies the domain's rule "module:function"."""
    return lambda text: resolve_name("portico.cli.values:apply_rule")(resolve_name(rule), text)


text = by_rule("builtins:str")
"""An argument type for any text, such as an e-mail to look up. Rejects bytes that are not UTF-8."""


def _sentence(summary: str) -> str:
    return f"{summary[0].upper()}{summary[1:]}."


def _add_data(parser: ArgumentParser) -> None:
    # No default: the verb's parser would overwrite a value that was given before the verb.
    parser.add_argument(
        "--data", metavar="DIR", default=SUPPRESS, help="data directory (default ./portico-data)"
    )


def add_sandbox(command: ArgumentParser) -> None:
    """Adds `--sandbox` to a command that works in either environment."""
    command.add_argument(
        "--sandbox", action="store_true", help="use the sandbox instead of live data"
    )


def add_yes(command: ArgumentParser) -> None:
    """Adds `--yes` to a command that asks at a terminal before it destroys something."""
    command.add_argument(
        "--yes", action="store_true", help="do not ask for confirmation at a terminal"
    )


def add_limit(command: ArgumentParser, what: str, default: int) -> None:
    """Adds `--limit` to a command that lists `what`."""
    command.add_argument(
        "--limit",
        metavar="N",
        type=by_function("portico.cli.values:limit"),
        default=default,
        help=f"number of {what} (default %(default)s)",
    )
