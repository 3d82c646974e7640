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

import pytest

from operating import Service, lateness, until
from reliability.boundless import beside, boundless
from reliability.crash.truth import of_postgres
from servers import PostgresServer

SOON_SECONDS = 1.0
ALLOWED = 404
DONE = {"POST": 201, "PATCH": 200, "DELETE": 204}
PATHS = {"base": "v1", "sandbox": "sandbox/v1", "auth": "auth", "dashboard": "dashboard"}
LISTENERS = """
SELECT pid FROM pg_stat_activity WHERE datname = current_database()
    AND (query LIKE 'LISTEN%' OR query = 'SELECT 1')"""
END_LISTENERS = LISTENERS.replace("pid", "count(pg_terminate_backend(pid))")


@dataclass
class Pair:
    """Two servers of one database."""

    here: Service
    there: Service
    url: str
    accounts: int = 0

    def new_account(self, role: str) -> tuple[int, str, int]:
        """A new user's id, key, and the key's id."""
        self.accounts += 1
        email = f"account{self.accounts}@example.com"
        body = {"name": "Account", "email": email, "password": "Correct horse 1", "role": role}
        made = self.ask(self.here, "POST", "/v1/users", body)
        told = self.here.installation.told(
            "keys", "create", "--owner", email, "--type", "live", "--name", "key"
        )
        return made["id"], told["key"], told["id"]

    def ask(self, service: Service, method: str, path: str, body: object = None) -> dict[str, int]:
        """An admin's request."""
        key = self.here.installation.key
        answer = service.ask(path, method=method, key=key, body=body)
        assert answer.status == DONE[method], answer
        return answer.json["data"] if answer.body else {}


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


@contextmanager
def everyone_hears(_: Pair) -> Iterator[None]:
    """Changes are heard of as they should be."""
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


def write(service: Service, key: str, connection: socket.socket | None = None) -> int:
    """The status of a request that needs an editor, for a product that is not there."""
    return service.ask("/v1/products/1", method="DELETE", key=key, connection=connection).status


Taking = Callable[[Pair, int, int], object]


def delete_user(pair: Pair, user: int, _: int) -> object:
    return pair.ask(pair.here, "DELETE", f"/v1/users/{user}")


def take_role(pair: Pair, user: int, _: int) -> object:
    return pair.ask(pair.here, "PATCH", f"/v1/users/{user}", {"role": "viewer"})


def revoke_key(pair: Pair, _: int, key: int) -> object:
    return pair.here.installation.told("keys", "revoke", str(key))


@pytest.mark.parametrize(
    ("hearing", "take", "refusal"),
    [
        (everyone_hears, delete_user, 401),
        (everyone_hears, take_role, 403),
        (everyone_hears, revoke_key, 401),
        (listeners_ended, delete_user, 401),
        (listeners_frozen, take_role, 403),
        (listeners_frozen, revoke_key, 401),
    ],
)
def test_what_is_taken_away_is_gone_everywhere_within_a_second(
    pair: Pair,
    hearing: Callable[[Pair], AbstractContextManager[None]],
    take: Taking,
    refusal: int,
) -> None:
    user, key, key_id = pair.new_account("editor")

    def ask(service: Service, connection: socket.socket | None = None) -> int:
        return write(service, key, connection)

    def taken() -> None:
        take(pair, user, key_id)
        if take is not revoke_key:
            assert ask(pair.here) == refusal

    with hearing(pair):
        see_taken(pair, ask, taken, allowed=ALLOWED, refusal=refusal)


Headers = dict[str, str]


def by_session(pair: Pair, body: object) -> Headers:
    answer = pair.here.ask("/v1/sessions", method="POST", body=body)
    return {"cookie": answer.headers["set-cookie"].partition(";")[0]}


def by_login(pair: Pair, body: object) -> Headers:
    tokens = pair.here.ask("/auth/login", method="POST", body=body).json
    return {
        "authorization": f"Bearer {tokens['access_token']}",
        "x-refresh": tokens["refresh_token"],
    }


def sign_out(pair: Pair, _: int, headers: Headers) -> None:
    assert pair.here.ask("/v1/sessions", method="DELETE", headers=headers).status == 204


def change_password(pair: Pair, user: int, _: Headers) -> None:
    pair.ask(pair.here, "PATCH", f"/v1/users/{user}", {"password": "Another horse 2"})


def refresh_twice(pair: Pair, _: int, headers: Headers) -> None:
    body = {"refresh_token": headers["x-refresh"]}
    statuses = [pair.here.ask("/auth/refresh", method="POST", body=body).status for _ in "12"]
    assert statuses == [200, 401]


@pytest.mark.parametrize(
    ("hearing", "sign_in", "take"),
    [
        (everyone_hears, by_session, sign_out),
        (everyone_hears, by_login, refresh_twice),
        (listeners_ended, by_login, change_password),
        (listeners_frozen, by_session, change_password),
        (listeners_frozen, by_login, refresh_twice),
    ],
)
def test_a_sign_in_that_ends_is_over_everywhere_within_a_second(
    pair: Pair,
    hearing: Callable[[Pair], AbstractContextManager[None]],
    sign_in: Callable[[Pair, object], Headers],
    take: Callable[[Pair, int, Headers], None],
) -> None:
    user, _, _ = pair.new_account("viewer")
    email = f"account{pair.accounts}@example.com"
    headers = sign_in(pair, {"email": email, "password": "Correct horse 1"})

    def ask(service: Service, connection: socket.socket | None = None) -> int:
        return service.ask("/v1/users/me", headers=headers, connection=connection).status

    def taken() -> None:
        take(pair, user, headers)
        assert ask(pair.here) == 401

    with hearing(pair):
        see_taken(pair, ask, taken, allowed=200, refusal=401)


def see_taken(
    pair: Pair, ask: Callable[..., int], take: Callable[[], None], *, allowed: int, refusal: int
) -> None:
    """Sees that what `ask` asks is allowed on both servers until `take` is done, and a second later
    refused on the one that did not do it, for good."""
    taken = threading.Event()
    done = 0.0
    seen: list[tuple[float, int]] = []

    def watch() -> None:
        with pair.there.connect() as connection:
            while not (
                taken.is_set() and time.monotonic() > done + 1.3 * SOON_SECONDS + late.seconds
            ):
                asked = time.monotonic()
                seen.append((asked, ask(pair.there, connection)))

    with ThreadPoolExecutor(1) as pool, lateness() as late:
        assert ask(pair.here) == allowed
        watching = pool.submit(watch)
        try:
            until(lambda: seen)
            take()
        finally:
            done = time.monotonic()
            taken.set()
        watching.result()
    before = [asked for asked, status in seen if status == allowed]
    after = [asked for asked, status in seen if status == refusal]
    assert len(before) + len(after) == len(seen)
    assert before
    assert max(before) < done + SOON_SECONDS + late.seconds
    assert max(before) < min(after), "once refused, always refused"
