"""`portico users`."""

import json
import os
import subprocess
from typing import Any

import apsw
import pytest
from nacl.pwhash import argon2id

from beside import Running
from operating import COMMAND, PATIENCE_SECONDS, Installation, in_database, with_input


def create(running: Running, email: str, *more: str) -> dict[str, object]:
    told: dict[str, object] = running.installation.told(
        "users", "create", "--email", email, "--name", "Ada Lovelace", *more
    )
    return told


def key_of(running: Running, email: str) -> str:
    told = running.installation.told(
        "keys", "create", "--owner", email, "--type", "live", "--name", "Mine"
    )
    return str(told["key"])


def test_a_new_user_is_known_to_the_server_at_once(on_each: Running) -> None:
    told = create(on_each, "Ada@Example.com", "--role", "editor", "--plan", "pro")

    assert told.keys() == {"id", "email", "password"}
    assert told["email"] == "Ada@example.com"
    user = on_each.get(f"/users/{told['id']}").json["data"]
    assert (user["name"], user["email"], user["role"]) == ("Ada Lovelace", told["email"], "editor")
    limit = on_each.get("/users/me", key=key_of(on_each, "ada@example.com")).headers
    assert limit["x-ratelimit-limit"] == "100"


def test_role_and_plan_are_those_of_everyone_new_unless_told(running: Running) -> None:
    told = create(running, "plain@example.com")

    assert running.get(f"/users/{told['id']}").json["data"]["role"] == "viewer"
    answer = running.get("/users/me", key=key_of(running, "plain@example.com"))
    assert answer.headers["x-ratelimit-limit"] == "30"


@pytest.mark.parametrize("typed", ["Correct4hörse", "Correct4ho\u0308rse"])
def test_a_given_password_is_not_told_again(installation: Installation, typed: str) -> None:
    words = ["users", "create", "--email", "b@example.com", "--name", "Bo", "--password-stdin"]

    code, said, complaint = with_input(installation, f"{typed}\n".encode(), *words, "--json")

    assert (code, complaint) == (0, b"")
    assert json.loads(said).keys() == {"id", "email"}
    stored = in_database(
        installation.data / "live.db",
        "SELECT password_hash FROM users WHERE email = ?",
        "b@example.com",
    )
    assert argon2id.verify(stored.encode(), "Correct4hörse".encode())


def test_plain_words_show_the_password_once(installation: Installation) -> None:
    done = installation.run("users", "create", "--email", "c@example.com", "--name", "Cy")

    assert done.returncode == 0
    assert "User 2 is created: c@example.com, viewer, plan free." in done.stdout
    assert "not shown again" in done.stdout


