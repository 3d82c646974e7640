"""How commands are declared, and the options that many of them share.

Printing help or rejecting a command line loads only this module and `parsers`. Anything that takes
time to load is therefore named here as "module:function".
"""

import sys
from argparse import (
    PARSER,
    SUPPRESS,
    Action,
    ArgumentError,
    ArgumentParser,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable, Iterable
from pkgutil import resolve_name
from typing import Any, NoReturn

from portico.cli.colours import RED, painted


class Parser(ArgumentParser):
    """A parser that says which command, option or choice may have been meant."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As `ArgumentParser`, but rejects unknown arguments itself: it knows the options."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            options = self._option_string_actions
            meant = _meant(unknown[0].partition("=")[0], options)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """As `ArgumentParser`, in colour on a terminal."""
        as_json = "--json" in sys.argv
        self.color = not as_json  # of the usage, from Python 3.14 on
        self.print_usage(sys.stderr)
        start = painted(RED, f"{self.prog}: error:", sys.stderr, as_json=as_json)
        self.exit(2, f"{start} {message}\n")

    def _check_value(self, action: Action, value: Any) -> None:
        choices = action.choices
        if choices is None or value in choices:
            return
        meant = _meant(value, choices)
        if action.nargs == PARSER:
            raise ArgumentError(None, f"there is no command {value!r}{meant or _listing(self)}")
        told = f"invalid choice: {value!r} (choose from {', '.join(map(repr, choices))})"
        raise ArgumentError(action, told + meant)


def _meant(text: str, known: Iterable[str]) -> str:
    """The end of a message about a word that is not known: the one that may have been meant."""
    close = resolve_name("difflib:get_close_matches")(text, known, 1)
    return f": did you mean {close[0]}?" if close else ""


def _listing(parser: ArgumentParser) -> str:
    return f": {parser.prog} --help lists the commands"


class Commands:
    """The commands of `portico`, or of a noun such as `portico users`."""

    def __init__(self, parser: ArgumentParser) -> None:
        """`parser` reads the arguments before the command. Without a command, what it has read
        names no action (`run`), but this parser, whose help lists the commands (`without`)."""
        _add_data(parser)
        parser.set_defaults(without=parser)
        self._verbs = parser.add_subparsers(title="commands", metavar="COMMAND")

    def noun(self, name: str, summary: str) -> "Commands":
        """Adds a noun and returns its commands."""
        return Commands(self._verbs.add_parser(name, help=summary, description=_sentence(summary)))

    def word(self, name: str, summary: str, details: str = "") -> ArgumentParser:
        """Adds a command whose arguments act while they are read, without settings."""
        description = "\n\n".join(filter(None, (_sentence(summary), details)))
        return self._verbs.add_parser(
            name,
            help=summary,
            description=description,
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def verb(
        self, name: str, run: str, summary: str, details: str = "", *, json: bool = True
    ) -> ArgumentParser:
        """Adds a command and returns its parser, to which the caller adds the arguments.

        `run` names the action as "module:function": a `Run`, loaded only when the command runs.
        Lists of commands show `summary`; the command's own help adds `details`. With `json`, the
        command takes `--json`.
        """
        command = self.word(name, summary, details)
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
