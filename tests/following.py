"""Follows events over a real connection."""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from operating import Service


@contextmanager
def following(
    service: Service, key: str, last: int | None = None
) -> Iterator[http.client.HTTPResponse]:
    """A stream whose start was read."""
    with service.connect() as connection:
        fields = {"host": "localhost", "authorization": f"Bearer {key}"}
        if last is not None:
            fields["last-event-id"] = str(last)
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        connection.sendall(f"GET /v1/events/stream HTTP/1.1\r\n{lines}\r\n".encode())
        response = http.client.HTTPResponse(connection)
        response.begin()
        assert response.status == 200
        assert response.readline() == b":\n"
        yield response
        response.close()


def next_event(response: http.client.HTTPResponse) -> Any:
    """The next event."""
    while not (line := response.readline()).startswith(b"data: "):
        assert line, "the stream has ended"
    return msgspec.json.decode(line.removeprefix(b"data: "))
