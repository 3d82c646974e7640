"""The command `portico`."""

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from portico.cli.output import CommandError
from portico.cli.parser import parser
from portico.domain.errors import PorticoError
from portico.settings import SettingError, load
from portico.storage.migrate import MigrationError

WELL, WRONG, MISUSED = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code: 0 well, 1 something is wrong, 2 misused."""
    chosen = parser().parse_args(arguments)
    try:
        settings = load(_flags(chosen), os.environ, Path.cwd())
    except SettingError as error:
        return _complain(str(error), MISUSED)
    try:
        return int(chosen.run(settings, chosen) or WELL)
    except CommandError as error:
        return _complain(str(error), error.exit_code)
    except (PorticoError, MigrationError) as error:
        return _complain(str(error), WRONG)
    except KeyboardInterrupt:
        return 130


def _flags(chosen: Namespace) -> dict[str, str | int | None]:
    return {name: getattr(chosen, name, None) for name in ("data", "host", "port", "workers")}


def _complain(message: str, code: int) -> int:
    print(f"portico: {message}", file=sys.stderr)  # noqa: T201 - the command line speaks here
    return code
