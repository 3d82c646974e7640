"""Runs the benchmark of Portico, a bare server, Fastify and PocketBase: rows, floors, verdicts.

    script/bench [--rounds N] [--seconds N] [--only ROW]… [--huge] [--json FILE] [--dir DIR]

One core is for the server, one for the load. Exits with 0 if every floor is met, otherwise with 1.
"""

import argparse
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench import (
    client_library,
    events,
    footprint,
    growth,
    latency,
    signing_in,
    stores,
    throughput,
    views,
    webhooks,
)
from bench.report import Finding, Report
from bench.servers import LOAD_CPU, SERVER_CPU, BenchError
from bench.workshop import Workshop

ROWS: dict[str, Callable[[Workshop], None]] = {
    "get": throughput.get,
    "list": throughput.list_,
    "kept": throughput.kept,
    "write": throughput.write,
    "declared": throughput.declared,
    "services": throughput.services,
    "agents": throughput.agents,
    "scale": throughput.scale,
    "pages": latency.pages,
    "search": latency.search,
    "busy": latency.busy,
    "credentials": signing_in.credentials,
    "refresh": signing_in.refresh,
    "login": signing_in.login,
    "connections": throughput.connections,
    "memory": footprint.memory,
    "idle": footprint.idle,
    "start": footprint.start,
    "webhooks": webhooks.webhooks,
    "streams": events.streams,
    "dead": events.dead,
    "cursor": events.cursor,
    "library": client_library.library,
    "view": views.view,
    "stores": stores.stores,
}
HUGE: dict[str, Callable[[Workshop], None]] = {
    "huge": growth.products,
    "growth": growth.entries,
}
"""Rows that are measured only on request: they take half an hour and 60 GB."""

RESULTS = Path(__file__).parent / "results" / "latest.json"
OPEN_FILES = 8192
BUSY_MACHINE = 0.5


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="script/bench", description="Measures Portico beside others, against its floors."
    )
    parser.add_argument("--rounds", type=int, default=4, help="interleaved rounds (default 4)")
    parser.add_argument("--seconds", type=int, default=5, help="of one run (default 5)")
    parser.add_argument(
        "--only",
        action="append",
        choices=[*ROWS, *HUGE],
        metavar="ROW",
        help=f"of {', '.join([*ROWS, *HUGE])}; the last two by this or --huge alone",
    )
    parser.add_argument("--huge", action="store_true", help=f"also {' and '.join(HUGE)}")
    parser.add_argument("--json", type=Path, default=RESULTS, help="where the figures are written")
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path("/var/tmp"),  # noqa: S108  only a parent of mkdtemp's
        help="a directory on a real disk, for durable writes (default /var/tmp)",
    )
    given = parser.parse_args()
    if given.rounds < 1 or given.seconds < 1:
        parser.error("--rounds and --seconds are at least 1")
    return given


def _prepare_process() -> None:
    """Keeps everything but the servers on the load's core, and removes Portico's variables."""
    cores = {int(SERVER_CPU), int(LOAD_CPU)}
    if not cores <= os.sched_getaffinity(0):
        sys.exit("script/bench needs CPUs 0 and 1: one for the server, one for the load")
    os.sched_setaffinity(0, {int(LOAD_CPU)})
    # Servers inherit the limit, so that `ulimit -n` does not prevent 2,000 connections.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, OPEN_FILES), hard))
    # SIGTERM must stop the servers too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for name in [name for name in os.environ if name.startswith("PORTICO_")]:
        del os.environ[name]


def main() -> int:
    """Runs the requested rows, prints both tables and writes the JSON. Returns the exit code."""
    given = _arguments()
    _prepare_process()
    report = Report(given.rounds, given.seconds)
    with (
        tempfile.TemporaryDirectory(prefix="portico-bench-", dir=given.dir) as directory,
        ExitStack() as open_,
    ):
        shop = Workshop(Path(directory), report, open_)
        if report.load_average > BUSY_MACHINE:
            shop.say(f"this machine is busy (load {report.load_average:.2f}): trust ratios only")
        rows = {**ROWS, **HUGE}
        for row in given.only or (rows if given.huge else ROWS):
            try:
                rows[row](shop)
            except BenchError as error:
                shop.missing(row, "not measured", error)
            except KeyboardInterrupt:
                shop.say("interrupted")
                report.findings.append(Finding(row, "interrupted", None, "", void=True))
                break
    print(report.table())
    report.write_json(given.json)
    print(f"\nFigures: {given.json}")
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())
