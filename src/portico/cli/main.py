"""The command `portico`."""

import os
import signal
import sys
from collections.abc import Sequence

from portico.cli.commands import parser
from portico.cli.lazy import lazy_imports
from portico.cli.output import flush_output, replace_closed

with lazy_imports():
    from portico.cli import outcome


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code: 0 success, 1 failure, 2 wrong usage."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until there is something to finish
    os.umask(0o077)  # only their owner may read the databases, keys and backups a command creates
    replace_closed()
    try:
        chosen = parser().parse_args(arguments)
        if not hasattr(chosen, "run"):
            chosen.without.print_help(sys.stderr)
            return 2
        return outcome.carry_out(chosen)
    finally:
        flush_output()
