"""PocketBase with the same products: collection, rules, limits, rows, and a token for the load.

Everything is set up through PocketBase's interfaces, except the rows. Those are written to its
SQLite file while it is stopped, just as it would write them, 100,000 in seconds.
"""

import json
import secrets
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from bench import catalog
from bench.servers import Address, BenchError, Running, free_port, running

RECORDS = "/api/collections/products/records"
FIRST_PAGE = f"{RECORDS}?page=1&perPage=25&sort=-created,-id&filter=(status='active')"
ID_DIGITS = 15

_SIGNED_IN = '@request.auth.id != ""'
_STATUSES = ["active", "archived", "draft"]
_COLLECTION = {
    "name": "products",
    "type": "base",
    "listRule": _SIGNED_IN,
    "viewRule": _SIGNED_IN,
    "createRule": _SIGNED_IN,
    "fields": [
        {"name": "name", "type": "text", "required": True, "max": 200},
        {"name": "description", "type": "text", "max": 10_000},
        {"name": "category", "type": "text", "required": True, "max": 100},
        {"name": "price", "type": "number", "min": 0},
        {"name": "currency", "type": "text", "pattern": "^[A-Z]{3}$"},
        {"name": "stock_quantity", "type": "number", "min": 0, "onlyInt": True},
        {"name": "status", "type": "select", "maxSelect": 1, "values": _STATUSES},
        {"name": "created", "type": "autodate", "onCreate": True},
        {"name": "updated", "type": "autodate", "onCreate": True, "onUpdate": True},
    ],
    "indexes": ["CREATE INDEX products_by_status ON products (status, created DESC, id DESC)"],
}
# The limiter counts every request but never refuses one.
_LIMITS = {
    "rateLimits": {
        "enabled": True,
        "rules": [
            {"label": "/api/", "duration": 60, "maxRequests": 1_000_000_000},
            {"label": "*:create", "duration": 60, "maxRequests": 1_000_000_000},
        ],
    },
}
_NO_REQUEST_LOG = {"logs": {"maxDays": 0}}
_INSERT = """
INSERT INTO products (id, name, description, category, price, currency, stock_quantity, status,
    created, updated)
VALUES (:id, :name, :description, :category, :price, :currency, :stock_quantity, :status, :at, :at)
"""


def program() -> str:
    """The path of PocketBase's binary, which its wheel installs beside Python."""
    found = shutil.which("pocketbase", path=str(Path(sys.executable).parent))
    if found is None:
        raise BenchError("pocketbase is not installed; run script/bench, which installs it")
    return found


def _directories(directory: Path) -> list[str]:
    """Options that keep all its files inside `directory`."""
    names = {"dir": "data", "migrationsDir": "migrations", "hooksDir": "hooks", "publicDir": "www"}
    return [f"--{flag}={directory / name}" for flag, name in names.items()]


def _call(address: Address, method: str, path: str, body: Mapping[str, object]) -> bytes:
    connection = address.connect()
    headers = {**address.headers, "Content-Type": "application/json"}
    connection.request(method, path, json.dumps(body), headers)
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    if response.status not in (200, 204):
        raise BenchError(f"PocketBase answered {method} {path} with {response.status}: {answer!r}")
    return answer


@contextmanager
def serving(directory: Path, token: str | None, log: Path) -> Iterator[Running]:
    """PocketBase on its prepared data directory, over plain HTTP, with `token` on each request."""
    headers = {} if token is None else {"Authorization": token}
    address = Address(free_port(), tls=False, headers=headers)
    argv = [program(), "serve", "--http", f"127.0.0.1:{address.port}", *_directories(directory)]
    with running("PocketBase plain", argv, address, probe="/api/health", log=log) as server:
        yield server


def prepare(directory: Path, count: int, log: Path, *, request_log: bool = True) -> str:
    """Creates a data directory with a catalogue of `count` products. Returns a user's token.

    By default PocketBase logs each request to a database; `request_log=False` turns that off.
    """
    owner, user = (
        {"identity": f"{name}@example.com", "password": secrets.token_hex(24)}
        for name in ("owner", "user")
    )
    command = [program(), "superuser", "upsert", owner["identity"], owner["password"]]
    command += _directories(directory)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with serving(directory, None, log) as server:
        token = _set_up(
            server.address, owner, user, _LIMITS if request_log else _LIMITS | _NO_REQUEST_LOG
        )
    with closing(sqlite3.connect(directory / "data" / "data.db")) as connection, connection:
        connection.executemany(_INSERT, _rows(count))
    return token


def _set_up(
    address: Address, owner: Mapping[str, str], user: Mapping[str, str], settings: Mapping[str, Any]
) -> str:
    superusers = "/api/collections/_superusers/auth-with-password"
    secret = _token(_call(address, "POST", superusers, owner))
    admin = Address(address.port, address.tls, {"Authorization": secret})
    _call(admin, "PATCH", "/api/settings", settings)
    _call(admin, "POST", "/api/collections", _COLLECTION)
    password = user["password"]
    account = {"email": user["identity"], "password": password, "passwordConfirm": password}
    _call(admin, "POST", "/api/collections/users/records", account)
    return _token(_call(address, "POST", "/api/collections/users/auth-with-password", user))


def _token(answer: bytes) -> str:
    token: str = json.loads(answer)["token"]
    return token


def _rows(count: int) -> Iterator[dict[str, Any]]:
    for number, product in enumerate(catalog.products(count), 1):
        yield {**product, "id": f"{number:0{ID_DIGITS}d}", "at": "2026-01-01 00:00:00.000Z"}
