"""A request in the pipeline (`TypedRequest`) and its answer (`Reply`, `Stream`)."""

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from portico.core.audit import Actor, Answer, Author, KeyedRequest
from portico.core.caller import Principal
from portico.core.errors import PayloadTooLarge, RequestTimeout, Unreadable
from portico.core.ids import parse_id
from portico.core.networks import Admits, is_loopback
from portico.core.oauth import Client
from portico.core.plans import Verdict
from portico.core.requests import NOWHERE
from portico.environment import Environment
from portico.web.envelope import encode

T = TypeVar("T")
Q_co = TypeVar("Q_co", covariant=True)
B_co = TypeVar("B_co", covariant=True)

BODY_SECONDS = 20.0
"""How long a body may take to arrive."""

LINGER_SECONDS = 2.0
LINGER_BYTES = 16 << 20
"""For how long, and how many bytes, to go on receiving a body that is no longer needed."""

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"

_JSON_TYPE = ("content-type", JSON)

_INCOMPLETE = "The body is incomplete, or has trailers, which are not supported."

_PORT = re.compile(":[0-9]*$")

Headers = list[tuple[str, str]]


class Scope(Protocol):
    """A request as granian passes it (RSGI)."""

    method: str
    path: str
    query_string: str
    scheme: str
    client: str
    http_version: str
    """`2` for HTTP/2."""
    authority: str | None
    """The authority of the request target, if it has one (always over HTTP/2)."""
    headers: Any


