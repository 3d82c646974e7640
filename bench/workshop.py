"""What all rows of a benchmark run share: its directory, servers, rounds and report."""

import ssl
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench import catalog, fastify_app, pocketbase, portico, postgres, tls
from bench.load import Request, Series, wrk
from bench.portico import Prepared
from bench.report import Finding, Report
from bench.servers import Address, BenchError, Running, free_port, running

SMALL, MIDDLE, LARGE = 1_000, 100_000, 1_000_000
WARM_UP_SECONDS = 1


@dataclass(frozen=True)
class Job:
    """One request to one server, repeated in every round."""

    name: str
    server: Running
    request: Request


@dataclass
class Workshop:
    """One run: a directory that is removed at the end, options, and the report."""

    directory: Path
    report: Report
    kept: ExitStack
    """Closed at the end of the run."""
    _on_postgres: Prepared | None = None
    _prepared: dict[int, Prepared] = field(default_factory=dict)
    _copies: int = 0
    _started: float = field(default_factory=time.monotonic)

    @property
    def log(self) -> Path:
        """A new file for the output of a process."""
        return self.fresh("log")

    def say(self, text: str) -> None:
        """Prints one line of progress."""
        passed = int(time.monotonic() - self._started)
        print(f"{passed // 60:3d}:{passed % 60:02d}  {text}", file=sys.stderr, flush=True)

    def fresh(self, name: str) -> Path:
        """A path that does not exist yet."""
        self._copies += 1
        return self.directory / f"{name}-{self._copies}"

    def catalogue(self, count: int) -> Path:
        """The NDJSON file of `count` products."""
        path = self.directory / f"products-{count}.ndjson"
        if not path.exists():
            self.say(f"writing a catalogue of {count:,}")
            catalog.write_ndjson(path, count)
        return path

    def portico_data(self, count: int) -> Prepared:
        """SQLite data with `count` products, prepared once. Rows that change it copy it."""
        if count not in self._prepared:
            products = self.catalogue(count)
            self.say(f"portico products import, {count:,} products, SQLite")
            started = time.monotonic()
            directory = self.directory / f"portico-{count}"
            self._prepared[count] = portico.prepare(directory, products, count)
            if count == LARGE:
                rate = count / (time.monotonic() - started)
                self.note("import", "portico init and products import, SQLite", rate, "rows/s")
        return self._prepared[count]

    @contextmanager
    def portico(
        self, count: int, *, tls_on: bool, request_log: bool = True, kept: bool = True
    ) -> Iterator[Running]:
        """Portico on a copy of the data with `count` products, SQLite."""
        data = self.portico_data(count).copied(self.fresh("portico-copy"))
        with portico.serving(
            data, self.log, tls_on=tls_on, request_log=request_log, kept=kept
        ) as server:
            yield server

    def _postgres_data(self) -> Prepared:
        """A million products on a PostgreSQL server that runs until the end."""
        if self._on_postgres is None:
            products = self.catalogue(LARGE)
            url = self.kept.enter_context(postgres.cluster(self.directory.parent))
            self.say(f"portico products import, {LARGE:,} products, PostgreSQL")
            directory = self.directory / "portico-postgres"
            self._on_postgres = portico.prepare(directory, products, LARGE, url)
            postgres.settle(url)
        return self._on_postgres

    def on_each_engine(self, row: str, measure: Callable[["Workshop", str, Running], None]) -> None:
        """Measures Portico over TLS on a million products, first on SQLite, then on PostgreSQL."""
        with self.portico(LARGE, tls_on=True) as server:
            measure(self, "SQLite", server)
        try:
            with portico.serving(self._postgres_data(), self.log) as server:
                measure(self, "PostgreSQL", server)
        except BenchError as error:
            self.missing(row, "PostgreSQL", error)

    @contextmanager
    def fastify(self, count: int, *, tls_on: bool) -> Iterator[Running]:
        """Fastify on `count` products."""
        database = self.fresh("fastify")
        key = fastify_app.prepare(database, count)
        certificate = self._certificate() if tls_on else None
        with fastify_app.serving(database, key, self.log, certificate) as server:
            yield server

    @contextmanager
    def pocketbase(self, count: int, *, request_log: bool = True) -> Iterator[Running]:
        """PocketBase on `count` products."""
        directory = self.fresh("pocketbase")
        token = pocketbase.prepare(directory, count, self.log, request_log=request_log)
        with pocketbase.serving(directory, token, self.log) as server:
            yield server

    @contextmanager
    def hello(self, size: int, *, tls_on: bool) -> Iterator[Running]:
        """The bare application with a body of `size` bytes."""
        address = Address(free_port(), tls_on, {"Authorization": "Bearer unread"})
        argv = [sys.executable, "-m", "bench.hello", "--port", str(address.port)]
        argv += ["--bytes", str(size)]
        if tls_on:
            certificate, key = self._certificate()
            argv += ["--cert", str(certificate), "--key", str(key)]
        name = f"hello {'TLS' if tls_on else 'plain'}"
        with running(name, argv, address, probe="/", log=self.log) as server:
            yield server

    def _certificate(self) -> tuple[Path, Path]:
        return tls.make_certificate(self.directory)

    def interleave(self, row: str, jobs: Sequence[Job]) -> list[Series]:
        """Runs every job once per round, each round beginning with another job. Returns a series
        for each job."""
        series = [Series(job.name) for job in jobs]
        for job in jobs:
            self.say(f"{row}: warming up {job.name}")
            wrk(job.server.address, job.request, WARM_UP_SECONDS, seed=0)
        for round_ in range(self.report.rounds):
            for turn in range(len(jobs)):
                number = (turn + round_) % len(jobs)
                job = jobs[number]
                seed = round_ + 1
                used = -job.server.cpu_seconds()
                sample = wrk(job.server.address, job.request, self.report.seconds, seed=seed)
                used += job.server.cpu_seconds()
                sample = replace(sample, cpu_us=used * 1e6 / max(1, sample.requests))
                series[number].samples.append(sample)
                self.say(
                    f"{row}: round {seed}/{self.report.rounds} {job.name}: "
                    f"{sample.per_second:,.0f}/s, p99 {sample.p99_ms:.2f} ms"
                    + (
                        f", VOID: {sample.refused} refused, {sample.broken} broken"
                        if sample.void
                        else ""
                    )
                )
        self.report.series += [(row, one) for one in series]
        return series

    def ratio(
        self, row: str, what: str, over: Series, under: Series, at_least: float | None = None
    ) -> None:
        """Adds the ratio of two medians to the report, with the ratio of processor times."""
        void = over.void or under.void
        value = over.per_second / under.per_second if under.per_second else None
        note = ""
        if over.cpu_us and under.cpu_us:
            note = f"(by processor time {under.cpu_us / over.cpu_us:.2f})"
        self.report.findings.append(
            Finding(row, what, value, "x", at_least=at_least, void=void, note=note)
        )

    def missing(self, row: str, what: str, error: BenchError) -> None:
        """Adds a figure that could not be measured, and why."""
        self.say(f"{row}: {what}: {error}")
        reason = str(error).splitlines()[0]
        self.report.findings.append(Finding(row, what, None, "", void=True, note=reason))

    def note(self, row: str, what: str, value: float, unit: str) -> None:
        """Adds a figure without a bound."""
        self.report.findings.append(Finding(row, what, value, unit))

    def at_least(
        self, row: str, what: str, value: float, unit: str, bound: float, *, void: bool = False
    ) -> None:
        """Adds a figure that `bound` must not exceed."""
        finding = Finding(row, what, value, unit, at_least=bound, void=void)
        self.report.findings.append(finding)

    def at_most(
        self, row: str, what: str, value: float, unit: str, bound: float, *, void: bool = False
    ) -> None:
        """Adds a figure that must not exceed `bound`."""
        finding = Finding(row, what, value, unit, at_most=bound, void=void)
        self.report.findings.append(finding)


def check_tls_1_3(server: Running) -> None:
    """Checks that a client that also supports older versions gets TLS 1.3."""
    connection = server.address.connect()
    connection.connect()
    spoken = connection.sock.version() if isinstance(connection.sock, ssl.SSLSocket) else None
    connection.close()
    if spoken != "TLSv1.3":
        raise BenchError(f"{server.name} speaks {spoken}, not TLS 1.3")


def check_answer(server: Running, path: str, wanted: bytes) -> int:
    """Checks that `path` answers 200 with `wanted` in the body. Returns its size in bytes.

    A server that is fast because its response is wrong must not appear in a table.
    """
    status, body = server.address.get(path)
    if status != 200 or wanted not in body.replace(b" ", b""):
        raise BenchError(
            f"{server.name} answered {path} with {status} and not {wanted!r}: {body[-300:]!r}"
        )
    return len(body)
