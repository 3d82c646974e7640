"""One of several serving processes. The supervisor starts it and sends it the settings."""

import os
import pickle
import sys
from contextlib import suppress

import uvloop

from portico import logs
from portico.cli.outcome import outcome
from portico.cli.serve import serve
from portico.cli.supervise import RUN
from portico.features.operations.metrics import SharedMetrics


def main() -> int:
    """Serves until SIGTERM, or until the supervisor is gone. Returns the exit code."""
    settings, number, migrates = pickle.load(sys.stdin.buffer)  # noqa: S301 - written by the supervisor
    logs.configure(settings.log_level)
    serving = serve(
        settings,
        _listening,
        migrates=migrates,
        shared=SharedMetrics(settings.data / RUN, number),
        lifeline=sys.stdin.fileno(),
    )
    return outcome(lambda: uvloop.run(serving))


def _listening() -> None:
    with suppress(BrokenPipeError):  # the supervisor is gone, which also stops this process
        os.write(sys.stdout.fileno(), b".")


if __name__ == "__main__":
    sys.exit(main())
