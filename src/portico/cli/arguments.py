"""How commands are declared: what stands behind `portico`, and the options that many share.

Help and a wrong command line load nothing but this and `parsers`, so what takes time to load is
named as "module:function" here.
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
    """The commands behind `portico`, or behind a noun such as `portico users`."""

    def __init__(self, parser: ArgumentParser) -> None:
        """`parser` reads what stands before the command."""
        _take_data(parser)
        self._verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def noun(self, name: str, summary: str) -> "Commands":
        """The commands behind a noun."""
        return Commands(self._verbs.add_parser(name, help=summary, description=_sentence(summary)))

    def verb(
        self, name: str, run: str, summary: str, details: str = "", *, json: bool = True
    ) -> ArgumentParser:
        """One command; its own arguments are added to what is returned.

        `run` names its action as "module:function": a `Run`, loaded when it is carried out.
        `summary` stands in lists of commands, `details` follow it in the command's own help. With
        `json`, it takes `--json`.
        """
        command = self._verbs.add_parser(
            name,
            help=summary,
            description="\n\n".join(filter(None, (_sentence(summary), details))),
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        _take_data(command)
        if json:
            command.add_argument(
                "--json", action="store_true", help="print one JSON value and nothing else"
            )
        command.set_defaults(run=run, sandbox=False)  # unless it takes `--sandbox`
        return command


def read_by(reference: str) -> Callable[[str], Any]:
    """The function "module:function" as the type of an argument."""
    return lambda text: resolve_name(reference)(text)


def ruled(rule: str) -> Callable[[str], Any]:
    """The rule "module:function" of the domain as the type of an argument."""
    return lambda text: resolve_name("portico.cli.values:kept")(resolve_name(rule), text)


text = ruled("builtins:str")
"""Any text as the type of an argument, such as an e-mail that is looked up. Bytes that are not
UTF-8 are none."""


def _sentence(summary: str) -> str:
    return f"{summary[0].upper()}{summary[1:]}."


def _take_data(parser: ArgumentParser) -> None:
    # Without a default, so that what stands before the verb is not overwritten behind it.
    parser.add_argument(
        "--data", metavar="DIR", default=SUPPRESS, help="data directory (default ./portico-data)"
    )


def take_sandbox(command: ArgumentParser) -> None:
    """Adds `--sandbox`, where both environments make sense."""
    command.add_argument(
        "--sandbox", action="store_true", help="use the sandbox instead of live data"
    )
