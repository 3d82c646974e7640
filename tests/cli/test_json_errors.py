"""With --json a command that fails prints one JSON value too: what was wrong."""

import json

import pytest

from operating import Installation, contents


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
