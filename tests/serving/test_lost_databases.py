"""A database's file that is moved under a server: what was acknowledged comes back with it."""

import os
import signal
from pathlib import Path

import pytest

from operating import Installation, Service, in_database, until
from portico.cli.outcome import WRONG
from servers import RedisServer

COUNT = "SELECT count(*) FROM products WHERE name LIKE 'Kept %'"
KEPT = 10


def store(service: Service, path: str, key: str) -> None:
    """Has products stored, none of which goes into the file before its log is full."""
    for number in range(KEPT):
        body = {"name": f"Kept {number}", "category": "books", "price": 1}
        assert service.ask(path, method="POST", key=key, body=body).status == 201


def move(file: Path) -> Path:
    return file.rename(file.with_name("moved.db"))


def test_a_command_makes_no_file_in_the_place_of_one_that_is_gone(
    installation: Installation,
) -> None:
    file = installation.data / "sandbox.db"
    with installation.serving() as service:
        store(service, "/sandbox/v1/products", installation.facts["keys"]["test"])
        moved = move(file)
        for command in (("users", "list"), ("users", "list", "--sandbox")):
            code, line = installation.refused(*command)
            assert (code, f"There is no {file}" in line) == (WRONG, True)
        assert not file.exists()
        moved.rename(file)
        service.end()
    assert in_database(file, COUNT) == KEPT


def test_a_new_worker_makes_no_file_in_the_place_of_one_that_is_gone(
    installation: Installation, redis: RedisServer
) -> None:
    file = installation.data / "live.db"
    shared = installation.having(valkey_url=redis.url, workers="2")
    with shared.serving() as service:
        store(service, "/v1/products", shared.key)
        moved = move(file)
        killed = service.workers()[0]
        os.kill(killed, signal.SIGKILL)
        until(lambda: f"There is no {file}" in service.text, "the refusal")
        assert not file.exists()
        moved.rename(file)
        until(lambda: len(service.workers()) == 2, "the replacement")
        assert service.ask("/v1/users/me", key=shared.key).status == 200
        service.end()
    assert in_database(file, COUNT) == KEPT


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_starts_with_the_file_that_took_the_place_of_one(
    installation: Installation, how: signal.Signals
) -> None:
    file = installation.data / "live.db"
    with installation.serving() as service:
        in_database(file, "VACUUM INTO ?", str(installation.data / "copy.db"))
        store(service, "/v1/products", installation.key)
        (installation.data / "copy.db").rename(file)
        until(lambda: list(installation.data.glob("live.db-wal.lost-*")), "the log's move")
        service.stop(how)
    with installation.serving() as service:
        store(service, "/v1/products", installation.key)
        assert service.stop()[0] == 0
    assert in_database(file, COUNT) == KEPT
    assert in_database(file, "PRAGMA integrity_check") == "ok"


@pytest.mark.parametrize("command", ["serve", "migrate"])
def test_no_start_makes_a_file_beside_the_log_of_one_that_is_gone(
    installation: Installation, command: str
) -> None:
    file = installation.data / "sandbox.db"
    with installation.serving() as service:
        store(service, "/sandbox/v1/products", installation.facts["keys"]["test"])
        moved = move(file)
        assert service.stop()[0] == 0
    code, line = installation.refused(command)
    assert (code, f"{file}-wal" in line) == (WRONG, True)
    assert not file.exists()
    moved.rename(file)
    assert in_database(file, COUNT) == KEPT
