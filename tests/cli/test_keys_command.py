"""`portico keys`."""

import re
from datetime import UTC, datetime, timedelta
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


@pytest.mark.parametrize(
    ("key_type", "kind", "option"), [("live", "Key", ""), ("test", "Sandbox key", " --sandbox")]
)
def test_a_new_key_says_of_which_environment_it_is_and_how_it_ends_there(
    installation: Installation, key_type: str, kind: str, option: str
) -> None:
    words = ["keys", "create", "--owner", ADMIN, "--type", key_type, "--name", "Nightly job"]
    said = installation.run(*words).stdout
    number = said.removeprefix(f"{kind} ").partition(" ")[0]
    assert said.startswith(f"{kind} {number} is created for {ADMIN}. ")
    revoke = ["keys", "revoke", number, *option.split()]
    assert said.endswith(f"To revoke it: portico {' '.join(revoke)}\n")
    assert installation.told(*revoke)["hint"].startswith(f"sk_{key_type}_")


def test_a_read_key_only_reads(running: Running) -> None:
    told = make(running, "read")

    answer = running.service.ask("/v1/products", key=told["key"], method="POST", body={})
    assert answer.status == 403


def test_a_key_may_expire(running: Running) -> None:
    told = make(running, "live", "--expires-in", "24h")

    end = datetime.fromisoformat(told["expires_at"])
    assert timedelta(hours=23, minutes=58) < end - datetime.now(UTC) <= timedelta(hours=24)
    assert running.get("/users/me", key=told["key"]).status == 200
    assert listed(running, told["id"])["expires_at"] == told["expires_at"]


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


def test_a_sandbox_key_is_revoked_in_the_sandbox(running: Running) -> None:
    told = make(running, "test")
    live_before = running.installation.told("keys", "list")

    running.installation.told("keys", "revoke", str(told["id"]), "--sandbox")

    assert running.get_sandbox("/users/me", key=told["key"]).status == 401
    assert [
        (key["id"], key["revoked_at"]) for key in running.installation.told("keys", "list")
    ] == [(key["id"], key["revoked_at"]) for key in live_before]


def test_a_list_tells_everything_but_the_keys(running: Running) -> None:
    told = make(running, "live", "--expires-in", "90d")

    entry = listed(running, told["id"])

    assert entry.keys() == {
        *("id", "name", "type", "hint", "owner", "owner_suspended", "scopes", "networks"),
        *("created_at", "last_used_at", "revoked_at", "expires_at"),
    }
    assert entry["owner"] == ADMIN
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry["created_at"])
    assert entry["last_used_at"] is entry["revoked_at"] is None
    whole = running.installation.run("keys", "list").stdout
    assert told["key"] not in whole
    assert told["hint"] in whole


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


def test_a_key_has_no_more_than_its_owner(installation: Installation) -> None:
    installation.told("users", "create", "--email", "v@example.com", "--name", "Vee")
    words = ["keys", "create", "--owner", "v@example.com", "--type", "live", "--name", "N"]

    code, said = installation.refused(*words, "--scope", "admin")

    assert code == 1
    assert said == "scopes must be some of read:users, read:products, not admin"


def test_a_list_says_whose_keys_open_nothing_for_now(installation: Installation) -> None:
    email = "ada@example.com"
    installation.told("users", "create", "--email", email, "--name", "Ada", "--role", "viewer")
    for name, life in (("Till", []), ("Export", ["--expires-in", "30d"])):
        new = ("--owner", email, "--type", "live", "--name", name)
        installation.told("keys", "create", *new, *life)
    shown = installation.run("keys", "list", "--owner", email).stdout
    assert "owner suspended" not in shown
    installation.told("users", "suspend", email)
    shown = installation.run("keys", "list", "--owner", email).stdout
    assert shown.count("owner suspended\n") == 2
    told = installation.told("keys", "list")
    assert {key["owner"] for key in told if key["owner_suspended"]} == {email}
    assert not all(key["owner_suspended"] for key in told)
    installation.told("users", "resume", email)
    shown = installation.run("keys", "list", "--owner", email).stdout
    assert "owner suspended" not in shown


def test_a_list_may_be_of_one_owner(on_each: Running) -> None:
    on_each.installation.told("users", "create", "--email", "own@example.com", "--name", "Own")
    owner = ["--owner", "own@example.com"]
    assert on_each.installation.told("keys", "list", *owner) == []
    assert on_each.installation.run("keys", "list", *owner).stdout == "There are no keys.\n"

    made = on_each.installation.told("keys", "create", *owner, "--type", "read", "--name", "R")

    assert [key["id"] for key in on_each.installation.told("keys", "list", *owner)] == [made["id"]]
    assert len(on_each.installation.told("keys", "list")) > 1
    code, _ = on_each.installation.refused("keys", "list", "--owner", "ghost@example.com")
    assert code == 1


def test_the_columns_of_a_list_are_aligned_and_safe_for_a_terminal(
    installation: Installation,
) -> None:
    create = ["keys", "create", "--owner", ADMIN, "--type", "live", "--name"]
    installation.told(*create, "a much longer name than the others")
    installation.told(*create, "\x1b[31mred")
    installation.told("keys", "revoke", "2")

    lines = installation.run("keys", "list").stdout.splitlines()

    assert len(lines) == 4
    at = [line.index("admin@example.com") for line in lines[1:]]
    assert at == [lines[0].index("OWNER")] * 3
    assert lines[0].endswith("LAST USED  STATUS")
    assert lines[1].endswith("never      active")
    assert "revoked 20" in lines[2]
    assert "\\x1b[31mred" in lines[3]


@pytest.mark.parametrize(
    "words",
    [
        ["create", "--owner", ADMIN, "--type", "live", "--name", " "],
        ["create", "--owner", ADMIN, "--type", "live", "--name", "n" * 101],
        ["create", "--owner", ADMIN, "--type", "live", "--name", "N", "--expires-in", "90"],
        ["create", "--owner", ADMIN, "--type", "live", "--name", "N", "--expires-in", "0d"],
        ["create", "--owner", ADMIN, "--type", "live", "--name", "N", "--scope", "fly"],
        ["create", "--owner", ADMIN, "--type", "live", "--name", "N", "--network", "10.0.0.1/8"],
        ["revoke", "0"],
        ["revoke", "first"],
        ["revoke", "9" * 30],
    ],
)
def test_wrong_values_are_misuse(installation: Installation, words: list[str]) -> None:
    done = installation.run("keys", *words)

    assert (done.returncode, done.stdout) == (2, "")
    assert "must be" in done.stderr
    assert in_database(installation.data / "live.db", "SELECT count(*) FROM api_keys") == 1


def test_keys_of_nobody_are_neither_made_nor_revoked(installation: Installation) -> None:
    words = ["keys", "create", "--owner", "x@example.com", "--type", "live", "--name", "N"]
    assert installation.refused(*words) == (1, "There is no user with the e-mail x@example.com.")
    assert installation.refused("keys", "revoke", "77") == (1, "There is no key 77.")
