"""What is taken away is gone: at once in the process that took it, soon in every other."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from operating import Service, lateness, until
from reliability.boundless import beside, boundless
from reliability.crash.truth import of_postgres
from servers import PostgresServer

pytestmark = pytest.mark.xdist_group("revocation")  # they share their servers

SOON_SECONDS = 1.0
PASSWORD = "Correct horse 1"
PATHS = {"base": "v1", "sandbox": "sandbox/v1", "auth": "auth", "dashboard": "dashboard"}
LISTENERS = """
SELECT pid FROM pg_stat_activity WHERE datname = current_database()
    AND (query LIKE 'LISTEN%' OR query = 'SELECT 1')"""
END_LISTENERS = LISTENERS.replace("pid", "count(pg_terminate_backend(pid))")

Headers = dict[str, str]


@dataclass
class Pair:
    """Two servers of one database."""

    here: Service
    there: Service
    url: str
    accounts: int = 0

    def post(self, path: str, body: object) -> Any:
        return self.here.ask(path, method="POST", body=body)

    def change(self, method: str, path: str, body: object = None) -> Any:
        """An admin's request."""
        answer = self.here.ask(path, method=method, key=self.here.installation.key, body=body)
        assert answer.status in (200, 201, 204), answer
        return answer.json["data"] if answer.body else {}


@dataclass
class Account:
    """An editor, with a credential."""

    pair: Pair
    id: int
    email: str
    headers: Headers
    key_id: int = 0

    def ask(self, service: Service, connection: socket.socket | None = None) -> int:
        """The status of a request that needs an editor, for a product that is not there."""
        headers, path = self.headers, "/v1/products/1"
        return service.ask(path, method="DELETE", headers=headers, connection=connection).status


@pytest.fixture(scope="module")
def pair(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two servers of one PostgreSQL database, each hearing of the other's changes; their limits,
    which bind nobody here, they do not share."""
    url = postgres.fresh_database()
    # What one of them signs, the other takes: to their callers they are one.
    shared = {f"{name}_url": f"https://localhost/{path}" for name, path in PATHS.items()}
    first = boundless(tmp_path_factory.mktemp("first"), database_url=url, **shared)
    second = beside(first, tmp_path_factory.mktemp("second"))
    with first.serving() as here, second.serving() as there:
        until(lambda: len(of_postgres(url).read(LISTENERS)) == 4)  # each in two environments
        yield Pair(here, there, url)


# Whether changes are heard of


@contextmanager
def heard(_: Pair) -> Iterator[None]:
    yield


@contextmanager
def listeners_ended(pair: Pair) -> Iterator[None]:
    """Nobody hears of any change: every connection that listens is ended, again and again."""
    done = threading.Event()
    read = of_postgres(pair.url).read

    def end() -> int:
        ended = 0
        while not done.is_set():
            ended += read(END_LISTENERS)[0][0]
        return ended

    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(end)
        try:
            yield
        finally:
            done.set()
        assert ending.result() >= 4


@contextmanager
def listeners_frozen(pair: Pair) -> Iterator[None]:
    """Nobody hears of any change, and it takes a second until anybody notices."""
    listeners = [row[0] for row in of_postgres(pair.url).read(LISTENERS)]
    for pid in listeners:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in listeners:
            os.kill(pid, signal.SIGCONT)


# Credentials


def by_key(pair: Pair, email: str) -> tuple[Headers, int]:
    owner = ("--owner", email, "--type", "live", "--name", "key")
    made = pair.here.installation.told("keys", "create", *owner)
    return {"authorization": f"Bearer {made['key']}"}, made["id"]


def by_login(pair: Pair, email: str) -> tuple[Headers, int]:
    tokens = pair.post("/auth/login", {"email": email, "password": PASSWORD}).json
    bearer = f"Bearer {tokens['access_token']}"
    return {"authorization": bearer, "x-refresh": tokens["refresh_token"]}, 0


# What takes them away


def delete_user(account: Account) -> None:
    account.pair.change("DELETE", f"/v1/users/{account.id}")


def take_role(account: Account) -> None:
    account.pair.change("PATCH", f"/v1/users/{account.id}", {"role": "viewer"})


def change_password(account: Account) -> None:
    account.pair.change("PATCH", f"/v1/users/{account.id}", {"password": "Another horse 2"})


def revoke_key(account: Account) -> None:
    account.pair.here.installation.told("keys", "revoke", str(account.key_id))


def refresh_twice(account: Account) -> None:
    body = {"refresh_token": account.headers["x-refresh"]}
    statuses = [account.pair.post("/auth/refresh", body).status for _ in "12"]
    assert statuses == [200, 401]


@pytest.mark.parametrize(
    ("hearing", "credential", "take", "refusal"),
    [
        (heard, by_key, delete_user, 401),
        (heard, by_login, refresh_twice, 401),
        (listeners_ended, by_key, take_role, 403),
        (listeners_ended, by_login, change_password, 401),
        (listeners_frozen, by_key, revoke_key, 401),
    ],
)
def test_what_is_taken_away_is_refused_everywhere_within_a_second_for_good(
    pair: Pair,
    hearing: Callable[[Pair], AbstractContextManager[None]],
    credential: Callable[[Pair, str], tuple[Headers, int]],
    take: Callable[[Account], None],
    refusal: int,
) -> None:
    pair.accounts += 1
    email = f"account{pair.accounts}@example.com"
    body = {"name": "Account", "email": email, "password": PASSWORD, "role": "editor"}
    user = pair.change("POST", "/v1/users", body)
    account = Account(pair, user["id"], email, *credential(pair, email))
    taken, done = threading.Event(), 0.0
    seen: list[tuple[float, int]] = []

    def watch() -> None:
        with pair.there.connect() as connection:
            while not (
                taken.is_set() and time.monotonic() > done + 1.3 * SOON_SECONDS + late.seconds
            ):
                asked = time.monotonic()
                seen.append((asked, account.ask(pair.there, connection)))

    with hearing(pair), ThreadPoolExecutor(1) as pool, lateness() as late:
        assert account.ask(pair.here) == 404
        watching = pool.submit(watch)
        try:
            until(lambda: seen)
            take(account)
            # A command takes it away in another process than this server's.
            assert take is revoke_key or account.ask(pair.here) == refusal
        finally:
            done = time.monotonic()
            taken.set()
        watching.result()
    before = [asked for asked, status in seen if status == 404]
    after = [asked for asked, status in seen if status == refusal]
    assert len(before) + len(after) == len(seen)
    assert max(before) < done + SOON_SECONDS + late.seconds
    assert max(before) < min(after), "once refused, always refused"
