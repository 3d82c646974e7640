"""Requests that a page makes to the API within this process. They take every step of the pipeline,
from the request id to the log line, but do not use the network."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from portico.http.messages import Origin, Reply, Scope


class Application(Protocol):
    """An RSGI application."""

    async def __rsgi__(self, scope: Scope, proto: Any) -> None:
        """Answers one request."""
        ...


class _Fields:
    """Header fields, as granian passes them; each occurs once."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = fields

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def get(self, name: str) -> str | None:
        return self._fields.get(name)

    def get_all(self, name: str) -> list[str]:
        return [self._fields[name]] if name in self._fields else []


@dataclass
class _InnerScope:
    method: str
    path: str
    query_string: str
    headers: _Fields
    client: str
    scheme: str = "https"
    http_version: str = "1.1"
    authority: str | None = None


class _Exchange:
    """The HTTP server's side of one request; it takes no streams."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.reply = Reply(500)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.reply = Reply(status, body, headers)


class InternalClient:
    """Makes requests to the application of this process."""

    def __init__(self, application: Callable[[], Application]) -> None:
        """`application` is called for each request, as it does not exist yet."""
        self._application = application

    async def ask(
        self,
        method: str,
        address: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        origin: Origin,
    ) -> Reply:
        """The answer to a request, which must not be a stream.

        `address` is the complete URL. The names of `headers` are in lower case. `origin` is that of
        the page's own request, and this one gets the same.
        """
        at = urlsplit(address)
        # A trusted proxy's address counts as HTTPS only with this header.
        fields = _Fields({**headers, "host": at.netloc, "x-forwarded-proto": at.scheme})
        scope = _InnerScope(method, at.path, at.query, fields, f"{origin.address}:0")
        exchange = _Exchange(body)
        await self._application().__rsgi__(scope, exchange)
        return exchange.reply
