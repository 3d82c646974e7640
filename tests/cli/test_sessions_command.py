"""`portico sessions`."""

from itertools import count
from typing import Any

import pytest

from beside import Running
from operating import Installation, in_database

NUMBERS = count(1)


class Person:
    """An account that has signed in: by session and by login."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.email = f"person{next(NUMBERS)}@example.com"
        create = ["users", "create", "--email", self.email, "--name", "A Person"]
        self.facts = running.installation.told(*create)
        self.own = ["--owner", self.email]
        signing_in = {"email": self.email, "password": self.facts["password"]}
        opened = self._post("/v1/sessions", signing_in)
        assert opened.status == 201, opened.text
        self.cookie = opened.headers["set-cookie"].partition(";")[0]
        logged_in = self._post("/auth/login", signing_in)
        assert logged_in.status == 200, logged_in.text
        self.token = logged_in.json["access_token"]

    def _post(self, path: str, body: dict[str, str]) -> Any:
        agent = {"user-agent": "Tester/1"}
        return self.running.service.ask(path, method="POST", body=body, headers=agent)

    def listed(self) -> dict[str, dict[str, Any]]:
        """The living sessions and logins, by kind."""
        found = self.running.installation.told("sessions", "list", *self.own)
        return {str(each["id"]).partition("-")[0]: each for each in found}

    def statuses(self) -> tuple[int, int]:
        """What session and login are answered."""
        ask = self.running.service.ask
        by_session = ask("/v1/users/me", headers={"cookie": self.cookie}).status
        return by_session, ask("/v1/users/me", key=self.token).status


def test_a_list_tells_who_is_signed_in(on_each: Running) -> None:
    first, second = Person(on_each), Person(on_each)

    found = first.listed()

    assert list(found) == ["login", "session"], "newest first"
    for each in found.values():
        assert list(each) == [
            *("id", "owner", "address", "user_agent"),
            *("created_at", "last_used_at", "expires_at"),
        ]
        assert (each["owner"], each["address"]) == (first.email, "127.0.0.1")
        assert each["created_at"] <= each["last_used_at"] < each["expires_at"]
    everybody = on_each.installation.told("sessions", "list")
    assert {first.email, second.email} <= {each["owner"] for each in everybody}
    assert on_each.installation.told("sessions", "list", "--sandbox") == []
    text = on_each.installation.run("sessions", "list", *first.own).stdout
    assert text.startswith("ID ")
    assert found["session"]["id"] in text
    assert first.token not in text
    assert first.cookie.partition("=")[2] not in text


def test_an_ended_session_or_login_fails_on_the_very_next_request(running: Running) -> None:
    person = Person(running)
    assert person.statuses() == (200, 200)
    found = person.listed()

    told = running.installation.told("sessions", "revoke", found["session"]["id"])
    assert told == {"id": found["session"]["id"]}
    assert person.statuses() == (401, 200)
    running.installation.told("sessions", "revoke", found["login"]["id"])

    assert person.statuses() == (401, 401)
    assert person.listed() == {}
    for each in found.values():
        code, _ = running.installation.refused("sessions", "revoke", each["id"])
        assert code == 1
    actions = [entry["action"] for entry in running.installation.told("audit", "--limit", "2")]
    assert actions == ["grant.revoked", "session.revoked"]


def test_an_account_is_signed_out_everywhere_and_nobody_else(running: Running) -> None:
    person, other = Person(running), Person(running)

    told = running.installation.told("sessions", "revoke", "--all", *person.own)

    assert told == {"owner": person.email, "sessions": 1, "grants": 1}
    assert person.statuses() == (401, 401)
    assert other.statuses() == (200, 200)
    (entry,) = running.installation.told("audit", "--limit", "1")
    assert (entry["action"], entry["target_id"]) == ("sign_out.everywhere", str(person.facts["id"]))
    assert (entry["credential"], entry["details"]) == ("command", {"sessions": 1, "grants": 1})


@pytest.mark.parametrize(
    "words",
    [
        "",
        "--all",
        "--owner admin@example.com",
        "session-1 --all --owner admin@example.com",
        "key-1",
    ],
)
def test_what_to_end_must_be_clear(installation: Installation, words: str) -> None:
    done = installation.run("sessions", "revoke", *words.split())
    assert (done.returncode, done.stdout) == (2, "")
    ended = "SELECT count(*) FROM audit WHERE action = 'sign_out.everywhere'"
    assert in_database(installation.data / "live.db", ended) == 0
