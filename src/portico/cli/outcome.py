"""Runs a command and turns its outcome into an exit code, with one line on stderr if it failed."""

import os
import signal
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from portico.cli.arguments import Run
from portico.cli.lock import listening
from portico.cli.output import RED, CommandError, discard_output, painted, say_error
from portico.cli.stopping import interrupted_by
from portico.core.errors import PorticoError, WrongDatabase
from portico.data.migrate import MigrationError
from portico.features.operations.certificates import CertificateError
from portico.secret_file import SecretError
from portico.settings import SettingError, load, nothing_runs

WELL, WRONG, MISUSED, INTERRUPTED = 0, 1, 2, 130


def carry_out(chosen: Namespace) -> int:
    """Loads the settings and runs the chosen command."""

    def act() -> int | None:
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        # A command with `--port` is a server itself; all others refer to the running server.
        running = nothing_runs if hasattr(chosen, "port") else listening
        settings = load(_flags(chosen), os.environ, Path.cwd(), running)
        run: Run = chosen.run
        return run(settings, chosen)

    signalled = interrupted_by()
    code = outcome(act, as_json=getattr(chosen, "json", False))
    return 128 + signalled[0] if signalled and code == INTERRUPTED else code


def outcome(act: Callable[[], int | None], *, as_json: bool = False) -> int:
    """The exit code of `act`. An error becomes one line on stderr and an exit code; with `as_json`,
    an error other than wrong usage is also printed as the command's JSON value."""
    try:
        return act() or WELL
    except (SettingError, WrongDatabase) as error:
        return _complain(str(error), MISUSED, as_json=as_json)
    except CommandError as error:
        if isinstance(error.__cause__, BrokenPipeError):
            discard_output()
        message, code = str(error), error.exit_code
    except (PorticoError, MigrationError, CertificateError, SecretError) as error:
        message, code = str(error), WRONG
    except BrokenPipeError:  # the reader of the output is gone, as with `head`
        discard_output()
        return WRONG
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        message, code = f"{where}{error.strerror or error}", WRONG
    except KeyboardInterrupt:
        return INTERRUPTED
    if as_json and code == WRONG:
        try:
            say_error(message)
        except OSError:  # stderr still gets the message below
            discard_output()
    return _complain(message, code, as_json=as_json)


def _flags(chosen: Namespace) -> dict[str, str | int | None]:
    return {name: getattr(chosen, name, None) for name in ("data", "host", "port", "workers")}


def _complain(message: str, code: int, *, as_json: bool) -> int:
    with suppress(OSError):  # the exit code still reports the failure
        start = painted(RED, "portico:", sys.stderr, as_json=as_json)
        print(f"{start} {message}", file=sys.stderr)  # noqa: T201 - a command's error output
    return code
