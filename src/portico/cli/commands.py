"""The command line of `portico`."""

from __future__ import annotations

import sys
from argparse import SUPPRESS, Action, ArgumentParser, Namespace
from collections.abc import Iterator
from functools import cache
from typing import Any, NoReturn

from portico.cli import kinds, openapi, records
from portico.cli.arguments import Commands, Parser, by_rule
from portico.cli.lazy import lazy_imports
from portico.features.access.commands import clients, keys, secret, signing_keys
from portico.features.catalogue import commands as catalogue_commands
from portico.features.events.commands import audit, events, webhooks
from portico.features.operations.commands import trust
from portico.features.people.commands import sandbox, users
from portico.features.signin import commands as signin_commands

with lazy_imports():
    from portico import version
    from portico.cli import initialise, serve
    from portico.core import users as domain_users
    from portico.features.operations.commands import backup, doctor, maintenance

_NOUNS = (
    *(users, keys, signin_commands, clients, signing_keys, secret, catalogue_commands, events),
    *(webhooks, kinds, records, sandbox, audit, openapi, trust),
)

_COMPLETION = """\
For the shells that you open from now on:

  portico completion bash > ~/.local/share/bash-completion/completions/portico
  portico completion zsh > "${fpath[1]}/_portico"
  portico completion fish > ~/.config/fish/completions/portico.fish"""


@cache
def parser() -> ArgumentParser:
    """The one parser of the whole command line; each command's `run` names its action."""
    top = Parser(prog="portico", description="A self-hosted API platform.", allow_abbrev=False)
    top.add_argument(
        "--version", action=_Version, nargs=0, default=SUPPRESS, help="print the version and exit"
    )
    commands = Commands(top)

    init = commands.verb(
        "init",
        lambda *given: initialise.run(*given),
        "prepare the data directory and create the first admin",
    )
    init.add_argument(
        "--admin-email",
        metavar="E",
        type=by_rule(lambda given: domain_users.email(given)),
        help="e-mail of the first admin",
    )

    serving = commands.verb(
        "serve", lambda *given: serve.run(*given), "start the server", json=False
    )
    serving.add_argument("--host", metavar="H", help="address to listen on (default 127.0.0.1)")
    serving.add_argument("--port", metavar="P", help="port to listen on (default 8443)")
    serving.add_argument("--workers", metavar="N", help="number of server processes (default 1)")
    serving.add_argument(
        "--no-migrate",
        action="store_true",
        help="answer 503 until portico migrate has updated the databases",
    )

    migrating = commands.verb(
        "migrate",
        lambda *given: maintenance.run(*given),
        "update the databases to this version",
        "A server does the same when it starts. Only restoring a backup undoes it.",
    )
    migrating.add_argument(
        "--check",
        action="store_true",
        help="change nothing; list pending migrations, and exit with 1 if there are any",
    )
    commands.verb(
        "correct-times",
        lambda *given: maintenance.run_correct_times(*given),
        "correct what a clock that was far ahead has stored",
        "Set this machine's time and stop every server first. Moments in the future become the"
        " present one; entries of the audit log stay as they are.",
    )
    commands.verb(
        "doctor",
        lambda *given: doctor.run(*given),
        "find problems, and say how to fix them",
        "Changes nothing. Can run beside a server. Exits with 1 if there is a problem.",
    )

    backing = commands.verb(
        "backup",
        lambda *given: backup.run_backup(*given),
        "back up both databases, keys and certificates to one file",
        "Can run beside a server, which keeps accepting changes.",
    )
    backing.add_argument(
        "file", metavar="FILE", help="the file to create; compressed if its name ends in .gz"
    )
    restoring = commands.verb(
        "restore",
        lambda *given: backup.run_restore(*given),
        "restore a backup to a new data directory",
        "To restore a PostgreSQL backup, or move one of SQLite there, set PORTICO_DATABASE_URL to"
        "\na database without Portico. Settings are not part of a backup.",
    )
    restoring.add_argument("file", metavar="FILE", help="the file that portico backup created")
    for command in _NOUNS:
        command.add_to(commands)
    commands.word("help", "show the help of a command").add_argument(
        "command", metavar="COMMAND", nargs="*", action=_Help, help="such as users create"
    )
    commands.word(
        "completion", "print a script that completes command lines", _COMPLETION
    ).add_argument("shell", choices=("bash", "zsh", "fish"), action=_Completion, help="%(choices)s")
    return top


class _Version(Action):
    """Looks the version up only when it is asked for: that takes longer than all else here."""

    def __call__(self, parser: ArgumentParser, *_: Any) -> None:
        _print(parser, f"portico {version.version()}")


class _Help(Action):
    """Prints the help of the named command, or of `portico`."""

    def __call__(self, _parser: ArgumentParser, _found: Namespace, words: Any, *_: Any) -> None:
        parser().parse_args([*words, "--help"])


class _Completion(Action):
    """Prints the script of the chosen shell."""

    def __call__(self, verb: ArgumentParser, _found: Namespace, shell: Any, *_: Any) -> None:
        import shtab  # for this command only

        files = {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY}
        for action in _actions(parser()):
            if action.metavar in files:
                action.complete = files[action.metavar]  # type: ignore[attr-defined]
        _print(verb, shtab.complete(parser(), shell))


def _actions(parser: ArgumentParser) -> Iterator[Action]:
    """The arguments of a parser and of all its commands."""
    for action in parser._actions:  # noqa: SLF001 - shtab reads the same
        yield action
        if isinstance(action.choices, dict):
            for command in action.choices.values():
                yield from _actions(command)


def _print(parser: ArgumentParser, text: str) -> NoReturn:
    """Prints a text and ends the process."""
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        parser.exit(1)
    except OSError as error:
        parser.exit(1, f"portico: {error.strerror}\n")
    parser.exit()
