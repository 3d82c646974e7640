"""The servers that tests share. A test that stops a server starts its own, from `servers`."""

import gc
import os
import signal
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest
from hypothesis import HealthCheck, settings

from servers import PostgresServer, RedisServer, postgres_server, redis_server
from shared_database import SharedDatabase

# How long an example takes depends only on the machine.
for name, examples in (("tests", 50), ("long", 200)):
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("tests")

# A shell ignores SIGINT in background jobs. Processes that tests start would inherit that, and
# could not be stopped by it.
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # by nohup, which tests must not inherit
    signal.signal(signal.SIGHUP, lambda *_: None)

LONGEST = (
    "tests/reliability/crash/",
    "tests/openapi/test_schemathesis.py",
    "tests/browser/",
    "tests/docs/test_first_start.py",
    "tests/auth/test_canaries.py",
    "tests/reliability/",
)
"""The longest tests start first, so that at the end no core waits for another."""

LONGEST_NAME, LONGEST_ID = 1_000, 60
"""The most characters of a test's name, and of a parameter in it. Child processes get it in their
environment, and xdist sends it to its workers: neither has room for a body of 10 MB."""

DRILLS = "tests/reliability/test_drills.py"


def pytest_configure(config: pytest.Config) -> None:
    """Tries more examples of each property if `--long` is given."""
    if config.option.long:
        settings.load_profile("long")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Names long parameters by their length; None leaves the name to pytest."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_ID:
        return f"{argname}-of-{len(val)}"
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts `LONGEST` first, without changing the order of the others. Deselects protocol tests on
    the second engine unless `--long` is given, and drills unless `--cluster` is."""
    if not config.option.cluster:
        drills = [item for item in items if DRILLS in item.nodeid]
        config.hook.pytest_deselected(items=drills)
        items[:] = [item for item in items if item not in drills]
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))
    if config.option.long:
        return
    other = {
        item for item in items if "postgres" in item.name and item.get_closest_marker("one_engine")
    }
    config.hook.pytest_deselected(items=list(other))
    items[:] = [item for item in items if item not in other]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Asserts that groups stay together and that no name is too long. Excludes modules and six
    thousand tests from garbage collection, since they stay anyway: traversing them again and again
    took a fifth of the processor time."""
    if getattr(session.config.option, "loadgroup", False):
        assert all(
            item.nodeid.endswith(f"@{group.args[0]}")
            for item in session.items
            if (group := item.get_closest_marker("xdist_group"))
        ), "xdist scatters the groups of --dist loadgroup: see requirements/dev.in"
    for item in session.items:
        assert len(item.nodeid) < LONGEST_NAME, f"name {item.nodeid[:LONGEST_NAME]}… briefly"
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 1_000)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--crash-rounds`, `--cursor-events` and `--migrated-products N`, `--long`, `--cluster`."""
    more = "more of what tries cases at random, and every engine for what concerns the protocol"
    parser.addoption("--long", action="store_true", help=more)
    parser.addoption("--cluster", action="store_true", help="drills on many hosts too")
    parser.addoption(
        "--crash-rounds", type=int, default=3, metavar="N", help="how often to kill the server"
    )
    parser.addoption(
        "--migrated-products", type=int, default=2000, metavar="N", help="beside an older release"
    )
    parser.addoption(
        "--cursor-events", type=int, default=1000, metavar="N", help="told beside readers"
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints what tests measured."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{name}: {value}")


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """Restores the umask, which a command that runs in this process narrows for good."""
    before = os.umask(0)
    os.umask(before)
    yield
    os.umask(before)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running PostgreSQL server. Every test uses its own `fresh_database()` of it."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    """A running Redis or Valkey server. Tests use different names of callers."""
    with redis_server() as server:
        yield server


@pytest.fixture(scope="session")
async def shared_database(postgres: PostgresServer) -> AsyncIterator[SharedDatabase]:
    """One PostgreSQL database for all tests that run the application in process."""
    url = postgres.fresh_database()
    shared = SharedDatabase(url, await asyncpg.connect(url))
    yield shared
    await shared.end()


@pytest.fixture
async def empty_database(
    shared_database: SharedDatabase, monkeypatch: pytest.MonkeyPatch
) -> SharedDatabase:
    """The shared database, emptied. The application uses its connections."""
    await shared_database.empty()
    monkeypatch.setattr("portico.app.database", shared_database.database)
    return shared_database
