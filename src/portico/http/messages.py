"""A request as the pipeline sees it, and the reply that it makes."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from portico.contract.envelope import encode
from portico.domain.audit import Actor, By
from portico.domain.caller import Principal
from portico.domain.errors import PayloadTooLarge, RequestTimeout, Unreadable
from portico.domain.idempotency import Answer, KeyedRequest
from portico.domain.ids import parse_id
from portico.domain.limits import Verdict
from portico.domain.oauth import Client
from portico.services.environment import Environment

T = TypeVar("T")
Q_co = TypeVar("Q_co", covariant=True)
B_co = TypeVar("B_co", covariant=True)

BODY_SECONDS = 20.0
"""How long a body may take to arrive."""

LINGER_SECONDS = 2.0
LINGER_BYTES = 16 << 20
"""For how long, and how much, of a body is taken in that nobody reads any more."""

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"

_JSON_TYPE = ("content-type", JSON)

Headers = list[tuple[str, str]]


class Scope(Protocol):
    """What the server tells about a request (RSGI)."""

    method: str
    path: str
    query_string: str
    scheme: str
    client: str
    http_version: str
    """`2` over HTTP/2."""
    authority: str | None
    """Whose the target is, where the request's target itself names it."""
    headers: Any


class Origin(msgspec.Struct, frozen=True):
    """Where a request came from, and how."""

    address: str
    known: bool
    """False where no proxy named an address but those of proxies: then `address` is a proxy's."""
    secure: bool
    """Whether the whole way from there was HTTPS."""
    headers: tuple[tuple[str, str], ...]
    """What goes back with every response on that way."""


class NoQuery(msgspec.Struct, frozen=True):
    """The query of a route that takes none."""


class NoBody(msgspec.Struct, frozen=True):
    """The body of a route that takes none: where one comes, an empty object."""


class Reply:
    """A status, headers and a body."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, body: bytes = b"", headers: Headers | None = None) -> None:
        """The reply keeps `headers`, and the pipeline adds to them."""
        self.status = status
        self.body = body
        self.headers: Headers = [] if headers is None else headers


class Stream(Reply):
    """A reply whose body goes on: it is sent as `chunks` give it.

    When they end, or the client goes away, or the server stops, `chunks` are closed where they are
    and `ended` is called; it is called too where they never began. A `finite` one is a whole that
    has an end of its own: where it does not come to that, its connection is broken off, so that no
    client takes a part for the whole.
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
        """The reply keeps `headers`, and the pipeline adds to them."""
        super().__init__(status, headers=headers)
        self.chunks = chunks
        self.ended = ended
        self.finite = finite


def json_reply(status: int, body: msgspec.Struct, *headers: tuple[str, str]) -> Reply:
    """A reply with a JSON body."""
    return Reply(status, encode(body), [_JSON_TYPE, *headers])


