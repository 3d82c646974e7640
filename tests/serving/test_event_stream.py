"""Events followed over real connections, past commands beside the server and restarts."""

import signal

from busy_machine import within
from following import following, next_event
from operating import Installation


def test_stream_goes_on_after_a_restart_where_it_was(installation: Installation) -> None:
    key = installation.key
    with installation.serving() as service, following(service, key) as stream:
        service.make_product("one")
        first = next_event(stream)
        assert first["data"]["name"] == "one"
        service.make_product("two")
        service.process.send_signal(signal.SIGTERM)
        # Whatever of the second came: the stream has an end, and is not just broken off.
        while stream.readline():
            pass
        assert service.process.wait(20) == 0
    with installation.serving() as again, following(again, key, first["id"]) as stream:
        again.make_product("three")
        assert [next_event(stream)["data"]["name"] for _ in range(2)] == ["two", "three"]


def test_command_beside_the_server_is_told_and_ends_streams_within_a_second(
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
