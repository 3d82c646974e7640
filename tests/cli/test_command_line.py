"""What all commands share: help, the data directory, wrong words."""

import contextlib
import json
import os
import subprocess
from pathlib import Path

import pytest

from beside import Running
from operating import COMMAND, Installation, with_input

COMMANDS = [
    "users create",
    "users set-plan",
    "users reset-second-factor",
    "keys create",
    "keys list",
    "keys revoke",
    "products import",
    "products export",
    "sandbox reset",
    "sessions list",
    "sessions revoke",
    "audit",
    "events list",
    "events listen",
    "webhooks create",
    "webhooks list",
    "webhooks test",
    "webhooks deliveries",
    "webhooks redeliver",
    "webhooks rotate-secret",
    "webhooks enable",
    "webhooks disable",
    "webhooks delete",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(tmp_path: Path, command: str) -> None:
    done = Installation(tmp_path).run(*command.split(), "--help")

    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: portico {command} ")
    assert "--json" in done.stdout
    assert "--data DIR" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "listed"),
    [("", ("users", "help", "completion")), ("users", ("create", "delete")), ("keys", ("revoke",))],
)
def test_without_a_command_its_commands_are_shown(
    tmp_path: Path, words: str, listed: tuple[str, ...]
) -> None:
    done = Installation(tmp_path).run(*words.split())

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(" ".join(f"usage: portico {words}".split()) + " ")
    for verb in listed:
        assert f"\n    {verb} " in done.stderr


@pytest.mark.parametrize("words", ["", "users", "users delete", "completion"])
def test_help_shows_the_help_of_a_command(tmp_path: Path, words: str) -> None:
    installation = Installation(tmp_path)
    done = installation.run("help", *words.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == installation.run(*words.split(), "--help").stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("usrs", "portico: error: there is no command 'usrs': did you mean users?"),
        ("help usrs", "portico: error: there is no command 'usrs': did you mean users?"),
        (
            "users delte x",
            "portico users: error: there is no command 'delte': did you mean delete?",
        ),
        ("users xyz", "there is no command 'xyz': portico users --help lists the commands"),
        ("keys list --sandbx", "error: unrecognized arguments: --sandbx: did you mean --sandbox?"),
        ("keys list --ownr=a", "error: unrecognized arguments: --ownr=a: did you mean --owner?"),
        ("keys list --x", "error: unrecognized arguments: --x"),
        ("users list --role admn", "There is no role admn: did you mean admin?"),
    ],
)
def test_a_near_miss_is_suggested(tmp_path: Path, words: str, told: str) -> None:
    done = Installation(tmp_path).run(*words.split())

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f"{told}\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed_whatever_the_settings_are(
    tmp_path: Path, shell: str
) -> None:
    (tmp_path / "portico.toml").write_text("nonsense = 1")
    done = Installation(tmp_path).run("completion", shell)

    assert (done.returncode, done.stderr) == (0, "")
    assert "reset-second-factor" in done.stdout


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("us", "users"),
        ("sandbox ", "reset"),
        ("users list --ro", "--role"),
        ("users list --role ", "admin editor viewer"),
        ("completion ", "bash zsh fish"),
        ("products import cat", "catalog.csv"),
    ],
)
def test_bash_completes_commands_options_choices_and_files(
    tmp_path: Path, words: str, offered: str
) -> None:
    (tmp_path / "catalog.csv").touch()
    (tmp_path / "script").write_text(Installation(tmp_path).run("completion", "bash").stdout)
    *before, last = f"portico {words}".split(" ")
    typed = " ".join(f"'{word}'" for word in (*before, last))
    tried = f"""
        source ./script
        complete -p portico > /dev/null || exit 1
        COMP_WORDS=({typed}); COMP_CWORD={len(before)}
        _shtab_portico
        echo "${{COMPREPLY[*]}}"
    """
    done = subprocess.run(
        ["bash", "-c", tried], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == offered


RED = "\x1b[31m"


@pytest.mark.parametrize(
    ("words", "variables", "coloured"),
    [
        ("keys revoke 99", {}, f"{RED}portico:\x1b[0m There is no key"),
        ("usrs", {}, f"{RED}portico: error:\x1b[0m there is no command"),
        ("doctor", {}, f"{RED}PROBLEM\x1b[0m  "),
        ("keys revoke 99", {"NO_COLOR": "1"}, ""),
        ("keys revoke 99", {"TERM": "dumb"}, ""),
        ("doctor", {"NO_COLOR": "1"}, ""),
        ("keys revoke 99 --json", {}, ""),
        ("keys revoke 99 --jsn --json", {}, ""),
        ("doctor --json", {}, ""),
    ],
)
def test_problems_have_colours_at_a_terminal_alone(
    installation: Installation, words: str, variables: dict[str, str], coloured: str
) -> None:
    (installation.data / "tls" / "ca.pem").unlink()  # a problem
    shown = at_terminal(installation, words, {"TERM": "xterm", "NO_COLOR": "", **variables})
    assert coloured in shown
    assert ("\x1b" in shown) is bool(coloured)
    if coloured:
        done = installation.run(*words.split())
        assert "\x1b" not in done.stdout + done.stderr


def at_terminal(installation: Installation, words: str, variables: dict[str, str]) -> str:
    """What a command prints on a terminal."""
    master, slave = os.openpty()
    process = subprocess.Popen(
        [*COMMAND, *words.split()],
        cwd=installation.directory,
        env=installation.environment | variables,
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    shown = b""
    with contextlib.suppress(OSError):  # the terminal's end, once the command has ended
        while part := os.read(master, 65_536):
            shown += part
    process.wait()
    os.close(master)
    return shown.decode()


def test_a_noun_lists_its_commands(tmp_path: Path) -> None:
    done = Installation(tmp_path).run("keys", "--help")

    assert done.returncode == 0
    for verb in ("create", "list", "revoke"):
        assert f"\n    {verb} " in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["users"],
        ["users", "destroy"],
        ["keys", "revoke"],
        ["keys", "list", "--sand"],
        ["keys", "create", "--owner", "a@example.com", "--type", "master", "--name", "N"],
        ["products", "import"],
        ["products", "import", "x.csv", "--format", "xml"],
    ],
)
def test_wrong_words_are_misuse_and_make_nothing(tmp_path: Path, words: list[str]) -> None:
    done = Installation(tmp_path).run(*words)

    assert done.returncode == 2
    assert done.stdout == ""
    assert "usage: portico" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        "users show {}",
        "users suspend {}",
        "users resume {}",
        "users delete {} --yes",
        "users set-role {} viewer",
        "users set-plan {} free",
        "users reset-password {}",
        "users reset-second-factor {}",
        "users invite {}",
        "keys create --owner {} --type live --name N",
        "keys list --owner {}",
        "sessions list --owner {}",
        "sessions revoke --all --owner {}",
        "clients create --owner {} --name N2 --redirect-uri https://a.example/ --scope openid",
        "clients delete {}",
        "audit --user {}",
        "audit --action {}",
    ],
)
def test_a_word_that_is_no_text_is_misuse(tmp_path: Path, words: str) -> None:
    done = Installation(tmp_path).run(*words.format("not-utf-8-\udcff").split())

    assert (done.returncode, done.stdout) == (2, "")
    last = done.stderr.splitlines()[-1]
    assert ": error: argument " in last
    assert last.endswith(": must not contain lone surrogates")


