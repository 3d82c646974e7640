"""The command `portico`."""

import os
import signal
import sys
from collections.abc import Sequence
from pkgutil import resolve_name

from portico.cli.parsers.top import parser
from portico.cli.streams import flush_output, replace_closed


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
        code: int = resolve_name("portico.cli.outcome:carry_out")(chosen)
        return code
    finally:
        flush_output()
