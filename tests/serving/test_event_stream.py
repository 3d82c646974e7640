"""Events followed over real connections, past commands beside the server and restarts."""

import http.client
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from busy_machine import within
from operating import Installation, Service

LAMP: dict[str, Any] = {"name": "Lamp", "category": "light", "price": 12.5}


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


def make(service: Service, name: str) -> None:
    body = LAMP | {"name": name}
    key = service.installation.key
    assert service.ask("/v1/products", method="POST", key=key, body=body).status == 201


def test_a_stream_goes_on_after_a_restart_where_it_was(installation: Installation) -> None:
    key = installation.key
    with installation.serving() as service, following(service, key) as stream:
        make(service, "one")
        first = next_event(stream)
        assert first["data"]["name"] == "one"
        make(service, "two")
        service.process.send_signal(signal.SIGTERM)
        # Whatever of the second came: the stream has an end, and is not just broken off.
        while stream.readline():
            pass
        assert service.process.wait(20) == 0
    with installation.serving() as again, following(again, key, first["id"]) as stream:
        make(again, "three")
        assert [next_event(stream)["data"]["name"] for _ in range(2)] == ["two", "three"]


def test_a_command_beside_the_server_is_told_and_ends_streams_within_a_second(
    installation: Installation,
) -> None:
    with installation.serving() as service, following(service, installation.key) as stream:
        other = ("--name", "Other", "--role", "viewer", "--plan", "pro")
        installation.told("users", "create", "--email", "other@example.com", *other)
        assert next_event(stream)["type"] == "user.created"
        owned = ("--owner", "other@example.com", "--type", "live", "--name", "one")
        made = installation.told("keys", "create", *owned)
        with following(service, made["key"]) as theirs:
            installation.told("keys", "revoke", str(made["id"]))
            with within(1.5):
                while theirs.readline():
                    pass
        assert next_event(stream)["type"] == "api_key.created"
        assert next_event(stream)["type"] == "api_key.revoked"