@pytest.mark.parametrize(
    "words",
    [
        ["keys", "list"],
        ["users", "set-plan", "a@example.com", "pro"],
        ["products", "export", "-"],
        ["sandbox", "reset"],
        ["sessions", "list"],
        ["audit"],
    ],
)
def test_without_a_prepared_directory_nothing_is_made(tmp_path: Path, words: list[str]) -> None:
    installation = Installation(tmp_path)

    code, line = installation.refused(*words)

    assert code == 1
    assert str(installation.data) in line
    assert "portico init" in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        "events list --limit {}",
        "events list --after {}",
        "events listen --after {}",
        "audit --limit {}",
        "audit --before {}",
        "keys revoke {}",
        "sessions revoke session-{}",
        "webhooks deliveries {}",
        "webhooks deliveries 1 --limit {}",
        "webhooks redeliver 1 {}",
    ],
)
def test_a_number_that_no_database_holds_is_misuse(tmp_path: Path, words: str) -> None:
    done = Installation(tmp_path).run(*words.format(2**63).split())

    assert (done.returncode, done.stdout) == (2, "")
    assert ": must be " in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("words", ["events list", "audit", "webhooks deliveries 1"])
def test_a_limit_is_as_far_as_anybody_reads(tmp_path: Path, words: str) -> None:
    done = Installation(tmp_path).run(*words.split(), "--limit", str(10**9 + 1))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(": must be a number from 1 to 1000000000\n")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("events list --limit 1000000000 --after {}", 0),
        ("audit --limit 1000000000 --before {}", 0),
        ("keys revoke {}", 1),
        ("sessions revoke session-{}", 1),
        ("sessions revoke login-{}", 1),
        ("webhooks deliveries {} --limit 1000000000", 1),
        ("webhooks redeliver {0} {0}", 1),
        ("webhooks delete {}", 1),
    ],
)
def test_the_farthest_numbers_are_looked_for(on_each: Running, words: str, code: int) -> None:
    done = on_each.installation.run(*words.format(2**63 - 1).split())

    assert done.returncode == code
    assert "Traceback" not in done.stderr


