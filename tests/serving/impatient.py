"""`portico serve` with other timeouts: READ and LOOK seconds, at most FILES open files, and IDLE
seconds, where they are given."""

import os
import resource
import sys
from pathlib import Path

import uvloop

from portico.cli.connections import ConnectionTimeouts
from portico.cli.serve import serve
from portico.settings import load

read, look, files = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
idle = [float(one) for one in sys.argv[4:]]
resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
settings = load({}, os.environ, Path.cwd())


def listening() -> None:
    """Tells, as `portico serve` does, that it serves."""
    sys.stdout.write("Portico serves\n")
    sys.stdout.flush()


uvloop.run(serve(settings, listening, timeouts=ConnectionTimeouts(read, look, look, *idle)))
