"""The drills: breaks one part of the cluster after the other under load, and prints the results."""

import asyncio
import json
import signal
import ssl
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress

import asyncpg

from cluster.hosts import Cluster, Say
from cluster.load import Load, Tally
from cluster.stores import PatroniServer, until
from servers import Server

QUIET_SECONDS = 2.0
"""How long there is load before something fails, and after everything works again."""
AWAY_SECONDS = 4.0
PROMOTION_SECONDS = 60.0
ROLLING_SECONDS = 3600.0
"""How long hosts are stopped and started at most, however few requests were served."""


class Drill:
    """A cluster under load."""

    def __init__(self, cluster: Cluster, load: Load, requests: int) -> None:
        """`requests` is how many requests `hosts_rolled` serves at least."""
        self.cluster = cluster
        self.load = load
        self.requests = requests
        self.tally = Tally()
        self.promotion: float | None = None
        """Seconds until PostgreSQL's standby was promoted."""
        self.written: float | None = None
        """Seconds from then until a write was acknowledged."""

    def host_killed(self) -> None:
        """A host of Portico is killed"""
        killed(self.cluster.hosts[0])

    def host_stopped(self) -> None:
        """A host of Portico answers nothing"""
        stopped(self.cluster.hosts[1])

    def hosts_rolled(self) -> None:
        """All hosts are stopped and started, one by one"""
        deadline = time.monotonic() + ROLLING_SECONDS
        while True:
            for host in self.cluster.hosts:
                host.stop(signal.SIGTERM)
                host.start()
                time.sleep(QUIET_SECONDS)  # until HAProxy has seen it
            if self.tally.served >= self.requests or time.monotonic() > deadline:
                return

    def primary_killed(self) -> None:
        """PostgreSQL's primary is killed"""
        standby = self.cluster.standby
        begun = time.monotonic()
        self.cluster.primary.kill_postgres()
        self._is_promoted(standby, begun)

    def primary_stopped(self) -> None:
        """PostgreSQL's primary answers nothing"""
        standby = self.cluster.standby
        begun = time.monotonic()
        with self.cluster.primary.frozen():
            self._is_promoted(standby, begun)

    def standby_killed(self) -> None:
        """PostgreSQL's standby is killed"""
        killed(self.cluster.standby)

    def standby_stopped(self) -> None:
        """PostgreSQL's standby answers nothing"""
        stopped(self.cluster.standby)

    def counters_killed(self) -> None:
        """Redis' primary is killed"""
        killed(self.cluster.counters.primary)

    def counters_stopped(self) -> None:
        """Redis' primary answers nothing"""
        stopped(self.cluster.counters.primary)

    def replica_killed(self) -> None:
        """A replica of Redis is killed"""
        killed(self.cluster.counters.replica)

    def secrets_rotated(self) -> None:
        """The signing key and an API key are rotated"""
        held = self.load.credentials
        held.append(self._signs_in())
        time.sleep(QUIET_SECONDS)
        self.cluster.hosts[0].run("signing-keys", "rotate")
        told = self._post("/v1/api-keys/rotate", {}, self.cluster.key)
        held += [told["data"]["key"], self._signs_in()]
        time.sleep(QUIET_SECONDS)
        del held[1:]

    def _signs_in(self) -> str:
        who = {"email": self.cluster.email, "password": self.cluster.password}
        return str(self._post("/auth/login", who)["access_token"])

    def _post(self, path: str, body: object, key: str | None = None) -> dict[str, dict[str, str]]:
        sent = {"Content-Type": "application/json"}
        sent |= {"Authorization": f"Bearer {key}"} if key else {}
        request = urllib.request.Request(  # noqa: S310 - our own address
            self.cluster.origin + path, json.dumps(body).encode(), sent
        )
        trusting = ssl.create_default_context(cafile=self.cluster.authority)
        with urllib.request.urlopen(request, context=trusting) as answer:  # noqa: S310 - the same
            found: dict[str, dict[str, str]] = json.load(answer)
        return found

    def _is_promoted(self, standby: PatroniServer, begun: float) -> None:
        until(lambda: not asyncio.run(_recovers(standby.url)), "a promotion", PROMOTION_SECONDS)
        promoted = time.monotonic()
        self.promotion = promoted - begun
        until(lambda: self.tally.writes.last > promoted, "a write", PROMOTION_SECONDS)
        self.written = self.tally.writes.last - promoted
        time.sleep(QUIET_SECONDS)


DRILLS: dict[str, Callable[[Drill], None]] = {
    name.replace("_", "-"): function
    for name, function in vars(Drill).items()
    if not name.startswith("_")
}


def killed(server: Server) -> None:
    """Kills a server, and starts it again."""
    server.stop(signal.SIGKILL)
    time.sleep(AWAY_SECONDS)
    server.start()


def stopped(server: Server) -> None:
    """Freezes a server, and lets it go on."""
    with server.frozen():
        time.sleep(2 * AWAY_SECONDS)


async def _recovers(url: str) -> bool:
    with suppress(OSError, asyncpg.PostgresError, TimeoutError):
        connection = await asyncpg.connect(url, timeout=1)
        try:
            return bool(await connection.fetchval("SELECT pg_is_in_recovery()"))
        finally:
            await connection.close()
    return True


def drill(cluster: Cluster, names: Sequence[str], say: Say, requests: int = 0) -> bool:
    """Runs the drills, prints a table of their results, and returns whether nothing was lost,
    stored twice, unseen by its writer, or failed."""
    load = Load(cluster.origin, cluster.authority, [cluster.key])
    done = []
    for name in names:
        function = DRILLS[name]
        say(f"drill: {function.__doc__}")
        one = Drill(cluster, load, requests)
        with load.calling() as one.tally:
            time.sleep(QUIET_SECONDS)
            function(one)
            until(cluster.whole, "that all of it is back")
            time.sleep(QUIET_SECONDS)
        for what, times in one.tally.failed.items():
            say(f"failed {times} times: {what}")
        done.append((str(function.__doc__), one))
    print(table(done))
    wrong = ("lost", "doubled", "unseen", "failed")
    return not any(getattr(one.tally, fault) for _, one in done for fault in wrong)


HEAD = (
    "",
    "requests",
    "lost",
    "twice",
    "unseen",
    "failed",
    "503",
    "no read for",
    "no write for",
    "slowest",
    "promoted after",
    "then a write after",
)


def table(done: Sequence[tuple[str, Drill]]) -> str:
    """The results as a Markdown table with a row for each drill; times in seconds."""
    rows = [HEAD, ("---",) + ("---:",) * (len(HEAD) - 1)]
    for what, one in done:
        tally = one.tally
        counted = (
            *(tally.served, tally.lost, tally.doubled, tally.unseen),
            *(tally.failed.total(), tally.refused),
        )
        lasted = (tally.reads.seconds, tally.writes.seconds, tally.slowest)
        after = (one.promotion, one.written)
        rows.append(
            (
                what,
                *(f"{number:,}" for number in counted),
                *("" if seconds is None else f"{seconds:.1f} s" for seconds in (*lasted, *after)),
            )
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
