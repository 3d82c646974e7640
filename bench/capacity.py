"""Calculates what an installation needs from the costs of a request and a row, and what runs short.

    python -m bench.capacity --requests 2000 --accounts 100000 --products 1000000

Its figures come from `script/bench --only stores`; by default they are those in
`bench/figures.json`. Use your own with `--figures bench/results/latest.json`.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import ceil
from pathlib import Path

FIGURES = Path(__file__).with_name("figures.json")
BUSY = 0.6
"""The usable part of a core: with a higher load, requests wait for each other."""
CONNECTIONS = 32
"""Connections of each worker to PostgreSQL (docs/operations/postgresql.md)."""
LIST = "list made anew"
"""A list that is not cached; a cached one costs less than a GET."""
DAY = 86_400
GB = 1e9

Figures = Mapping[str, float]
"""Figures by their names in the benchmark's row, such as `GET: Portico`, in its units: µs and
bytes."""


def option(default: float, meaning: str) -> float:
    """A field that a command-line option can set."""
    value: float = field(default=default, metadata={"meaning": meaning})
    return value


@dataclass(frozen=True)
class Plan:
    """The planned load. All rates are those of the busiest minute."""

    requests: float = option(1_000, "requests a second")
    writes: float = option(0.05, "share of requests that change something")
    lists: float = option(0.2, "share of requests that are lists")
    mean: float = option(0.3, "requests over a whole day, as a share of the busiest minute")
    accounts: float = option(1e5, "accounts")
    keys: float = option(2, "API keys of an account")
    callers: float = option(0.1, "share of accounts that call on a day")
    products: float = option(1e6, "products")
    events_days: float = option(30, "days that events are kept")
    audit_days: float = option(365, "days that the audit log is kept")
    cores: float = option(8, "cores of a host of Portico")
    database_cores: float = option(64, "cores of the largest machine for PostgreSQL")
    database_disk: float = option(16_000, "GB of its disk")
    database_log: float = option(200, "MB/s of write-ahead log that its disk and standby take")
    database_connections: float = option(500, "connections that it takes")
    store_memory: float = option(64, "GB of memory of a machine for Redis")
    network: float = option(10_000, "Mbit/s of the balancer")


@dataclass(frozen=True)
class Need:
    """The need for a resource, and how much of it one machine has."""

    what: str
    amount: float
    unit: str
    limit: float | None = None
    then: str = ""
    """What to do if one machine does not have enough."""

    @property
    def share(self) -> float:
        """The used part of the limit; above 1 there is not enough."""
        return self.amount / self.limit if self.limit else 0.0


def needs(plan: Plan, figures: Figures) -> list[Need]:
    """The needs of a plan."""
    workers = ceil(_cores(plan, figures, "Portico"))
    enough = ceil(workers / plan.cores)
    # One more host than needed, with as many workers as the others.
    hosts, serving = enough + 1, ceil(workers / max(enough, 1))
    return [
        Need("Portico", workers, "cores, a worker each"),
        Need("Portico, one host more than needed", hosts, "hosts"),
        *_of_the_database(plan, figures),
        Need(
            "PostgreSQL's connections",
            hosts * serving * CONNECTIONS,
            "",
            plan.database_connections,
            "PgBouncer by transactions, with database_listen_url past it",
        ),
        Need(
            "Redis, which has one thread",
            _cores(plan, figures, "Redis"),
            "cores",
            1.0,
            "a cluster: a core each node",
        ),
        Need(
            "Redis' memory",
            plan.accounts * plan.callers * figures["caller: Redis"] / GB,
            "GB",
            plan.store_memory,
            "a cluster",
        ),
        Need(
            "the balancer's network",
            sum(_rates(plan)[kind] * figures[f"{kind}: answer"] for kind in ("GET", LIST)) * 8e-6,
            "Mbit/s",
            plan.network,
            "two balancers by DNS or anycast, then regions",
        ),
    ]


def _rates(plan: Plan) -> dict[str, float]:
    """Requests per second, by kind."""
    return {
        "GET": plan.requests * (1 - plan.writes - plan.lists),
        LIST: plan.requests * plan.lists,
        "POST": plan.requests * plan.writes,
    }


def _cores(plan: Plan, figures: Figures, party: str) -> float:
    busy = sum(rate * figures[f"{kind}: {party}"] for kind, rate in _rates(plan).items())
    return busy / 1e6 / BUSY


def _of_the_database(plan: Plan, figures: Figures) -> list[Need]:
    writes = _rates(plan)["POST"]
    written = writes * plan.mean * DAY
    rows = {
        "account": plan.accounts,
        "key": plan.accounts * plan.keys,
        "product": plan.products,
        "event": written * plan.events_days,
        "audit entry": written * plan.audit_days,
        "kept answer": written,
    }
    disk = {kind: rows[kind] * figures[f"{kind}: row and indexes"] / GB for kind in rows}
    largest = max(disk, key=disk.__getitem__)
    return [
        Need(
            "PostgreSQL's primary",
            _cores(plan, figures, "PostgreSQL"),
            "cores",
            plan.database_cores,
            "reads to replicas, then several primaries",
        ),
        Need(
            "PostgreSQL's disk, as much again for the standby",
            sum(disk.values()),
            "GB",
            plan.database_disk,
            f"most of it is one row for each {largest}: keep fewer days of events and audit log,"
            " then several primaries",
        ),
        Need(
            "PostgreSQL's write-ahead log",
            writes * figures["POST: write-ahead log"] / 1e6,
            "MB/s",
            plan.database_log,
            "faster disks and network to the standby, then several primaries",
        ),
    ]


def report(found: Sequence[Need]) -> str:
    """A table of the needs, and which resources run short, the scarcest first."""
    lines = ["| Needed | | of one machine |", "|---|---:|---:|"]
    for need in found:
        share = f"{need.share:.0%}" if need.limit else ""
        lines.append(f"| {need.what} | {number(need.amount)} {need.unit} | {share} |")
    bounded = sorted((need for need in found if need.limit), key=lambda need: -need.share)
    short = [need for need in bounded if need.share > 1]
    if short:
        lines += ["", "What is short, the shortest first:"]
        lines += [f"{place}. {need.what}: {need.then}." for place, need in enumerate(short, 1)]
    else:
        lines += ["", f"One machine has enough of each. First to be short: {bounded[0].what}."]
    return "\n".join(lines)


def number(amount: float) -> str:
    """A number with two significant digits, or with all digits before the point."""
    return f"{amount:,.0f}" if amount >= 10 else f"{amount:.2g}"


def figures_of(path: Path) -> Figures:
    """The results of `script/bench --only stores`. Raises ValueError if the file has none."""
    findings = json.loads(path.read_text("utf-8"))["findings"]
    found = {one["what"]: one["value"] for one in findings if one["row"] == "stores"}
    if not found or None in found.values():
        raise ValueError(f"{path} has no figures of script/bench --only stores")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the report. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.capacity", description="What an installation needs."
    )
    for one in fields(Plan):
        parser.add_argument(
            f"--{one.name.replace('_', '-')}",
            type=float,
            default=one.default,
            metavar="N",
            help=f"{one.metadata['meaning']} (default {one.default})",
        )
    parser.add_argument("--figures", type=Path, default=FIGURES, help="of script/bench")
    given = vars(parser.parse_args(arguments))
    path = given.pop("figures")
    plan = Plan(**given)
    if min(given.values()) < 0 or plan.writes + plan.lists > 1:
        parser.error("no number is below 0, and writes and lists are at most all requests")
    try:
        figures = figures_of(path)
    except (OSError, ValueError, KeyError) as error:
        parser.error(str(error))
    print(report(needs(plan, figures)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
