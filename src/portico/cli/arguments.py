"""How commands are declared, the options that many of them share, and the values of arguments."""

from __future__ import annotations

import sys
from argparse import (
    PARSER,
    SUPPRESS,
    Action,
    ArgumentError,
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from portico.cli.lazy import lazy_imports
from portico.cli.output import RED, painted

if TYPE_CHECKING:
    from portico.settings import Settings

with lazy_imports():
    from portico.core import errors, ids, networks
    from portico.core import text as domain_text

_JSON = "print one JSON value and nothing else"

SESSION, LOGIN = "session", "login"
MAX_LIMIT = 1_000_000_000
"""The largest `--limit`: databases can still count to one more."""

Run: TypeAlias = "Callable[[Settings, Namespace], int | None]"
"""A command's action. Returns the exit code; None means 0."""


class Parser(ArgumentParser):
    """A parser that says which command, option or choice may have been meant."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As `ArgumentParser`, but rejects unknown arguments itself: it knows the options."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            options = self._option_string_actions
            hint = meant(unknown[0].partition("=")[0], options)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
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
        hint = meant(value, choices)
        if action.nargs == PARSER:
            raise ArgumentError(None, f"there is no command {value!r}{hint or _listing(self)}")
        message = f"invalid choice: {value!r} (choose from {', '.join(map(repr, choices))})"
        raise ArgumentError(action, message + hint)


class Suggested(tuple[str, ...]):
    """Choices that completion offers; the settings may have more, so the action checks the word."""

    def __contains__(self, _: object) -> bool:
        return True


def meant(text: str, known: Iterable[str]) -> str:
    """The end of a message about a word that is not known: the one that may have been meant."""
    from difflib import get_close_matches  # after a mistake only

    close = get_close_matches(text, known, 1)
    return f": did you mean {close[0]}?" if close else ""


def _listing(parser: ArgumentParser) -> str:
    return f": {parser.prog} --help lists the commands"


class Commands:
    """The commands of `portico`, or of a noun such as `portico users`."""

    def __init__(self, parser: ArgumentParser, of: tuple[str, str] | None = None) -> None:
        """`parser` reads the arguments before the command. Without a command, what it has read
        names no action (`run`), but this parser, whose help lists the commands (`without`). `of` is
        an argument that comes before the command, and its help."""
        _add_data(parser)
        parser.set_defaults(without=parser)
        if of is not None:
            name, about = of
            parser.add_argument(name, metavar=name.upper(), help=about)
        self._verbs = parser.add_subparsers(title="commands", metavar="COMMAND")

    def noun(
        self,
        name: str,
        summary: str,
        run: Run | None = None,
        of: tuple[str, str] | None = None,
    ) -> Commands:
        """Adds a noun and returns its commands. `run` is what it does without one; `of` is as for
        `Commands`."""
        parser = self._verbs.add_parser(name, help=summary, description=_sentence(summary))
        commands = Commands(parser, of)
        if run is not None:
            parser.add_argument("--json", action="store_true", help=_JSON)
            parser.set_defaults(run=run, sandbox=False)
        return commands

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
        self, name: str, run: Run, summary: str, details: str = "", *, json: bool = True
    ) -> ArgumentParser:
        """Adds a command and returns its parser, to which the caller adds the arguments.

        Lists of commands show `summary`; the command's own help adds `details`. With `json`, the
        command takes `--json`.
        """
        command = self.word(name, summary, details)
        _add_data(command)
        if json:
            command.add_argument("--json", action="store_true", help=_JSON)
        command.set_defaults(run=run, sandbox=False)  # for commands without `--sandbox`
        return command


def by_rule(rule: Callable[[str], Any]) -> Callable[[str], Any]:
    """An argument type that applies a rule of the domain to a text that can be stored."""

    def read(given: str) -> Any:
        if fault := domain_text.text_fault(given):
            raise ArgumentTypeError(fault)
        try:
            return rule(given)
        except errors.BrokenRule as error:
            raise ArgumentTypeError(str(error)) from None

    return read


text = by_rule(str)
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


def add_api(command: ArgumentParser) -> None:
    """Adds the options of a command that can use the API instead of a data directory."""
    command.add_argument(
        "--base-url",
        metavar="URL",
        help="use the API at this address (default where there is no data directory:"
        " PORTICO_BASE_URL)",
    )
    command.add_argument(
        "--api-key-stdin",
        action="store_true",
        help="read the API key from standard input (default: PORTICO_API_KEY)",
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
        type=_limit,
        default=default,
        help=f"number of {what} (default %(default)s)",
    )


def _limit(text: str) -> int:
    """The maximum number of list entries to show."""
    message = f"must be a number from 1 to {MAX_LIMIT}"
    number = _number(text, message)
    if number > MAX_LIMIT:
        raise ArgumentTypeError(message)
    return number


def key_id(text: str) -> int:
    """The id of an API key."""
    return _number(text, "must be the number of a key")


def row_id(text: str) -> int:
    """The id of a row in a list."""
    return _number(text, "must be a number from the list")


def event_id(text: str) -> int:
    """The id of an event, or 0, which is before the first one."""
    return 0 if text == "0" else _number(text, "must be the id of an event, or 0")


def forward_url(text: str) -> str:
    """The URL to forward events to: any address, since this runs on the user's own machine."""
    return str(by_rule(networks.ANYWHERE.check_url)(text))


def session_id(text: str) -> tuple[str, int]:
    """The kind and id of a session or login, from `session-N` or `login-N`."""
    message = f"must be {SESSION}-N or {LOGIN}-N"
    kind, _, row_id = text.partition("-")
    if kind not in (SESSION, LOGIN):
        raise ArgumentTypeError(message)
    return kind, _number(row_id, message)


def _number(text: str, message: str) -> int:
    try:
        return ids.parse_id(text)
    except errors.NotFound:
        raise ArgumentTypeError(message) from None
