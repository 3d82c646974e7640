"""A request that a page makes of the API in this process: it goes the whole way of any other, from
its id to its line in the log, but for the network."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from portico.http.messages import Origin, Reply, Scope


class Application(Protocol):
    """What answers requests (RSGI)."""

    async def __rsgi__(self, scope: Scope, proto: Any) -> None:
        """Answers one."""
        ...


class _Fields:
    """Header fields, each of which is there once."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = fields

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def get(self, name: str) -> str | None:
        return self._fields.get(name)

    def get_all(self, name: str) -> list[str]:
        return [self._fields[name]] if name in self._fields else []


@dataclass
class _Asked:
    method: str
    path: str
    query_string: str
    headers: _Fields
    client: str
    scheme: str = "https"
    http_version: str = "1.1"
    authority: str | None = None


class _Exchange:
    """The server's side of one request whose answer is whole."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.reply = Reply(500)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.reply = Reply(status, body, headers)


class Inside:
    """Makes requests of an application that runs in this process."""

    def __init__(self, application: Callable[[], Application]) -> None:
        """`application` gives what is there once requests are made."""
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
        """What is answered to a request of a whole address, unless the answer is a stream.

        The names of `headers` are in lower case. `origin` is where the page's own request came
        from: this one comes from there too.
        """
        at = urlsplit(address)
        # It came as securely as the page's own, also where that came through a proxy.
        fields = _Fields({**headers, "host": at.netloc, "x-forwarded-proto": at.scheme})
        asked = _Asked(method, at.path, at.query, fields, f"{origin.address}:0")
        exchange = _Exchange(body)
        await self._application().__rsgi__(asked, exchange)
        return exchange.reply
