"""With --json a command that fails prints one JSON value too: what was wrong."""

import json
import subprocess
from pathlib import Path

import pytest

from operating import COMMAND, Installation, contents


@pytest.mark.parametrize(
    "words",
    [
        "users show nobody@example.com",
        "users set-plan nobody@example.com pro",
        "keys revoke 999999",
        "init",
        "products import bad.csv",
        "backup there.tar",
        "restore there.tar",
    ],
)
def test_an_error_is_one_json_value_beside_the_line_on_standard_error(
    installation: Installation, words: str
) -> None:
    (installation.directory / "bad.csv").write_text("colour,weight\nred,1\n")
    (installation.directory / "there.tar").touch()
    before = contents(installation.data)

    done = installation.run(*words.split(), "--json")

    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert set(told) == {"error"}
    assert set(told["error"]) == {"message"}
    assert done.stderr == f"portico: {told['error']['message']}\n"
    assert contents(installation.data) == before


@pytest.mark.parametrize("words", ["users show nobody@example.com", "init"])
def test_without_json_an_error_is_on_standard_error_alone(
    installation: Installation, words: str
) -> None:
    done = installation.run(*words.split())
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)


def test_where_there_is_no_portico_the_error_is_json_too(tmp_path: Path) -> None:
    done = Installation(tmp_path).run("users", "list", "--json")
    assert done.returncode == 1
    assert "portico init" in json.loads(done.stdout)["error"]["message"]


def test_what_tells_its_findings_tells_no_error_beside_them(installation: Installation) -> None:
    (installation.directory / "rows.ndjson").write_text('{"name": ""}\n')
    imported = installation.run("products", "import", "rows.ndjson", "--json")
    assert (imported.returncode, json.loads(imported.stdout)["faulty"]) == (1, 1)

    (installation.data / "tls" / "server.pem").write_text("none")
    examined = installation.run("doctor", "--json")
    assert (examined.returncode, json.loads(examined.stdout)["ok"]) == (1, False)


@pytest.mark.parametrize(
    "words", ["products export - --json", "products import missing.csv --json", "users --json"]
)
def test_misuse_prints_no_json(installation: Installation, words: str) -> None:
    done = installation.run(*words.split())
    assert (done.returncode, done.stdout) == (2, "")


def test_an_impossible_setting_prints_no_json(installation: Installation) -> None:
    done = installation.having(workers="none").run("users", "list", "--json")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("words", ["keys list", "users show nobody@example.com"])
def test_an_output_that_takes_nothing_is_not_tried_again(
    installation: Installation, words: str
) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, *words.split(), "--json"],
            cwd=installation.directory,
            env=installation.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("portico: ")
