"""SQLite's file locked or its disk full, under a running server: reads go on, writes get 503, and
what was acknowledged is delivered."""

import re
import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from operating import Installation, Service, until
from portico.data.sqlite.connection import BUSY_SECONDS, connect
from receiving import received
from reliability.boundless import boundless
from reliability.outage import BUSY_MACHINE_SECONDS, Caller, Hook, late, nobody_else_waits

LOCKED_SECONDS = 7.0


def test_while_another_process_locks_sqlite_reads_go_on_and_writes_wait_or_get_503(
    installation: Installation,
) -> None:
    with installation.serving() as service, ThreadPoolExecutor(3) as pool:
        caller = Caller(service)
        other = connect(installation.data / "live.db")
        with nobody_else_waits(service):
            other.execute("BEGIN IMMEDIATE").fetchall()
            seen = caller.statuses(LOCKED_SECONDS)
            assert set(seen) == {("create", 503), ("read", 200)}
            late = [pool.submit(caller.create) for _ in range(3)]
            until(lambda: waiting(service) > 0, "that one waits for another")
            other.execute("ROLLBACK").fetchall()
            assert [one.result() for one in late] == [201] * 3
        other.close()
        assert caller.slowest < BUSY_SECONDS + BUSY_MACHINE_SECONDS
        caller.recovers()
        caller.finds_what_was_acknowledged()


def waiting(service: Service) -> float:
    """How many wait to write to the live database."""
    text = service.ask("/metrics").body.decode()
    metric = 'portico_database_waiting{environment="live",pool="write"}'
    found = re.search(rf"^{re.escape(metric)} (\S+)$", text, re.MULTILINE)
    assert found is not None, text
    return float(found[1])


@contextmanager
def full(service: Service) -> Iterator[None]:
    """Keeps a server's files from growing, as a full disk does."""
    pid, unlimited = service.process.pid, resource.RLIM_INFINITY
    size = len(service.text)  # of the log, which is the smallest
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, unlimited))
    yield
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))


def test_while_the_disk_is_full_reads_go_on_and_writes_get_503(tmp_path: Path) -> None:
    with received(late) as receiver:
        installation = boundless(tmp_path)
        hook = Hook(installation, receiver)
        with installation.serving() as service:
            caller = Caller(service)
            assert caller.statuses(0.2).keys() == {("create", 201), ("read", 200)}
            with nobody_else_waits(service), full(service):  # while deliveries are under way
                seen = caller.statuses(2.0)
                assert set(seen) - {("create", 201)} == {("create", 503), ("read", 200)}
                assert caller.create() == 503
            caller.recovers()
            caller.finds_what_was_acknowledged()
            asked = service.ask("/v1/users/me", key=installation.key).headers["x-request-id"]
            until(lambda: asked in service.text, "the log's recovery")
            hook.has_told_once(service, caller.acknowledged)
        with installation.serving() as service:  # which was killed
            caller.service = service
            caller.finds_what_was_acknowledged()
            caller.recovers()
