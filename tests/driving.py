"""Runs the whole application inside a test's event loop, with a clock that the test moves.

Only granian is replaced: `InProcess` calls the application by RSGI as granian does, with decoded
paths, and drops the body of the response to HEAD.
"""

import asyncio
import json
import random
import re
import ssl
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol, Self
from urllib.parse import unquote

import httpx
import hypothesis
import msgspec
import pytest
from hypothesis import HealthCheck

from first_start import prepare
from operating import TIMEOUT_SECONDS
from portico import logs
from portico.app import Portico
from portico.core.audit import OPERATOR
from portico.core.networks import Destinations
from portico.core.plans import DEFAULT_PLANS, Plan
from portico.core.users import User
from portico.data.database import Row
from portico.data.postgres.engine import PostgresDatabase
from portico.environment import Environment
from portico.features.access.rules import ApiKey, KeyType
from portico.features.catalogue.rules import Product
from portico.features.catalogue.storage import Products
from portico.features.mail.sending import SendMails
from portico.features.mail.storage import Mails
from portico.features.people.accounts import give_key
from portico.features.people.passwords import Passwords
from portico.features.people.storage import Users
from portico.outbound.fetching import Fetcher
from portico.outbound.sender import Sender
from portico.secret_file import NAME as SECRET_FILE
from portico.server import Server
from portico.settings import Settings, load

NOON = 1_773_576_000_000
"""2026-03-15T12:00:00.000Z, the first moment of a minute."""

UNMETERED = "unmetered"
"""A plan whose limits no test reaches."""

TINY = "tiny"
"""A plan of 3 requests a minute and 5 a day."""

EVEN = "even"
"""A plan of 5 requests a minute and 5 a day."""

BASE = {"live": "https://localhost:8443/v1", "sandbox": "https://localhost:8443/sandbox/v1"}

