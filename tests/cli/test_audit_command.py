"""`portico audit`."""

import json
import re

import pytest

from beside import Running
from operating import Installation

ADMIN = "admin@example.com"
LAMP = {"name": "Lamp", "category": "light", "price": 1}


def test_what_a_server_did_is_told_with_who_asked_for_it(on_each: Running) -> None:
    answer = on_each.service.ask(
        "/v1/products", method="POST", key=on_each.installation.key, body=LAMP
    )

    (entry,) = on_each.installation.told("audit", "--limit", "1")

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry.pop("at"))
    assert isinstance(entry.pop("id"), int)
    assert entry == {
        "action": "product.created",
        "user": {"id": on_each.installation.facts["admin"]["id"], "email": ADMIN},
        "credential": "api_key",
        "credential_id": 1,
        "address": "127.0.0.1",
        "target": "product",
        "target_id": str(answer.json["data"]["id"]),
        "details": {"name": "Lamp"},
        "request_id": answer.headers["x-request-id"],
    }


def test_the_first_admin_and_keys_are_the_operators_work(installation: Installation) -> None:
    entries = installation.told("audit")
    assert [entry["action"] for entry in entries if entry["target"] != "signing_key"] == [
        "key.created",
        "user.created",
    ]
    for entry in entries:
        by = "system" if entry["target"] == "signing_key" else "command"
        assert (entry["user"], entry["credential"], entry["request_id"]) == (None, by, None)
    in_sandbox = installation.told("audit", "--sandbox")
    assert "key.created" in {entry["action"] for entry in in_sandbox}


def test_entries_are_chosen_by_action_user_and_age(running: Running) -> None:
    installation = running.installation
    for _ in range(3):
        running.service.ask("/v1/products", method="POST", key=installation.key, body=LAMP)
    installation.told("users", "create", "--email", "quiet@example.com", "--name", "Quiet")

    products = installation.told("audit", "--action", "product.created", "--limit", "2")
    older = installation.told("audit", "--before", str(products[1]["id"]), "--limit", "1")

    assert {entry["action"] for entry in products} == {"product.created"}
    assert len(products) == 2
    assert older[0]["id"] < products[1]["id"] < products[0]["id"]
    of_admin = installation.told("audit", "--user", ADMIN.upper())
    admin_id = installation.facts["admin"]["id"]
    for entry in of_admin:
        did = entry["user"] is not None and entry["user"]["email"] == ADMIN
        assert did != ((entry["target"], entry["target_id"]) == ("user", str(admin_id)))
    assert "user.created" in {entry["action"] for entry in of_admin}
    (made,) = installation.told("audit", "--user", "quiet@example.com")
    assert (made["action"], made["user"]) == ("user.created", None)
    assert len(installation.told("audit", "--limit", "1000")) > len(of_admin)


def test_the_table_is_for_people_and_safe_for_a_terminal(installation: Installation) -> None:
    create = ["keys", "create", "--owner", ADMIN, "--type", "live", "--name"]
    installation.told(*create, "\x1b[31mred")

    done = installation.run("audit", "--action", "key.created")

    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert lines[0].split() == ["ID", "AT", "WHO", "WITH", "FROM", "ACTION", "TARGET", "DETAILS"]
    assert len(lines) == 3
    assert "\x1b" not in done.stdout
    assert re.search(r"\d +\d{4}-\d\d-\d\d \d\d:\d\dZ  -    command  -     key\.created", lines[1])
    assert '"name":"First key"' in lines[2]
    assert installation.run("audit", "--action", "user.deleted").stdout == "There are no entries.\n"


def test_json_is_one_value_and_holds_no_key(installation: Installation) -> None:
    made = installation.told(
        "keys", "create", "--owner", ADMIN, "--type", "live", "--name", "Another"
    )
    done = installation.run("audit", "--json")
    assert isinstance(json.loads(done.stdout), list)
    for key in (made["key"], *installation.facts["keys"].values()):
        assert key[8:] not in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["--limit", "0"],
        ["--limit", "many"],
        ["--before", "-1"],
        ["--before", "9" * 30],
    ],
)
def test_wrong_numbers_are_misuse(installation: Installation, words: list[str]) -> None:
    done = installation.run("audit", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "must be a number from " in done.stderr


def test_an_account_that_is_not_there_is_told(installation: Installation) -> None:
    code, line = installation.refused("audit", "--user", "ghost@example.com")
    assert (code, line) == (1, "No user has or had the e-mail ghost@example.com.")


@pytest.mark.parametrize(
    ("action", "told"),
    [
        ("key.create", "did you mean key.created or "),
        ("webhook.x", "did you mean webhook."),
        ("nonsense", "see docs/operations/audit-log.md"),
    ],
)
def test_an_unknown_action_is_misuse_that_names_those_near_it(
    installation: Installation, action: str, told: str
) -> None:
    code, line = installation.refused("audit", "--action", action)
    assert code == 2
    assert line.startswith(f"there is no action {action}: {told}")
