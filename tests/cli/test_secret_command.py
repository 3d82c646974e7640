"""`portico secret`: the installation's secret is replaced, as the operator's guide says."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beside import prepared
from operating import Installation
from servers import PostgresServer

OLD, NEW = "ab" * 32, "cd" * 32
HOOK = ("webhooks", "create", "--url", "https://example.com/a", "--types", "*")
NOTHING = {"signing_keys": 0, "webhooks": 0, "authenticators": 0, "mails": 0, "unreadable": 0}

Given = Callable[..., Installation]
"""The installation with these secrets."""


@pytest.fixture
def in_file(installation: Installation) -> Given:
    """One on SQLite, whose data directory has the secrets."""
    file = installation.data / "secret.key"
    own = {OLD: file.read_text().strip()}

    def given(*secrets: str) -> Installation:
        file.write_text("".join(f"{own.get(secret, secret)}\n" for secret in secrets))
        return installation

    return given


@pytest.fixture
def in_variable(postgres: PostgresServer, tmp_path: Path) -> Given:
    """One on PostgreSQL, where a variable gives the secrets."""
    shared = prepared(tmp_path, database_url=postgres.fresh_database(), secret_key=OLD)
    return lambda *secrets: shared.having(secret_key=",".join(secrets))


def notices(installation: Installation) -> dict[str, tuple[str, str]]:
    """What doctor says of secrets: message and advice, by environment."""
    findings: list[dict[str, Any]] = installation.told("doctor")["findings"]
    return {
        one["check"]: (one["message"], one["advice"])
        for one in findings
        if one["check"].endswith(" secrets")
    }


def test_a_secret_is_replaced_step_by_step(in_file: Given) -> None:
    given = in_file
    with given(OLD).serving():
        given(OLD).told(*HOOK)
        assert notices(given(OLD)) == {}
    with given(OLD, NEW).serving():
        assert (
            "everything is encrypted under the first" in notices(given(OLD, NEW))["live secrets"][0]
        )
        early = given(OLD, NEW).run("secret", "reencrypt")
        assert (early.returncode, early.stderr) == (0, "")
        assert early.stdout.endswith(
            "Nothing was re-encrypted: everything is encrypted under the first secret. If that is"
            " the old one, put the new one first everywhere, restart servers, and run this again."
            " Otherwise remove the others, and restart servers.\n"
        )
    replacing = given(NEW, OLD)
    with replacing.serving():
        message, advice = notices(replacing)["live secrets"]
        assert message == "still encrypted under a former secret: 2 values"
        assert advice.endswith("portico secret reencrypt")
        assert replacing.told("secret", "reencrypt") == {
            "live": {**NOTHING, "signing_keys": 1, "webhooks": 1},
            "sandbox": {**NOTHING, "signing_keys": 1},
        }
        again = replacing.run("secret", "reencrypt")
        assert (again.returncode, again.stderr) == (0, "")
        assert "Otherwise remove the others" in again.stdout
        assert set(notices(replacing)) == {"live secrets", "sandbox secrets"}
    alone = given(NEW)
    with alone.serving():
        assert notices(alone) == {}
        assert alone.told("secret", "reencrypt") == {"live": NOTHING, "sandbox": NOTHING}
        assert alone.run("secret", "reencrypt").stdout.endswith(
            "There is only one secret, and everything is encrypted under it.\n"
        )
    assert (
        given(OLD, NEW)
        .run("secret", "reencrypt")
        .stdout.endswith(
            "\nEverything is encrypted under the first secret: remove the others, and restart"
            " servers.\n"
        )
    )


def test_what_no_secret_opens_is_told_and_ends_with_1(installation: Installation) -> None:
    installation.told(*HOOK)
    (installation.data / "secret.key").write_text(f"{NEW}\n")
    installation.told("secret", "reset")
    done = installation.run("secret", "reencrypt")
    assert done.returncode == 1
    assert done.stdout.endswith(
        "Unreadable values need a secret that is not given here: see portico doctor.\n"
    )


def test_an_installation_starts_over_with_another_secret(in_variable: Given) -> None:
    given = in_variable
    given(OLD).told(*HOOK)
    code, line = given(OLD).refused("secret", "reset")
    assert (code, line.endswith("so it is not lost; nothing was changed.")) == (1, True)
    with given(OLD).serving():
        code, line = given(NEW).refused("secret", "reset")
        assert (code, line.startswith("Stop the server first: it is process ")) == (1, True)
    for command in ("serve", "secret reencrypt"):
        code, line = given(NEW).refused(*command.split())
        assert (code, line.endswith("over with portico secret reset.")) == (1, True)
    made = given(NEW).told("secret", "reset")["signing_keys"]
    for environment, kid in made.items():
        option = ["--sandbox"] if environment == "sandbox" else []
        old, new = given(NEW).told("signing-keys", "list", *option)
        assert (new["kid"], new["retires_at"]) == (kid, None)
        assert old["retires_at"] is not None
    with given(NEW).serving():
        assert given(NEW).run("doctor").returncode == 1
        given(NEW).told("webhooks", "rotate-secret", "1")
        assert notices(given(NEW)) == {}
    assert given(OLD).refused("serve")[0] == 1


def test_on_postgresql_a_new_secret_is_given_first(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    shared = prepared(tmp_path, database_url=postgres.fresh_database())
    secret = shared.data / "secret.key"
    secret.unlink()
    code, line = shared.refused("secret", "reset")
    assert (code, line) == (1, "Give this host the new secret first, by secret_key_file.")
    assert not secret.exists()