class Application(Protocol):
    """An RSGI application."""

    async def __rsgi__(
        self, scope: Scope, proto: Any, last: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Answers one request. `last` are the headers of the last answer on an HTTP/1.1 connection:
        they may come while the request is under way."""
        ...


class Origin(msgspec.Struct, frozen=True):
    """The client of a request, behind any trusted proxies."""

    address: str
    known: bool
    """False if trusted proxies did not name the client: `address` is then a proxy's."""
    secure: bool
    """Whether the request was HTTPS all the way from the client."""
    headers: tuple[tuple[str, str], ...]
    """Headers of every response to a request from this origin."""

    def is_within(self, admits: Admits | None) -> bool:
        """Whether the client is in the networks of a credential, if it has any. A client that no
        proxy named is in none."""
        return admits is None or (self.known and admits(self.address))


class NoQuery(msgspec.Struct, frozen=True):
    """The query of a route without parameters."""


class NoBody(msgspec.Struct, frozen=True):
    """The body of a route without one; clients may send an empty object."""


class Reply:
    """A status, headers and a body."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, body: bytes = b"", headers: Headers | None = None) -> None:
        """The pipeline appends to the list `headers` itself."""
        self.status = status
        self.body = body
        self.headers: Headers = [] if headers is None else headers


class Stream(Reply):
    """A reply whose body is sent as the generator `chunks` yields it.

    When the body ends, the client disconnects or the server stops, `chunks` is closed and `ended`
    is called, even if `chunks` never started. A `finite` body, such as a file, has an end of its
    own: if it is cut short, the connection is aborted, so that no client takes a part for the
    whole.
    """

    __slots__ = ("chunks", "ended", "finite")

    def __init__(
        self,
        status: int,
        chunks: AsyncGenerator[bytes, None],
        ended: Callable[[], object],
        headers: Headers,
        *,
        finite: bool,
    ) -> None:
        """The pipeline appends to the list `headers` itself."""
        super().__init__(status, headers=headers)
        self.chunks = chunks
        self.ended = ended
        self.finite = finite


def json_reply(status: int, body: msgspec.Struct, *headers: tuple[str, str]) -> Reply:
    """A reply with a JSON body."""
    return Reply(status, encode(body), [_JSON_TYPE, *headers])


class TypedRequest(Generic[Q_co, B_co]):
    """One request in the pipeline, with its query and body in the route's shapes.

    Steps of the pipeline and of responders set `environment`, `caller`, `client` (the OAuth
    client), `query`, `body` and `resource_id` (`resource_name` where that is a text);
    before that they are missing. `inner_id` is the second id of the path.
    """

    __slots__ = (
        "_parts",
        "_proto",
        "_scope",
        "account_id",
        "address",
        "body",
        "caller",
        "client",
        "cost",
        "environment",
        "error_code",
        "form_token",
        "headers",
        "id",
        "inner_id",
        "keyed",
        "label",
        "method",
        "now",
        "origin",
        "path",
        "query",
        "query_string",
        "resource_id",
        "resource_name",
        "verdict",
    )

    environment: Environment
    caller: Principal
    query: Q_co
    body: B_co
    client: Client
    origin: Origin
    address: str
    inner_id: int

    def __init__(self, scope: Scope, proto: Any, request_id: str) -> None:
        """`scope` and `proto` are granian's (RSGI)."""
        self._proto = proto
        self._scope = scope
        self._parts: AsyncIterator[bytes] | None = None
        self.id = request_id
        self.method = scope.method
        self.path = scope.path
        self.query_string = scope.query_string
        self.headers = scope.headers
        # Later steps set these. A request that fails before is logged without a caller.
        self.caller = None  # type: ignore[assignment]
        self.address = ""
        self.now = 0
        self.resource_id = 0
        self.resource_name = ""
        self.verdict: Verdict | None = None
        self.cost = 0
        """What it took from its account's limits."""
        self.keyed: KeyedRequest | None = None
        self.form_token: str | None = None
        self.account_id: int | None = None
        """The account whose limit it counts against, `NOBODY` if it counts against an address or a
        client, None if it counts against no limit."""
        self.label = NOWHERE
        """What it counts as in the statistics, unless as its endpoint."""
        self.error_code = ""
        """The error code of the answer; empty on success."""

    @property
    def by(self) -> Author:
        """On whose behalf this request changes something, for `env.change`."""
        caller = self.caller
        if caller is None:
            return Author(Actor(address=self.address, request_id=self.id))
        actor = Actor(
            caller.user_id,
            caller.email,
            caller.credential,
            caller.credential_id,
            self.address,
            self.id,
            caller.client_id,
            caller.client_name,
        )
        return Author(actor, caller)

    @property
    def peer(self) -> str:
        """The address that the connection comes from: the client's or a proxy's."""
        return self._scope.client.rpartition(":")[0]

    @property
    def host(self) -> str:
        """The host that the client asked for."""
        return self._scope.authority or self.header("host") or ""

    @property
    def all_headers(self) -> Iterable[tuple[str, str]]:
        """All headers, in the order in which they were sent."""
        pairs: Iterable[tuple[str, str]] = self.headers.items()
        return pairs

    @property
    def is_of_unknown_length(self) -> bool:
        """Whether it has a body that does not declare its length. Over HTTP/2 nothing says whether
        there is one: an empty one then counts, but not of GET and HEAD."""
        if self._scope.http_version == "2":
            return self.method not in ("GET", "HEAD") and "content-length" not in self.headers
        return "transfer-encoding" in self.headers

    @property
    def is_local(self) -> bool:
        """Whether the client is on this machine, and calls it by a loopback name. An address alone
        may be that of a proxy that nobody trusts, and a name alone may be made up."""
        host = _PORT.sub("", self.host)
        origin = self.origin
        is_here = origin.known and is_loopback(origin.address)
        return is_here and is_loopback(host.strip("[]").lower())

    def answering(self, reply: Callable[[T], Reply]) -> Author:
        """As `by`, for a change that returns a `T`. If the request has an `Idempotency-Key`, the
        `reply` to that value is stored with the change; it must contain no secrets."""

        def answer(made: T) -> Answer:
            kept = reply(made)
            return Answer(kept.status, kept.headers, kept.body)

        return msgspec.structs.replace(self.by, request=self.keyed, answer=answer)

    def header(self, name: str) -> str | None:
        """The first header with this (lower-case) name."""
        value: str | None = self.headers.get(name)
        return value

    def listed(self, name: str) -> str | None:
        """A list header, with the items of all its lines (RFC 9110 §5.3). None if it was not sent,
        empty if granian could not read it."""
        if name not in self.headers:
            return None
        return ", ".join(self.headers.get_all(name))

    def identify(self, texts: Sequence[str], *, named: bool = False) -> None:
        """Parses the ids in the path, or takes the first as a name. Raises `NotFound` for a text
        that is not an id."""
        if named:
            self.resource_name = texts[0]
            return
        self.resource_id = parse_id(texts[0])
        if len(texts) > 1:
            self.inner_id = parse_id(texts[1])

    async def read_body(self, limit: int) -> bytes:
        """The whole body. Raises `PayloadTooLarge` beyond `limit` bytes, `RequestTimeout` if it
        does not arrive within `BODY_SECONDS`, and `Unreadable` if it is incomplete or has a
        transfer coding other than chunked."""
        length = self._refuse_framing(limit)
        if length == 0:
            return b""
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                # To its declared end alone, and without a generator: waiting for what says that it
                # has ended, or for the end of a generator, costs as much as a part.
                if length is None:
                    received = self._begun()
                else:
                    self._parts = received = _RawParts(self._proto)
                async for part in received:
                    if not part:
                        raise Unreadable(_INCOMPLETE)
                    size += len(part)
                    if size > limit:
                        raise _too_large(limit)
                    parts.append(part)
                    if size == length:
                        break
        except TimeoutError as error:
            raise RequestTimeout(
                f"The body did not arrive within {BODY_SECONDS:.0f} seconds."
            ) from error
        return b"".join(parts)

    async def stream_body(self, limit: int, seconds: float) -> AsyncGenerator[bytes, None]:
        """The body in parts, as they arrive. Raises the same errors as `read_body`, but
        `RequestTimeout` if nothing arrives for `BODY_SECONDS`, or not everything within
        `seconds`."""
        self._refuse_framing(limit)
        parts = self._begun()
        end = asyncio.get_running_loop().time() + seconds
        size = 0
        while True:
            left = end - asyncio.get_running_loop().time()
            try:
                part = await asyncio.wait_for(anext(parts, None), min(left, BODY_SECONDS))
            except TimeoutError as error:
                raise RequestTimeout("The body did not arrive in time.") from error
            if part is None:
                return
            size += len(part)
            if size > limit:
                raise _too_large(limit)
            yield part

    async def discard_body(self) -> None:
        """Receives the unread rest of the body after the answer, within bounds: a client whose
        connection is closed while it is sending may never see the answer."""
        if "content-length" not in self.headers and "transfer-encoding" not in self.headers:
            return
        size = 0
        with contextlib.suppress(TimeoutError, Unreadable):
            async with asyncio.timeout(LINGER_SECONDS):
                async for part in self._parts or self._begun():
                    size += len(part)
                    if size > LINGER_BYTES:
                        break

    def _refuse_framing(self, limit: int) -> int | None:
        """The Content-Length over HTTP/1.1, None where something else ends the body. Raises
        `PayloadTooLarge` if it exceeds the limit, and `Unreadable` for a transfer coding other than
        chunked, which granian would pass on undecoded."""
        codings = self.listed("transfer-encoding")
        if codings is not None and codings.lower() != "chunked":
            raise Unreadable("Use no Transfer-Encoding other than chunked.")
        told = self.header("content-length")
        if told is None or not told.isdigit():
            return None
        length = int(told)
        if length > limit:
            raise _too_large(limit)
        return length if codings is None and self._scope.http_version != "2" else None

    def _begun(self) -> AsyncIterator[bytes]:
        """Begins to read the body. `discard_body` continues where the reader stopped."""
        self._parts = parts = _parts(self._proto, 2 if self._scope.http_version == "2" else 1)
        return parts


Request = TypedRequest[object, object]
"""A request of any route, for code that does not use its query and body."""

QueryRequest = TypedRequest[Q_co, object]
BodyRequest = TypedRequest[object, B_co]

Handler = Callable[[Request], Awaitable[Reply]]


class _RawParts:
    """As `_parts`, with an empty part where the body ends or is incomplete."""

    def __init__(self, proto: Any) -> None:
        self._next = proto.__aiter__().__anext__  # the HTTP server permits one call

    def __aiter__(self) -> "_RawParts":
        return self

    def __anext__(self) -> Awaitable[bytes]:
        part: Awaitable[bytes] = self._next()
        return part


async def _parts(proto: Any, ends: int) -> AsyncIterator[bytes]:
    """A body in parts, as they arrive. Raises `Unreadable` if it is incomplete.

    Granian does not report that directly. It yields one empty part for the end, one for trailers or
    an empty last frame, and one for a failure: over HTTP/1.1 before that of the end, over HTTP/2
    repeatedly. So more than `ends` empty parts mean a failure, or over HTTP/1.1 trailers.
    """
    async for part in proto:
        if part:
            yield part
        elif not ends:
            raise Unreadable(_INCOMPLETE)
        else:
            ends -= 1


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The body is larger than {limit} bytes.")