EXAMPLES = hypothesis.settings(
    max_examples=40,
    deadline=None,  # the first example fills the caches for the others
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
"""Settings for a property test of the whole application: all examples share one application."""

TABLES = {
    "users": "id",
    "products": "id",
    "api_keys": "id",
    "list_counts": "list, key, shard",
    "signing_keys": "id",
    "oauth_clients": "id",
    "grants": "id",
    "consents": "user_id, client_row_id, redirect_uri, resource",
    "authorization_codes": "code_hash",
    "device_codes": "code_hash",
    "tokens": "id",
    "sessions": "id",
    "known_addresses": "user_id, address",
    "known_devices": "user_id, token_hash",
    "email_tokens": "token_hash",
    "authenticators": "id",
    "recovery_codes": "user_id, code_hash",
    "wrong_codes": "user_id",
    "pending_sign_ins": "token_hash",
    "passkeys": "id",
    "used_challenges": "challenge_hash",
    "challenges": "token_hash",
    "provider_links": "id",
    "provider_visits": "token_hash",
    "shown_once": "token_hash",
    "invitations": "id",
    "audit": "id",
    "events": "at, type, data",
    "webhooks": "id",
    "uploads": "id",
    "untold_imports": "name",
    "idempotency_keys": "user_id, route, key_hash",
}
"""The tables that changes write to, with their order. Without those that jobs change by themselves:
waiting mails and deliveries, blocks of totals, and counters."""
_EPHEMERAL = {"api_keys": (8,), "grants": (7,), "sessions": (6,), "webhooks": (8, 10)}
"""The columns of a table that jobs change: `last_used_at`, `last_seen_at`, and up to which event a
webhook has been served, or since when its deliveries fail."""
_SHOWN = {"events": "type, at, data, previous"}
"""The columns to compare if jobs change others: an event gets its number after the commit."""


@dataclass
class FakeClock:
    """A clock that stands still until a test moves it."""

    now: int = NOON

    def __call__(self) -> int:
        """Milliseconds since the epoch."""
        return self.now

    def advance(self, *, days: int = 0, seconds: float = 0, milliseconds: int = 0) -> None:
        """Moves the time, forwards or backwards."""
        self.now += days * 86_400_000 + round(seconds * 1000) + milliseconds


@cache
def _trusting() -> ssl.SSLContext:
    """A sender's TLS context, cached: creating one takes as long as a whole test."""
    return ssl.create_default_context()


def _nowhere(name: str) -> list[str]:
    """Resolves no name, so that nothing that a test sends leaves this machine."""
    raise OSError(f"{name} is not looked up")


class Headers:
    """Header fields, like granian's `RSGIHeaders`: a field whose value is not ASCII has a name, but
    no value."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._pairs = [(name.lower(), value) for name, value in pairs]

    def __contains__(self, name: str) -> bool:
        return any(key == name for key, _ in self._pairs)

    def get(self, name: str, default: str | None = None) -> str | None:
        first = next((value for key, value in self._pairs if key == name), default)
        return first if first is None or first.isascii() else default

    def items(self) -> list[tuple[str, str]]:
        return [(name, value) for name, value in self._pairs if value.isascii()]

    def get_all(self, name: str) -> list[str]:
        return [value for key, value in self._pairs if key == name and value.isascii()]


Pause = Callable[[], Awaitable[object]]
"""Called while a body arrives."""


class Application(Protocol):
    """The object that granian calls."""

    async def __rsgi__(self, scope: Any, proto: Any) -> None:
        """Answers one request."""
        ...


@dataclass
class _Scope:
    """The properties of a request that granian passes."""

    method: str
    path: str
    query_string: str
    headers: Headers
    client: str
    scheme: str = "https"
    proto: str = "http"
    http_version: str = "1.1"
    authority: str | None = None


class _Sent:
    """The sending side of an open stream."""

    def __init__(self, chunks: "asyncio.Queue[bytes]") -> None:
        self._chunks = chunks
        weakref.finalize(self, chunks.put_nowait, b"")  # granian too ends a dropped stream

    async def send_bytes(self, chunk: bytes) -> None:
        self._chunks.put_nowait(chunk)


class Streamed(httpx.AsyncByteStream):
    """The body of a stream, as it arrives."""

    def __init__(self) -> None:
        self.chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self.left = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while chunk := await self.chunks.get():
            yield chunk

    async def aclose(self) -> None:
        """Disconnects the client."""
        self.left.set()


@dataclass
class _Proto:
    """The server's side of one exchange."""

    body: Sequence[bytes | Pause]
    answer: tuple[int, list[tuple[str, str]], bytes] | None = None
    streamed: Streamed | None = None

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        assert self.answer is None, "a request was answered twice"
        self.answer = (status, list(headers), body)

    def response_stream(self, status: int, headers: list[tuple[str, str]]) -> _Sent:
        self.response_bytes(status, headers, b"")
        self.streamed = Streamed()
        return _Sent(self.streamed.chunks)

    async def client_disconnect(self) -> None:
        assert self.streamed is not None
        await self.streamed.left.wait()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self.body:
            if isinstance(chunk, bytes):
                yield chunk
            else:
                await chunk()


class InProcess(httpx.AsyncBaseTransport):
    """Sends requests to the application that `api` currently runs."""

    def __init__(self, api: "Api", client: str = "127.0.0.1:50000") -> None:
        """`client` is the address and port that the requests come from."""
        self._api = api
        self._client = client

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See `httpx.AsyncBaseTransport`."""
        return await self.exchange(
            request.method,
            request.url.raw_path.decode("ascii"),
            [(name.decode(), value.decode("latin-1")) for name, value in request.headers.raw],
            await request.aread(),
            scheme=request.url.scheme,
        )

    async def exchange(
        self,
        method: str,
        target: str,
        headers: Sequence[tuple[str, str]],
        *body: bytes | Pause,
        scheme: str = "https",
    ) -> httpx.Response:
        """Sends a request. `target` is as on the wire; the chunks of `body` may have pauses between
        them. Without a `host` in `headers`, it is to `localhost:8443`."""
        path, _, query = target.partition("?")
        if not any(name.lower() == "host" for name, _ in headers):
            headers = [*headers, ("host", "localhost:8443")]
        proto = _Proto(body)
        scope = _Scope(
            method, unquote(path, errors="replace"), query, Headers(headers), self._client, scheme
        )
        await self._api.application.__rsgi__(scope, proto)
        assert proto.answer is not None, "a request was not answered"
        status, answered, content = proto.answer
        if proto.streamed is not None:
            return httpx.Response(status, headers=answered, stream=proto.streamed)
        length = ("content-length", str(len(content)))
        shown = b"" if method == "HEAD" else content
        return httpx.Response(status, headers=[*answered, length], content=shown)


class Caller(httpx.AsyncClient):
    """A client that authenticates with an account's key."""

    def __init__(self, api: "Api", user: User, record: ApiKey, key: str, environment: str) -> None:
        super().__init__(
            transport=InProcess(api),
            base_url=BASE[environment],
            headers={"authorization": f"Bearer {key}"},
        )
        self.user = user
        self.record = record
        self.key = key


@dataclass
class Api:
    """The application, its clock, and shortcuts for tests."""

    settings: Settings
    clock: FakeClock = field(default_factory=FakeClock)
    fetcher: Fetcher | None = None
    seed: int = 20260315
    """The seed of all randomness. Two hosts have different ones."""
    portico: Portico = field(init=False)
    server: Server = field(init=False)
    application: Application = field(init=False)
    """The application that answers: the server's pipeline, unless a test replaces it."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - repeatable on purpose
        self._numbers = iter(range(1, 10**9))
        self._clients: list[httpx.AsyncClient] = []

    @property
    def live(self) -> Environment:
        """The live environment."""
        return self.portico.live

    @property
    def sandbox(self) -> Environment:
        """The sandbox."""
        return self.portico.sandbox

    def beside(self) -> "Api":
        """The same stores served by another process, with its own caches."""
        other = copy(self)
        other.application = Server(self.portico).pipeline
        return other

    async def start(self) -> None:
        """Opens the stores and starts the server."""
        self._others = asyncio.all_tasks()
        if not self.settings.database_url:
            await prepare(self.settings, FakeClock())
        self.portico = Portico(
            self.settings,
            clock=self.clock,
            random=self._random.randbytes,
            passwords=Passwords(memory_kib=8, iterations=1),  # tests need no strong hashes
            sender=Sender(
                Destinations(self.settings.webhooks_allow),
                self.clock,
                tls=_trusting(),
                look_up=_nowhere,
            ),
            fetcher=self.fetcher,
        )
        await self.portico.open()
        self.server = Server(self.portico)
        self.application = self.server.pipeline
        await self.server.start()

    async def stop(self) -> None:
        """Stops as after SIGTERM."""
        await self.server.pipeline.streams.stop()
        await self.server.stop()
        await self.portico.close()
        logs._writer.flush(TIMEOUT_SECONDS)  # noqa: SLF001 - what the end of the process does

    async def __aenter__(self) -> Self:
        """Starts."""
        await self.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Stops, and closes the clients."""
        await self.aclose()
        await self.stop()

    async def crash(self) -> None:
        """Ends without storing what is in memory, as after a kill."""
        tasks = asyncio.all_tasks() - self._others - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.portico.close()

    def leave_turns(self, patch: pytest.MonkeyPatch) -> None:
        """Raises the time that requests wait for a connection to PostgreSQL, so that many at once
        can do so on a busy machine."""
        for env in self.portico.environments:
            if isinstance(env.db, PostgresDatabase):
                for pool in env.db._pools.values():  # noqa: SLF001 - no setting
                    patch.setattr(pool, "_timeouts", 60.0)

    async def mailed(self) -> None:
        """Sends mails until none waits."""
        for env in self.portico.environments:
            while await env[Mails].count(env.db):
                await SendMails(env).flush()
                await asyncio.sleep(0)

    async def aclose(self) -> None:
        """Closes the clients."""
        for client in self._clients:
            await client.aclose()

    async def account(
        self,
        role: str = "viewer",
        *,
        plan: str = UNMETERED,
        env: Environment | None = None,
        **values: Any,
    ) -> User:
        """Inserts a user into the database, with a password only if one is given."""
        env = env or self.live
        number = next(self._numbers)
        if password := values.pop("password", None):
            values["password_hash"] = await env[Passwords].hash(password)
        facts: dict[str, Any] = {
            "name": f"Person {number}",
            "email": f"person{number}@example.com",
            "avatar_url": None,
            "theme": "system",
            "language": "en",
            "notifications": True,
            "account_id": None,
            "password_hash": None,
            "last_login_at": None,
            "created_at": self.clock(),
            "updated_at": self.clock(),
        }
        user = User(id=0, role=role, plan=plan, **(facts | values))
        async with env.db.transaction() as tx:
            return await env[Users].insert(tx, user)

    async def product(self, env: Environment | None = None, **values: Any) -> Product:
        """Inserts a product into the database, active and with a price of 1 by default."""
        env = env or self.live
        facts: dict[str, Any] = {
            "name": "Lamp",
            "description": "",
            "category": "light",
            "price": 10_000,
            "currency": "USD",
            "stock_quantity": 0,
            "status": "active",
            "images": "[]",
            "metadata": "{}",
            "created_at": self.clock(),
            "updated_at": self.clock(),
        }
        async with env.db.transaction() as tx:
            made: Product = await env[Products].insert(tx, Product(id=0, **(facts | values)))
        return made

    async def broken_product(self) -> Product:
        """Inserts a product with an unknown status: renaming it fails."""
        product = await self.product()
        async with self.live.db.transaction() as tx:
            sql = "UPDATE products SET status = 'gone' WHERE id = :id"
            await tx.run(sql, {"id": product.id})
        return product

    async def caller(
        self,
        role: str = "admin",
        key_type: KeyType = "live",
        *,
        user: User | None = None,
        expires_at: int | None = None,
        plan: str = UNMETERED,
        **values: Any,
    ) -> Caller:
        """A client with a new key, for a new account unless `user` is given."""
        user = user or await self.account(role, plan=plan, **values)
        record, key = await give_key(
            self.live,
            user,
            name="A key",
            key_type=key_type,
            expires_at=expires_at,
            by=OPERATOR,
            mail_owner=False,
        )
        environment = "sandbox" if key_type == "test" else "live"
        caller = Caller(self, user, record, key, environment)
        self._clients.append(caller)
        return caller

    def stranger(self, address: str = "127.0.0.1:50000", **headers: str) -> httpx.AsyncClient:
        """A client without a key, at this address."""
        client = httpx.AsyncClient(
            transport=InProcess(self, address), base_url=BASE["live"], headers=headers
        )
        self._clients.append(client)
        return client

    async def state(self) -> dict[str, list[tuple[Any, ...]]]:
        """The contents of both databases, without counters and last uses."""
        held: dict[str, list[tuple[Any, ...]]] = {}
        for env in self.portico.environments:
            for table, rows in (await _rows(env)).items():
                skip = _EPHEMERAL.get(table, ())
                columns = [i for i in range(len(rows[0])) if i not in skip] if rows else []
                held[f"{env.name} {table}"] = [tuple(row[i] for i in columns) for row in rows]
        return held

    @asynccontextmanager
    async def unchanged(self, *, but: str = "") -> AsyncIterator[None]:
        """Asserts that the block leaves both databases unchanged, except the tables in `but`."""
        before = await self.state()
        yield
        after = await self.state()
        for name, rows in before.items():
            assert name.rpartition(" ")[2] in but.split() or after[name] == rows, name


@asynccontextmanager
async def at_rest(settings: Settings) -> AsyncIterator[Api]:
    """The application without a server, whose jobs could interfere with tests."""
    api = Api(settings)
    if not settings.database_url:
        await prepare(settings, api.clock)
    api.portico = Portico(settings, clock=api.clock)
    await api.portico.open()
    try:
        yield api
    finally:
        await api.portico.close()


def _shown() -> Iterator[tuple[str, str, str]]:
    """Each table, its order, and the statement that reads it."""
    for table, order in TABLES.items():
        yield table, order, f"SELECT {_SHOWN.get(table, '*')} FROM {table}"  # noqa: S608 - constants


async def _rows(env: Environment) -> dict[str, Sequence[Row]]:
    """The rows of each table of an environment. On PostgreSQL they are read by one statement, since
    some tests read them a thousand times."""
    if env.db.engine == "sqlite":
        return {
            table: await env.db.all(f"SELECT * FROM ({shown}) ORDER BY {order}")  # noqa: S608 - constants
            for table, order, shown in _shown()
        }
    whole = ", ".join(
        f"(SELECT array_agg(t ORDER BY {order}) FROM ({shown}) t)"  # noqa: S608 - constants
        for _, order, shown in _shown()
    )
    (row,) = await env.db.all(f"SELECT {whole}")
    return {table: rows or [] for table, rows in zip(TABLES, row, strict=True)}


def settings_for(data: Path, environ: Mapping[str, str]) -> Settings:
    """Settings read from variables, with plans for tests and without a request log."""
    # The same secret everywhere: tests that share a database share its signing keys.
    (data / SECRET_FILE).write_text("s" * 43)
    loaded = load({"data": str(data)}, environ, data)
    added = (Plan(UNMETERED, 10**9, 10**9), Plan(TINY, 3, 5), Plan(EVEN, 5, 5))
    plans = {**DEFAULT_PLANS, **{plan.name: plan for plan in added}}
    return replace(loaded, plans=plans, log_requests=False)


def refused(response: httpx.Response, status: int, code: str | None = None) -> dict[str, str]:
    """Asserts that a response has the API's error body, and that no cache may keep it; returns its
    faults as field to message."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.headers.get_list("cache-control") == ["no-store"]
    body = msgspec.json.decode(response.content)
    assert body.keys() == {"error"}
    error = body["error"]
    assert error.keys() == {"code", "message", "details"}
    assert code is None or error["code"] == code
    assert error["message"].strip()
    assert all(fault.keys() == {"field", "message"} for fault in error["details"])
    return {fault["field"]: fault["message"] for fault in error["details"]}


def challenge(response: httpx.Response) -> str:
    """The challenge of a refusal, without what it says of the resource: where its metadata is, and
    with a 401 which scope it needs."""
    of_resource = r'resource_metadata="[^"]*"'
    if response.status_code == 401:
        of_resource = rf'(?:scope="[^"]*", )?{of_resource}'
    header = response.headers["www-authenticate"]
    bare, found = re.subn(rf",? {of_resource}$", "", header)
    assert found == 1, header
    return bare


def json_bytes(value: object) -> bytes:
    """A JSON text."""
    return json.dumps(value).encode()