@pytest.mark.parametrize("typed", [b"\x04", b"\xff\n"], ids=["Ctrl-D", "not UTF-8"])
def test_a_prompt_that_gets_no_password_makes_no_user(
    installation: Installation, typed: bytes
) -> None:
    words = ["users", "create", "--email", "b@example.com", "--name", "Bo", "--password-stdin"]
    keyboard, terminal = os.openpty()
    with subprocess.Popen(
        [*COMMAND, *words],
        cwd=installation.directory,
        env=installation.environment | {"PYTHONIOENCODING": "utf-8:strict"},
        start_new_session=True,  # without a terminal beside the one on standard input
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.read(len("Password: ")) == b"Password: "
        os.write(keyboard, typed)
        said, complaint = process.communicate(timeout=PATIENCE_SECONDS)
    os.close(keyboard)
    os.close(terminal)

    assert (process.returncode, said) == (2, b"")
    assert complaint.startswith(b"\nportico: "), complaint
    assert complaint.count(b"\n") == 2, complaint
    assert in_database(installation.data / "live.db", "SELECT count(*) FROM users") == 1


@pytest.mark.parametrize(
    ("password", "complaint"),
    [
        (b"short", b"must be 8 to 128 characters long"),
        (b"", b"must be 8 to 128 characters long"),
        (b"alllowercase", b"must contain an uppercase letter"),
        (b"\xff\xfe\xff\xfe\xff\xfe", b"must be UTF-8"),
    ],
)
def test_a_weak_password_makes_no_user(
    installation: Installation, password: bytes, complaint: bytes
) -> None:
    words = ["users", "create", "--email", "b@example.com", "--name", "Bo", "--password-stdin"]

    code, said, complained = with_input(installation, password, *words)

    assert (code, said) == (2, b"")
    assert complaint in complained
    assert in_database(installation.data / "live.db", "SELECT count(*) FROM users") == 1


def test_every_fault_of_the_command_line_is_told_at_once(installation: Installation) -> None:
    code, line = installation.refused("users", "create", "--email", "nobody", "--name", "N")

    assert code == 2
    assert "--email must be a valid e-mail address" in line
    assert "--name must be 2 to 100 characters long" in line


def test_an_unknown_plan_is_misuse(installation: Installation) -> None:
    for words in (
        ["users", "create", "--email", "b@example.com", "--name", "Bo", "--plan", "gold"],
        ["users", "set-plan", "admin@example.com", "gold"],
    ):
        code, line = installation.refused(*words)
        assert code == 2
        assert "no plan gold" in line
        assert "free, pro, enterprise" in line
    file = installation.data / "live.db"
    assert in_database(file, "SELECT count(*) FROM users") == 1
    assert in_database(file, "SELECT plan FROM users") == "enterprise"


def test_a_taken_email_is_refused_in_any_case(on_each: Running) -> None:
    create(on_each, "taken@example.com")

    code, line = on_each.installation.refused(
        "users", "create", "--email", "TAKEN@example.com", "--name", "Two"
    )

    assert code == 1
    assert "exists already" in line


def test_a_new_plan_holds_from_the_next_request_on_and_for_the_mirror_too(on_each: Running) -> None:
    create(on_each, "moves@example.com")
    live = key_of(on_each, "moves@example.com")
    told = on_each.installation.told(
        "keys", "create", "--owner", "moves@example.com", "--type", "test", "--name", "T"
    )
    before = on_each.get("/users/me", key=live).headers["x-ratelimit-limit"]

    moved = on_each.installation.told("users", "set-plan", "MOVES@example.com", "pro")

    assert before == "30"
    assert moved == {"id": moved["id"], "email": "moves@example.com", "plan": "pro"}
    assert on_each.get("/users/me", key=live).headers["x-ratelimit-limit"] == "100"
    mirrored = on_each.get_sandbox("/users/me", key=told["key"])
    assert mirrored.headers["x-ratelimit-limit"] == "100"
    code, line = on_each.installation.refused(
        "users", "set-plan", "moves@example.com", "free", "--sandbox"
    )
    assert code == 1
    assert "mirrors a live account" in line
    mirrored = on_each.get_sandbox("/users/me", key=told["key"])
    assert mirrored.headers["x-ratelimit-limit"] == "100"


def test_a_suspended_account_is_shut_out_until_it_is_resumed(on_each: Running) -> None:
    told = create(on_each, "rests@example.com")
    key = key_of(on_each, "rests@example.com")
    assert on_each.get("/users/me", key=key).status == 200

    suspended = on_each.installation.told("users", "suspend", "RESTS@example.com")

    assert suspended == {"id": told["id"], "email": "rests@example.com", "suspended": True}
    assert on_each.get("/users/me", key=key).status == 401
    resumed = on_each.installation.told("users", "resume", "rests@example.com")
    assert resumed == {**suspended, "suspended": False}
    assert on_each.get("/users/me", key=key).status == 200


@pytest.mark.parametrize("words", [("suspend",), ("delete", "--yes")])
def test_the_keys_that_an_admin_created_for_others_are_named_when_access_ends(
    on_each: Running, words: tuple[str, ...]
) -> None:
    email = f"{words[0]}@example.com"
    owner = create(on_each, f"owns-{email}")
    create(on_each, email, "--role", "admin")
    admin = key_of(on_each, email)

    def made(path: str, key: str, body: dict[str, object] | None = None) -> dict[str, Any]:
        answer = on_each.service.ask(f"/v1/api-keys{path}", method="POST", key=key, body=body)
        data: dict[str, Any] = answer.json["data"]
        return data

    kept, revoked = (
        made("", admin, {"name": name, "type": "live", "user_id": owner["id"]})
        for name in ("Kept", "Revoked")
    )
    made("", admin, {"name": "Own", "type": "live"})
    on_each.installation.told("keys", "revoke", str(revoked["id"]))
    rotated = made("/rotate", kept["key"])

    told = on_each.installation.told("users", words[0], email, *words[1:])

    expected = {"environment": "live", "name": "Kept", "owner": owner["email"]}
    assert told["keys_for_others"] == [
        {**expected, "id": key["id"], "hint": key["hint"]} for key in (kept, rotated)
    ]
    assert on_each.get("/users/me", key=rotated["key"]).status == 200


def test_users_are_listed_shown_and_given_roles(on_each: Running) -> None:
    told = create(on_each, "listed@example.com", "--role", "editor")
    key = key_of(on_each, "listed@example.com")

    listed = on_each.installation.told("users", "list", "--role", "editor")
    shown = on_each.installation.told("users", "show", "LISTED@example.com")
    moved = on_each.installation.told("users", "set-role", "listed@example.com", "admin")

    (entry,) = [one for one in listed if one["id"] == told["id"]]
    assert {one["role"] for one in listed} == {"editor"}
    assert entry == {
        "id": told["id"],
        "name": "Ada Lovelace",
        "email": "listed@example.com",
        "role": "editor",
        "plan": "free",
        "suspended": False,
        "created_at": entry["created_at"],
        "last_login_at": None,
    }
    counted = {"email_verified": False, "api_keys": 1, "sessions": 0, "grants": 0}
    assert shown == {**entry, **counted}
    assert moved == {"id": told["id"], "email": "listed@example.com", "role": "admin"}
    assert on_each.get("/webhooks", key=key).status == 200


def test_a_user_is_found_in_either_form_of_their_domain(installation: Installation) -> None:
    address = "ada@xn--mnchen-3ya.de"
    told = installation.told("users", "create", "--email", address, "--name", "Ada Lovelace")

    assert told["email"] == "ada@münchen.de"
    for spelled in (told["email"], address):
        assert installation.told("users", "show", spelled)["id"] == told["id"]
        assert installation.told("users", "suspend", spelled)["id"] == told["id"]


def test_lists_for_people_are_tables(installation: Installation) -> None:
    lines = installation.run("users", "list").stdout.splitlines()
    heads = "ID E-MAIL NAME ROLE PLAN CREATED LAST SIGN-IN STATUS"
    assert " ".join(lines[0].split()) == heads
    assert "admin@example.com" in lines[1]
    assert lines[1].endswith("active")
    nobody = installation.run("users", "list", "--role", "viewer").stdout
    assert "There are no users." in nobody
    shown = installation.run("users", "show", "admin@example.com").stdout
    assert "suspended       no" in shown
    assert "last_login_at   never" in shown


def test_a_link_of_an_operator_gives_a_password_once(on_each: Running) -> None:
    create(on_each, "forgets@example.com")

    given = on_each.installation.told("users", "reset-password", "FORGETS@example.com")

    assert given.keys() == {"email", "link", "expires_at"}
    assert given["email"] == "forgets@example.com"
    assert "/dashboard/reset?token=" in given["link"]
    shown = on_each.installation.told("users", "show", "forgets@example.com")
    assert shown["email_verified"] is False


def test_who_is_invited_gets_a_link(on_each: Running) -> None:
    words = ["users", "invite", "Guest@Example.com", "--name", "Gu Est", "--role", "editor"]

    made = on_each.installation.told(*words)
    again = on_each.installation.told(*words)

    assert made.keys() == {"id", "email", "role", "link", "expires_at"}
    assert (made["email"], made["role"]) == ("Guest@example.com", "editor")
    assert "/dashboard/invitation?token=" in made["link"]
    assert again["id"] == made["id"]
    assert again["link"] != made["link"]


def test_nobody_with_an_account_is_invited(installation: Installation) -> None:
    code, line = installation.refused("users", "invite", "admin@example.com")
    assert (code, "exists already" in line) == (1, True)
    misused = installation.run("users", "invite", "nobody")
    assert misused.returncode == 2
    assert "must be a valid e-mail address" in misused.stderr
    code, line = installation.refused("users", "invite", "a@example.com", "--plan", "gold")
    assert (code, "no plan gold" in line) == (2, True)


def test_a_user_is_deleted_when_one_says_so(on_each: Running) -> None:
    told = create(on_each, "goes@example.com")
    key = key_of(on_each, "goes@example.com")

    code, line = on_each.installation.refused("users", "delete", "goes@example.com")
    assert (code, "--yes" in line) == (2, True)
    assert on_each.get("/users/me", key=key).status == 200
    gone = on_each.installation.told("users", "delete", "goes@example.com", "--yes")
    assert gone == {"id": told["id"], "email": "goes@example.com"}
    assert on_each.get("/users/me", key=key).status == 401


def test_the_last_admin_is_neither_demoted_nor_deleted(installation: Installation) -> None:
    for words in (
        ("set-role", "admin@example.com", "viewer"),
        ("delete", "admin@example.com", "--yes"),
    ):
        code, line = installation.refused("users", *words)
        assert code == 1
        assert "last admin" in line


def test_the_last_admin_cannot_be_suspended(installation: Installation) -> None:
    code, line = installation.refused("users", "suspend", "admin@example.com")

    assert code == 1
    assert "last admin" in line


def test_the_plan_of_nobody_cannot_be_set(running: Running) -> None:
    code, line = running.installation.refused("users", "set-plan", "nobody@example.com", "pro")

    assert code == 1
    assert "no user with the e-mail nobody@example.com" in line


def test_a_user_of_the_sandbox_alone_is_unknown_to_live(running: Running) -> None:
    told = create(running, "sandy@example.com", "--sandbox", "--role", "editor")
    owner = ["--owner", "sandy@example.com", "--name", "S", "--sandbox"]

    made = running.installation.told("keys", "create", *owner, "--type", "test")

    assert running.get_sandbox("/users/me", key=made["key"]).json["data"]["id"] == told["id"]
    assert "sandy@example.com" not in running.get("/users?limit=100").text
    code, _ = running.installation.refused("keys", "create", *owner, "--type", "live")
    assert code == 2
    assert len(running.installation.told("keys", "list", *owner[:2], "--sandbox")) == 1


def test_a_second_factor_is_reset_where_there_is_one(installation: Installation) -> None:
    code, line = installation.refused("users", "reset-second-factor", "admin@example.com")
    assert code == 1
    assert "no second factor" in line
    statement = (
        "INSERT INTO authenticators (user_id, name, secret, last_step, created_at)"
        " SELECT id, 'Phone', x'00', 0, 0 FROM users WHERE email = 'admin@example.com'"
    )
    connection = apsw.Connection(str(installation.data / "live.db"))
    connection.execute(statement)
    connection.close()
    told = installation.told("users", "reset-second-factor", "ADMIN@example.com")
    assert told["email"] == "admin@example.com"
    assert in_database(installation.data / "live.db", "SELECT count(*) FROM authenticators") == 0
