"""The body of a response while it arrives."""

from portico_client.errors import UnexpectedAnswer
from portico_client.flow import Request

LARGEST = 2**28
"""The largest response, in bytes after decompression. With the server's default `body_limit`, any
page of 100 events is smaller."""


class Collected:
    """Collects a response body up to the size limit."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, part: bytes) -> None:
        """Adds a part. Raises `UnexpectedAnswer` if the body becomes too large."""
        self._parts.append(part)
        self._size += len(part)
        if self._size > LARGEST:
            where = f"{self._request.method} {self._request.url.partition('?')[0]}"
            raise UnexpectedAnswer(f"{where}: the response has more than {LARGEST} bytes")

    @property
    def content(self) -> bytes:
        """The whole body."""
        return b"".join(self._parts)
