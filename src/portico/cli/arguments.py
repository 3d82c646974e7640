"""How commands are declared: what stands behind `portico`, and the options that many share."""

from argparse import (
    SUPPRESS,
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable
from typing import Any

from portico.contract.reading import text_fault
from portico.domain.errors import BrokenRule
from portico.settings import Settings

Run = Callable[[Settings, Namespace], int | None]
"""A command's action; returns its exit code, None for 0."""


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
        self, name: str, run: Run, summary: str, details: str = "", *, json: bool = True
    ) -> ArgumentParser:
        """One command; its own arguments are added to what is returned.

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
        command.set_defaults(run=run)
        return command


def ruled(rule: Callable[[str], Any]) -> Callable[[str], Any]:
    """A rule of the domain as the type of an argument."""

    def read(text: str) -> Any:
        if fault := text_fault(text):
            raise ArgumentTypeError(fault)
        try:
            return rule(text)
        except BrokenRule as error:
            raise ArgumentTypeError(str(error)) from None

    return read


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
        "--sandbox", action="store_true", help="work on the sandbox instead of the live data"
    )
