"""`portico keys`."""

from typing import Any

import pytest

from beside import Running
from operating import Installation, in_database

ADMIN = "admin@example.com"


def make(running: Running, key_type: str = "live", *more: str) -> dict[str, Any]:
    told: dict[str, Any] = running.installation.told(
        "keys", "create", "--owner", ADMIN, "--type", key_type, "--name", "Nightly job", *more
    )
    return told


def listed(running: Running, key_id: int, *more: str) -> dict[str, Any]:
    entries = running.installation.told("keys", "list", *more)
    (entry,) = [entry for entry in entries if entry["id"] == key_id]
    return dict(entry)


@pytest.mark.parametrize(
    ("key_type", "works", "refuses"),
    [
        ("live", "/v1", "/sandbox/v1"),
        ("read", "/v1", "/sandbox/v1"),
        ("test", "/sandbox/v1", "/v1"),
    ],
)
def test_a_new_key_opens_its_environment_at_once(
    running: Running, key_type: str, works: str, refuses: str
) -> None:
    told = make(running, key_type)

    assert list(told) == ["id", "name", "type", "key", "hint", "owner", "expires_at"]
    assert told["key"].startswith(f"sk_{key_type}_")
    assert told["hint"] == f"sk_{key_type}_…{told['key'][-4:]}"
    assert (told["name"], told["type"], told["owner"]) == ("Nightly job", key_type, ADMIN)
    assert told["expires_at"] is None
    assert running.service.ask(f"{works}/users/me", key=told["key"]).status == 200
    assert running.service.ask(f"{refuses}/users/me", key=told["key"]).status == 401


def test_a_revoked_key_fails_on_the_very_next_request(on_each: Running) -> None:
    told, other = make(on_each), make(on_each)
    assert on_each.get("/users/me", key=told["key"]).status == 200

    revoked = on_each.installation.told("keys", "revoke", str(told["id"]))

    assert on_each.get("/users/me", key=told["key"]).status == 401
    assert on_each.get("/users/me", key=other["key"]).status == 200
    assert revoked["id"] == told["id"]
    assert listed(on_each, told["id"])["revoked_at"] == revoked["revoked_at"]
    again = on_each.installation.told("keys", "revoke", str(told["id"]))
    assert again == revoked


def test_a_key_of_some_scopes_and_networks_is_as_narrow(running: Running) -> None:
    narrow = ["--scope", "read:products", "--scope", "write:products", "--network", "192.0.2.0/24"]
    told = make(running, "live", *narrow, "--network", "127.0.0.1")

    bounds = {"scopes": ["read:products", "write:products"]}
    bounds["networks"] = ["192.0.2.0/24", "127.0.0.1"]
    assert bounds.items() <= told.items()
    assert bounds.items() <= listed(running, told["id"]).items()
    shown = running.installation.run("keys", "list").stdout
    assert "read:products write:products  192.0.2.0/24 127.0.0.1" in shown
    assert running.get("/products", key=told["key"]).status == 200
    assert running.get("/users", key=told["key"]).status == 403


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("create --owner admin@example.com --type live --name", 2, "must be"),
        ("create --owner admin@example.com --type live --name N --expires-in 0d", 2, "must be"),
        ("create --owner admin@example.com --type live --name N --scope fly", 2, "must be"),
        (
            "create --owner admin@example.com --type live --name N --network 10.0.0.1/8",
            2,
            "must be",
        ),
        ("create --owner v@example.com --type live --name N --scope admin", 1, "not admin"),
        ("create --owner x@example.com --type live --name N", 1, "There is no user with"),
        ("list --owner x@example.com", 1, "There is no user with"),
        ("revoke first", 2, "must be"),
        ("revoke 77", 1, "There is no key 77."),
    ],
)
def test_refused_command_on_keys_says_why_and_makes_none(
    installation: Installation, words: str, code: int, told: str
) -> None:
    installation.told("users", "create", "--email", "v@example.com", "--name", "Vee")
    typed = [*words.split(), *([" "] if words.endswith("--name") else [])]
    done = installation.run("keys", *typed)
    assert (done.returncode, done.stdout) == (code, "")
    assert told in done.stderr
    assert in_database(installation.data / "live.db", "SELECT count(*) FROM api_keys") == 1


def test_a_list_is_safe_for_a_terminal_and_says_whose_keys_open_nothing_for_now(
    installation: Installation,
) -> None:
    installation.told("users", "create", "--email", "v@example.com", "--name", "Vee")
    create = ["keys", "create", "--owner", "v@example.com", "--type", "live", "--name"]
    installation.told(*create, "\x1b[31mred")
    installation.told("users", "suspend", "v@example.com")
    shown = installation.run("keys", "list", "--owner", "v@example.com").stdout
    assert "\\x1b[31mred" in shown
    assert shown.endswith("owner suspended\n")
    told = installation.told("keys", "list")
    assert [key["owner_suspended"] for key in told] == [False, True]