def redirected(
    installation: Installation, redirection: str, words: str
) -> "subprocess.CompletedProcess[str]":
    """A command whose standard streams a shell has redirected."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", *COMMAND, *words.split()],
        cwd=installation.directory,
        env=installation.environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("closed", ["<&-", "2>&-"])
def test_a_closed_stream_is_as_good_as_an_empty_one(
    installation: Installation, closed: str
) -> None:
    done = redirected(installation, closed, "users list")
    assert (done.returncode, done.stderr) == (0, "")
    assert "admin@example.com" in done.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("users list", "the result could not be written: Bad file descriptor."),
        ("users list --json", "the result could not be written: Bad file descriptor."),
        ("keys create --owner admin@example.com --name A --type live", "the secret could not be"),
        ("products export -", "Bad file descriptor"),
        ("--version", "Bad file descriptor"),
    ],
)
def test_a_closed_output_takes_nothing(installation: Installation, words: str, told: str) -> None:
    product = b'{"name":"Lamp","category":"Light","price":1}'
    with_input(installation, product, "products", "import", "-")
    done = redirected(installation, ">&-", words)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith(f"portico: {told}")


@pytest.mark.parametrize("output", [">&-", ">/dev/full"])
@pytest.mark.parametrize("form", ["ndjson", "csv"])
def test_an_export_of_nothing_is_refused_where_nothing_is_taken(
    installation: Installation, output: str, form: str
) -> None:
    done = redirected(installation, output, f"products export --format {form} -")
    assert (done.returncode, "Exported" in done.stderr) == (1, False)


@pytest.mark.parametrize(
    ("words", "code"), [("users list", 0), ("products import nowhere.csv", 2), ("users show x", 1)]
)
def test_a_full_standard_error_changes_no_exit_code(
    installation: Installation, words: str, code: int
) -> None:
    assert redirected(installation, "2>/dev/full", words).returncode == code


def test_whoever_has_had_enough_of_an_output_is_told_nothing(installation: Installation) -> None:
    assert redirected(installation, "--version | true", "").stderr == ""


@pytest.mark.parametrize(
    "words", ["--version", "users list", "products import /dev/null --format ndjson"]
)
def test_a_full_output_is_told_in_one_line(installation: Installation, words: str) -> None:
    done = redirected(installation, ">/dev/full", words)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "No space left on device" in done.stderr


def in_ascii(installation: Installation, *words: str | bytes) -> bytes:
    """What a command prints that goes well where standard output is to be ASCII."""
    done = subprocess.run(
        [*COMMAND, *words],
        cwd=installation.directory,
        env={**installation.environment, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def test_no_character_keeps_a_result_from_being_told(installation: Installation) -> None:
    create = ["users", "create", "--name", "Zoë", "--email"]

    told = json.loads(in_ascii(installation, *create, "grüße@example.com", "--json"))
    text = in_ascii(installation, *create, "müßig@example.com").decode("ascii")

    assert (told["email"], len(told["password"]) > 8) == ("grüße@example.com", True)
    assert "created: m\\xfc\\xdfig@example.com, viewer" in text
    assert "\n  password   " in text
    assert "Zo\\xeb" in in_ascii(installation, "users", "list").decode("ascii")
    assert json.loads(in_ascii(installation, "users", "list", "--json"))[-1]["name"] == "Zoë"


def test_help_and_documents_are_told_in_ascii_too(tmp_path: Path) -> None:
    installation = Installation(tmp_path)

    assert b"https://\\u2026" in in_ascii(installation, "clients", "create", "--help")
    for_people, for_programs = (
        in_ascii(installation, "openapi", *more).decode() for more in ([], ["--json"])
    )
    assert json.loads(for_people) == json.loads(for_programs)


def test_a_file_may_have_a_name_that_is_not_text(installation: Installation) -> None:
    name = b"backup-\xff.tar"

    told = json.loads(in_ascii(installation, "backup", name, "--json"))

    assert os.path.basename(os.fsencode(told["file"])) == name  # noqa: PTH119 - bytes
    assert told["bytes"] == os.stat(os.fsencode(told["file"])).st_size  # noqa: PTH116 - bytes
    assert b"to /" in in_ascii(installation, "backup", b"another-\xff.tar")


@pytest.mark.parametrize("words", [["keys", "list", "--json"]])
def test_the_data_directory_may_stand_before_the_verb_or_after_it(
    installation: Installation, tmp_path: Path, words: list[str]
) -> None:
    elsewhere = Installation(tmp_path / "elsewhere", port=installation.port)
    elsewhere.directory.mkdir()
    where = ["--data", str(installation.data)]

    answers = [
        elsewhere.run(*words[:place], *where, *words[place:]).stdout for place in (0, 1, 2, 3)
    ]

    assert [json.loads(answer)[0]["id"] for answer in answers] == [1, 1, 1, 1]
    assert list(elsewhere.directory.iterdir()) == []
