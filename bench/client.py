"""Load that wrk cannot generate: requests at fixed times, password hashing, idle connections."""

import contextlib
import itertools
import json
import secrets
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException

from bench.servers import Address, BenchError

HASHING_CONNECTIONS = 8


def paced(address: Address, path: str, per_second: int, seconds: int) -> list[float]:
    """GETs `path` at fixed times over one connection. Returns the seconds that each response took.

    They are counted from the time when the request was due: if the one before it was still waiting,
    the request has waited too.
    """
    connection = address.connect()
    connection.connect()
    waits = []
    start = time.perf_counter()
    for number in range(per_second * seconds):
        due = start + number / per_second
        time.sleep(max(0.0, due - time.perf_counter()))
        _get(connection, address, path)
        waits.append(time.perf_counter() - due)
    connection.close()
    return waits


def after_changes(address: Address, path: str, times: int) -> list[float]:
    """GETs `path`, each time after a product has changed, so that no cached response is used.
    Returns the seconds that each response took.
    """
    connection = address.connect()
    headers = {**address.headers, "Content-Type": "application/json"}
    waits = []
    for number in range(times):
        change = json.dumps({"stock_quantity": number})
        connection.request("PATCH", "/v1/products/1", change, headers)
        response = connection.getresponse()
        answer = response.read()
        if response.status != 200:
            raise BenchError(f"PATCH answered {response.status}: {answer[:200]!r}")
        started = time.perf_counter()
        _get(connection, address, path)
        waits.append(time.perf_counter() - started)
    connection.close()
    return waits


def _get(connection: HTTPConnection, address: Address, path: str) -> bytes:
    connection.request("GET", path, headers=dict(address.headers))
    response = connection.getresponse()
    body = response.read()
    if response.status != 200:
        raise BenchError(f"GET {path} answered {response.status}: {body[:200]!r}")
    return body


def percentile(values: list[float], percent: int) -> float:
    """The smallest value that is not exceeded by `percent` of the values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


class Hashing:
    """Creates users at a steady rate, each with a password to hash."""

    def __init__(self, address: Address, per_second: int) -> None:
        self._address = address
        self._per_second = per_second
        self._stopped = threading.Event()
        self._local = threading.local()
        self._names = itertools.count()
        self._batch = secrets.token_hex(4)
        self.created = 0
        self.done_per_second = 0.0
        self.failures: list[str] = []

    def _create(self) -> None:
        if not hasattr(self._local, "connection"):
            self._local.connection = self._address.connect()
        body = {
            "name": "Somebody New",
            "email": f"somebody-{self._batch}-{next(self._names)}@example.com",
            "password": f"Aa1-{secrets.token_hex(8)}",
        }
        headers = {**self._address.headers, "Content-Type": "application/json"}
        try:
            self._local.connection.request("POST", "/v1/users", json.dumps(body), headers)
            response = self._local.connection.getresponse()
            answer = response.read()
        except (OSError, HTTPException) as error:
            self.failures.append(repr(error))
            return
        if response.status == 201:
            self.created += 1
        else:
            self.failures.append(f"{response.status}: {answer[:200]!r}")

    def _pace(self) -> None:
        start = time.perf_counter()
        connections = ThreadPoolExecutor(HASHING_CONNECTIONS)
        for number in itertools.count():
            due = start + number / self._per_second
            if self._stopped.wait(max(0.0, due - time.perf_counter())):
                break
            connections.submit(self._create)
        connections.shutdown(cancel_futures=True)

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        """Creates users while the block runs, then sets `done_per_second` to the rate of responses.

        Raises BenchError if a creation failed.
        """
        thread = threading.Thread(target=self._pace)
        started = time.perf_counter()
        thread.start()
        try:
            yield
        finally:
            self.done_per_second = self.created / (time.perf_counter() - started)
            self._stopped.set()
            thread.join()
        if self.failures:
            raise BenchError(f"POST /v1/users failed: {self.failures[0]}")


@contextlib.contextmanager
def idle_connections(address: Address, count: int, path: str) -> Iterator[None]:
    """Holds `count` open connections, each after one response. All must still work at the end."""
    connections = [address.connect() for _ in range(count)]
    try:
        for connection in connections:
            connection.connect()
            connection.auto_open = 0  # do not reopen a connection that the server has closed
            _get(connection, address, path)
        yield
        for connection in connections:
            _get(connection, address, path)
    except (OSError, HTTPException) as error:
        raise BenchError(f"an idle connection was lost: {error!r}") from error
    finally:
        for connection in connections:
            connection.close()
