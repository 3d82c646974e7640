"""`portico clients` and `portico signing-keys`."""

from base64 import b64encode
from typing import Any
from urllib.parse import urlencode

import pytest

from beside import Running
from operating import Answer, Installation, in_database, read_answer

CALLBACK = "https://app.example/callback"


def make(running: Running, *more: str, name: str = "Ledger") -> dict[str, Any]:
    told: dict[str, Any] = running.installation.told(
        "clients",
        "create",
        "--name",
        name,
        "--redirect-uri",
        CALLBACK,
        "http://127.0.0.1/callback",
        "--scope",
        "read:products write:products",
        *more,
    )
    return told


def introspected(running: Running, told: dict[str, Any], secret: str, env: str = "") -> Answer:
    """What the server answers a client that calls with this secret."""
    credentials = b64encode(f"{told['client_id']}:{secret}".encode()).decode()
    with running.service.connect() as connection:
        body = urlencode({"token": "oat_unknown"})
        connection.sendall(
            f"POST {env}/auth/introspect HTTP/1.1\r\nhost: localhost\r\n"
            f"authorization: Basic {credentials}\r\n"
            "content-type: application/x-www-form-urlencoded\r\n"
            f"content-length: {len(body)}\r\n\r\n{body}".encode()
        )
        return read_answer(connection)


def test_a_new_client_may_call_at_once(running: Running) -> None:
    ended = "https://app.example/ended"
    bye = ("--post-logout-redirect-uri", "https://app.example/bye")
    told = make(running, *bye, "--backchannel-logout-uri", ended)

    assert list(told) == ["client_id", "client_secret", "name", "redirect_uris", "scopes"]
    assert told["redirect_uris"] == [CALLBACK, "http://127.0.0.1/callback"]
    assert told["scopes"] == ["read:products", "write:products"]
    answer = introspected(running, told, told["client_secret"])
    assert (answer.status, answer.json) == (200, {"active": False})
    assert introspected(running, told, "wrong").status == 401
    sql = "SELECT backchannel_logout_uri FROM oauth_clients WHERE client_id = ?"
    file = running.installation.data / "live.db"
    assert in_database(file, sql, told["client_id"]) == ended


def test_a_renewed_secret_replaces_the_old_one_at_once(running: Running) -> None:
    told = make(running)

    renewed = running.installation.told("clients", "renew-secret", told["client_id"])

    assert introspected(running, told, told["client_secret"]).status == 401
    assert introspected(running, told, renewed["client_secret"]).status == 200


def test_a_deleted_client_fails_on_the_very_next_request(on_each: Running) -> None:
    told = make(on_each)

    on_each.installation.told("clients", "delete", told["client_id"])

    assert introspected(on_each, told, told["client_secret"]).status == 401
    code, line = on_each.installation.refused("clients", "delete", told["client_id"])
    assert (code, line) == (1, f"There is no OAuth client {told['client_id']}.")


@pytest.mark.parametrize(
    ("flag", "value", "says"),
    [
        ("--name", "", "1 to 100 characters"),
        ("--redirect-uri", "javascript:alert(1)", "must begin with https://"),
        ("--scope", "read:products fly", "not fly"),
        ("--backchannel-logout-uri", "https://10.1.2.3/ended", "backchannel_logout_uri"),
    ],
)
def test_what_cannot_be_registered_is_refused_where_it_is_typed(
    installation: Installation, flag: str, value: str, says: str
) -> None:
    given = {"--name": "Ledger", "--redirect-uri": CALLBACK, "--scope": "read:products"}
    words = [word for pair in {**given, flag: value}.items() for word in pair]

    done = installation.run("clients", "create", *words)

    assert done.returncode == 2
    assert says in done.stderr
    file = installation.data / "live.db"
    assert in_database(file, "SELECT count(*) FROM oauth_clients") == 0


def test_a_rotated_signing_key_is_published_before_it_signs(on_each: Running) -> None:
    before = on_each.installation.told("signing-keys", "list")

    made = on_each.installation.told("signing-keys", "rotate")

    published = on_each.service.ask("/auth/.well-known/jwks.json").json["keys"]
    assert {key["kid"] for key in published} == {made["kid"], *(key["kid"] for key in before)}
    after = on_each.installation.told("signing-keys", "list")
    assert [key["kid"] for key in after] == [*(key["kid"] for key in before), made["kid"]]
    assert after[-1]["retires_at"] is None
    assert all(key["retires_at"] > made["signs_at"] for key in after[:-1])


def test_a_key_that_signs_at_once_ends_the_others(running: Running) -> None:
    before = running.installation.told("signing-keys", "list", "--sandbox")
    made = running.installation.told("signing-keys", "rotate", "--at-once", "--sandbox")

    listed = running.installation.told("signing-keys", "list", "--sandbox")
    ended = {key["kid"]: key["retires_at"] for key in listed}
    assert ended.pop(made["kid"]) is None
    assert ended == {key["kid"]: key["retires_at"] or made["signs_at"] for key in before}
    published = running.service.ask("/sandbox/auth/.well-known/jwks.json").json["keys"]
    assert [key["kid"] for key in published] == [made["kid"]]
