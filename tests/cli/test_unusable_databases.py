"""A database that is there and is not as it must be: one line, which names what it is about."""

import json

import pytest

from operating import Installation, in_database

PAGE = 4096


def commands(installation: Installation) -> list[tuple[str, ...]]:
    """What cannot go on without the accounts."""
    backup = str(installation.directory / "backup.tar")
    words = ("users list", "migrate --check", "sandbox reset", f"backup {backup}", "init", "serve")
    return [tuple(each.split()) for each in words]


def problems(installation: Installation) -> dict[str, str]:
    """What doctor finds wrong, by check."""
    findings = json.loads(installation.run("doctor", "--json").stdout)["findings"]
    assert findings[-1]["check"] == "server", "the checks that follow go on"
    return {one["check"]: one["message"] for one in findings if not one["ok"]}


def test_commands_tell_of_a_file_that_is_damaged_in_the_middle(
    installation: Installation,
) -> None:
    file = installation.data / "live.db"
    with file.open("r+b") as pages:
        pages.seek(3 * PAGE)
        pages.write(b"\xff" * 5 * PAGE)
    for command in commands(installation):
        code, line = installation.refused(*command)
        assert (command, code, line.startswith(f"{file} ")) == (command, 1, True)
        assert "database disk image is malformed" in line
    assert not (installation.directory / "backup.tar").exists()


@pytest.mark.parametrize("table", ["users", "signing_keys"])
def test_commands_tell_of_a_table_that_is_missing(installation: Installation, table: str) -> None:
    file = installation.data / "live.db"
    in_database(file, f"DROP TABLE {table}")
    told = f"{file} is not whole: no such table: {table}."
    assert installation.refused("users", "list") == (1, told)
    assert problems(installation) == {"live database": told.rstrip(".")}


def test_a_server_goes_on_beside_what_is_damaged_and_names_the_file_in_its_log(
    installation: Installation,
) -> None:
    file = installation.data / "live.db"
    with installation.serving() as service:
        in_database(file, "DROP TABLE webhooks")
        answer = service.ask("/v1/webhooks", key=installation.key)
        assert answer.error == (503, "SERVICE_UNAVAILABLE")
        assert str(file) not in answer.text
        told = f"{file} is not whole: no such table: webhooks."
        line = next(line for line in service.lines if told in json.dumps(line))
        assert line["request_id"] == answer.headers["x-request-id"]
        assert service.ask("/v1/products", key=installation.key).status == 200
