"""The command `portico`."""

import os
import signal
from collections.abc import Sequence
from pkgutil import resolve_name

from portico.cli.parsers.top import parser
from portico.cli.streams import hold, settle


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code: 0 well, 1 something is wrong, 2 misused."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until there is something to finish
    os.umask(0o077)  # databases, keys, backups: whatever a command makes is its owner's alone
    hold()
    try:
        chosen = parser().parse_args(arguments)
        code: int = resolve_name("portico.cli.outcome:carry_out")(chosen)
        return code
    finally:
        settle()