class TypedRequest(Generic[Q_co, B_co]):
    """One request on its way through the pipeline, its query and its body read as the route
    declares them.

    `environment`, `caller`, `client` (of OAuth), `query`, `body` and `resource_id` are there once
    the way has passed the step that makes them. `inner_id` is the second id of a path.
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
        "environment",
        "error_code",
        "headers",
        "id",
        "inner_id",
        "keyed",
        "method",
        "now",
        "origin",
        "path",
        "query",
        "query_string",
        "resource_id",
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
        """`scope` and `proto` are the server's (RSGI)."""
        self._proto = proto
        self._scope = scope
        self._parts: AsyncIterator[bytes] | None = None
        self.id = request_id
        self.method = scope.method
        self.path = scope.path
        self.query_string = scope.query_string
        self.headers = scope.headers
        # Who calls and from where is known only further on; until then a log line has nobody.
        self.caller = None  # type: ignore[assignment]
        self.address = ""
        self.now = 0
        self.resource_id = 0
        self.verdict: Verdict | None = None
        self.keyed: KeyedRequest | None = None
        self.account_id: int | None = None
        """The account that it counts against, or `NOBODY`; None where it is counted nowhere."""
        self.error_code = ""
        """What its answer calls the error, if it is one."""

    @property
    def by(self) -> By:
        """On whose behalf this request changes something."""
        caller = self.caller
        if caller is None:
            return By(Actor(address=self.address, request_id=self.id))
        actor = Actor(
            caller.user_id,
            caller.email,
            caller.credential,
            caller.credential_id,
            self.address,
            self.id,
        )
        return By(actor, caller)

    def answering(self, reply: Callable[[T], Reply]) -> By:
        """The same, for a change that makes a `T`: what `reply` makes of it, without secrets, is
        kept with it where the request may come again."""

        def answer(made: T) -> Answer:
            kept = reply(made)
            return Answer(kept.status, kept.headers, kept.body)

        return msgspec.structs.replace(self.by, request=self.keyed, answer=answer)

    def header(self, name: str) -> str | None:
        """The first header of this (lower-case) name."""
        value: str | None = self.headers.get(name)
        return value

    def listed(self, name: str) -> str | None:
        """A header that is a list, whose items may stand in several lines (RFC 9110 §5.3); empty
        where the server could not read it."""
        if name not in self.headers:
            return None
        return ", ".join(self.headers.get_all(name))

    def identify(self, texts: Sequence[str]) -> None:
        """Reads the ids of its path. Raises `NotFound` for what is none."""
        self.resource_id = parse_id(texts[0])
        if len(texts) > 1:
            self.inner_id = parse_id(texts[1])

    async def read_body(self, limit: int) -> bytes:
        """The whole body. Raises `PayloadTooLarge` beyond `limit` bytes, `RequestTimeout` when it
        does not arrive within `BODY_SECONDS`, `Unreadable` when it breaks off or is coded."""
        self._refuse_framing(limit)
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for part in self._begun():
                    size += len(part)
                    if size > limit:
                        raise _too_large(limit)
                    parts.append(part)
        except TimeoutError as error:
            raise RequestTimeout(
                f"The body did not arrive within {BODY_SECONDS:.0f} seconds."
            ) from error
        return b"".join(parts)

    async def stream_body(self, limit: int, seconds: float) -> AsyncGenerator[bytes, None]:
        """The body as it comes. Raises as `read_body` does: beyond `limit` bytes, when nothing
        comes for `BODY_SECONDS`, or not all of it within `seconds`, and when it breaks off or is
        coded."""
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
        """Takes in, within bounds, what nobody has read of the body, once it is answered: a sender
        that finds its connection closed meanwhile may never see the answer."""
        if "content-length" not in self.headers and "transfer-encoding" not in self.headers:
            return
        size = 0
        with contextlib.suppress(TimeoutError, Unreadable):
            async with asyncio.timeout(LINGER_SECONDS):
                async for part in self._parts or self._begun():
                    size += len(part)
                    if size > LINGER_BYTES:
                        break

    def _refuse_framing(self, limit: int) -> None:
        """Raises `PayloadTooLarge` for a body that says that it is larger, and `Unreadable` for one
        that is coded before it is cut in chunks, which the server takes for plain."""
        codings = self.listed("transfer-encoding")
        if codings is not None and codings.lower() != "chunked":
            raise Unreadable("Send the body uncoded: no Transfer-Encoding but chunked is taken.")
        length = self.header("content-length")
        if length is not None and length.isdigit() and int(length) > limit:
            raise _too_large(limit)

    def _begun(self) -> AsyncIterator[bytes]:
        """The body as it comes, which can be left and taken up again."""
        self._parts = parts = _parts(self._proto, 2 if self._scope.http_version == "2" else 1)
        return parts


Request = TypedRequest[object, object]
"""A request of any route, to those who do not look at its query and body."""

QueryRequest = TypedRequest[Q_co, object]
BodyRequest = TypedRequest[object, B_co]

Handler = Callable[[Request], Awaitable[Reply]]


async def _parts(proto: Any, ends: int) -> AsyncIterator[bytes]:
    """A body as it comes. Raises `Unreadable` where it breaks off.

    The server does not tell that. It gives an empty part for the end, one for trailers or an empty
    last frame, and one for a failure: over HTTP/1.1 before that for the end, over HTTP/2 on and on.
    So with more than `ends` of them something has failed, or over HTTP/1.1 it had trailers.
    """
    async for part in proto:
        if part:
            yield part
        elif not ends:
            raise Unreadable("The body broke off, or has trailers, which are not taken.")
        else:
            ends -= 1


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The body is larger than {limit} bytes.")
