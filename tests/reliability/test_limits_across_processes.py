"""The rate limits as client processes see them: each place in a window is given once."""

import itertools
import multiprocessing
import ssl
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from operating import Installation, Service, at_once, until
from reliability.boundless import PER_DAY, boundless
from servers import RedisServer

PER_MINUTE = 200
PROCESSES, WORKERS = 3, 2
CONNECTIONS = 4
"""Of each process."""

REQUESTS = 60
"""On each connection: more in all than two minutes have places."""

ASKED = (
    ("/v1/users/me", 200),
    ("/v1/products?limit=1", 200),
    ("/v1/nowhere", 404),
    ("/v1/products?limit=0", 400),
)
"""Paths, and how they are answered within the limit."""


class Told(NamedTuple):
    """What an answer told of the limits."""

    admitted: bool
    reset: int
    remaining: int
    worker: str


class Client(Service):
    """A server that another process runs."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation


def requests_of_one_process(installation: Installation) -> list[list[Told]]:
    """What each connection of a process was told, in the order of its requests."""
    service = Client(installation)

    def ask(connection: ssl.SSLSocket) -> list[Told]:
        told = []
        for number in range(REQUESTS):
            path, status = ASKED[number % len(ASKED)]
            answer = service.ask(path, key=installation.key, connection=connection)
            assert answer.status in (status, 429), answer
            assert answer.headers["x-ratelimit-limit"] == str(PER_MINUTE)
            reset = int(answer.headers["x-ratelimit-reset"])
            remaining = int(answer.headers["x-ratelimit-remaining"])
            told.append(Told(answer.status != 429, reset, remaining, answer.worker))
        return told

    with service.connected(WORKERS, CONNECTIONS // WORKERS) as connections:
        return at_once(lambda number: ask(connections[number]), CONNECTIONS)


def test_each_place_in_a_window_is_given_to_one_request(tmp_path: Path, redis: RedisServer) -> None:
    installation = boundless(tmp_path, valkey_url=redis.url.removesuffix("0") + "7")
    with (tmp_path / "portico.toml").open("a") as settings:
        settings.write(f"[plans.tight]\nper_minute = {PER_MINUTE}\nper_day = {PER_DAY}\n")
    email = installation.facts["admin"]["email"]
    installation.told("users", "set-plan", email, "tight")
    with installation.serving("--workers", str(WORKERS)) as service:
        fresh = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(PROCESSES, fresh) as pool:
            runs = [pool.submit(requests_of_one_process, installation) for _ in range(PROCESSES)]
            connections = [told for run in runs for told in run.result()]
        assert len({one.worker for told in connections for one in told}) == WORKERS

        given: dict[int, list[int]] = defaultdict(list)
        for told in connections:
            for one in told:
                if one.admitted:
                    given[one.reset].append(one.remaining)
                else:
                    assert one.remaining == 0
            for before, after in itertools.pairwise(told):
                assert after.reset >= before.reset
                assert after.reset > before.reset or after.remaining <= before.remaining
        for places in given.values():
            # Each once, none left out: so no more than there are, and no refused one took any.
            assert sorted(places, reverse=True) == list(range(PER_MINUTE))[::-1][: len(places)]
        assert any(len(places) == PER_MINUTE for places in given.values())

        installation.told("users", "set-plan", email, "boundless")
        answer = until(lambda: counted_in_the_day(service), "the other plan")
        today = int(answer["x-ratelimit-reset"])
        admitted = sum(len(places) for reset, places in given.items() if 0 <= today - reset < 86400)
        assert PER_DAY - int(answer["x-ratelimit-remaining"]) == admitted + 1


def counted_in_the_day(service: Service) -> dict[str, str] | None:
    """The headers of an answer that tells of the day, once there is one."""
    headers = service.ask("/v1/users/me", key=service.installation.key).headers
    return headers if headers["x-ratelimit-limit"] == str(PER_DAY) else None
