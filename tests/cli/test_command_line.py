"""What all commands share: help, the data directory, wrong words."""

import json
import subprocess
import tempfile
from pathlib import Path

import pytest

import forking
from operating import COMMAND, TIMEOUT_SECONDS, Installation


@pytest.mark.parametrize("command", ["users create", "audit", "products import"])
def test_every_command_explains_itself(tmp_path: Path, command: str) -> None:
    installation = Installation(tmp_path)
    done = installation.run(*command.split(), "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: portico {command} ")
    assert "--json" in done.stdout
    assert "--data DIR" in done.stdout
    assert installation.run("help", *command.split()).stdout == done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed_whatever_the_settings_are(
    tmp_path: Path, shell: str
) -> None:
    (tmp_path / "portico.toml").write_text("nonsense = 1")
    done = Installation(tmp_path).run("completion", shell)

    assert (done.returncode, done.stderr) == (0, "")
    assert "reset-second-factor" in done.stdout


@pytest.mark.parametrize("words", ["keys list", "products export -", "sandbox reset"])
def test_without_a_prepared_directory_nothing_is_made(tmp_path: Path, words: str) -> None:
    installation = Installation(tmp_path)
    code, line = installation.refused(*words.split())
    assert code == 1
    assert str(installation.data) in line
    assert "portico init" in line
    assert list(tmp_path.iterdir()) == []


def test_the_data_directory_may_stand_before_the_verb_or_after_it(
    installation: Installation, tmp_path: Path
) -> None:
    elsewhere = Installation(tmp_path / "elsewhere", port=installation.port)
    elsewhere.directory.mkdir()
    words, where = ["keys", "list", "--json"], ["--data", str(installation.data)]
    for place in range(4):
        done = elsewhere.run(*words[:place], *where, *words[place:])
        assert json.loads(done.stdout)[0]["id"] == 1
    assert list(elsewhere.directory.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "\n    users "),
        ("users", "\n    delete "),
        ("usrs", "portico: error: there is no command 'usrs': did you mean users?"),
        ("users delte x", "portico users: error: there is no command 'delte': did you mean delete"),
        ("users xyz", "there is no command 'xyz': portico users --help lists the commands"),
        ("keys list --sandbx", "error: unrecognized arguments: --sandbx: did you mean --sandbox?"),
        ("keys list --sand", "error: unrecognized arguments: --sand"),
        ("users list --role admn", "There is no role admn: did you mean admin?"),
        ("keys revoke", "usage: portico keys revoke"),
        ("products import x.csv --format xml", "usage: portico products import"),
        ("users show not-utf-8-\udcff", ": must not contain lone surrogates"),
        (f"events list --after {2**63}", ": must be "),
        (f"keys revoke {2**63}", ": must be "),
        ("audit --limit 1000000001", ": must be a number from 1 to 1000000000"),
    ],
)
def test_wrong_words_are_misuse_name_what_was_meant_and_make_nothing(
    tmp_path: Path, words: str, told: str
) -> None:
    done = Installation(tmp_path).run(*words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert list(tmp_path.iterdir()) == []


def refused_output(installation: Installation, words: str) -> str:
    """The error output of a command whose standard output takes nothing."""
    with Path("/dev/full").open("wb") as full, tempfile.TemporaryFile() as errors:
        place, variables = installation.directory, installation.environment
        code = forking.Forked(words.split(), place, variables, full, errors).wait(TIMEOUT_SECONDS)
        errors.seek(0)
        said = errors.read().decode()
    assert (code, said.count("\n")) == (1, 1)
    return said


@pytest.mark.parametrize("words", ["--version", "users list --json", "products export -"])
def test_an_output_that_takes_nothing_is_told_in_one_line(
    installation: Installation, words: str
) -> None:
    (installation.directory / "a").write_text('{"name":"Lamp","category":"Light","price":1}')
    installation.told("products", "import", "a")
    assert "No space left" in refused_output(installation, words)


def test_an_output_that_is_closed_is_told_in_one_line(installation: Installation) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, "users", "list"],
        cwd=installation.directory,
        env=installation.environment,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "Bad file descriptor" in done.stderr
