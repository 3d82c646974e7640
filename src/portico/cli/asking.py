"""Questions at a terminal."""

import sys
from argparse import Namespace

from portico.cli.output import CommandError


def confirm(question: str) -> None:
    """Asks on standard error. Raises `CommandError` unless the answer is yes."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.buffer.readline().strip().lower() not in (b"y", b"yes"):
        raise CommandError("Nothing was changed.")


def asks(chosen: Namespace) -> bool:
    """Whether a command with `--yes` asks first: only a person at a terminal can answer."""
    return not chosen.yes and sys.stdin.isatty()
