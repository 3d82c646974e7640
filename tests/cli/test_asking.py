"""Commands that destroy something ask a person at a terminal first, and no script."""

import os
import tempfile

import forking
from operating import TIMEOUT_SECONDS, Installation

HOOK = {"--url": "https://hooks.example.com/in", "--types": "product.*"}


def at_terminal(installation: Installation, typed: str, *words: str) -> tuple[int, str, str]:
    """The exit code, output and error output of a command at whose terminal somebody types."""
    place, variables = installation.directory, installation.environment
    temporary = tempfile.TemporaryFile
    master, slave = os.openpty()
    with os.fdopen(master, "wb") as keys, temporary() as output, temporary() as errors:
        with os.fdopen(slave, "rb") as given:
            keys.write(f"{typed}\n".encode())
            keys.flush()
            command = forking.Forked(words, place, variables, output, errors, given)
            code = command.wait(TIMEOUT_SECONDS)
        said = []
        for file in (output, errors):
            file.seek(0)
            said.append(file.read().decode())
    return code, said[0], said[1]


def things(installation: Installation) -> dict[str, str]:
    """The words of commands that each destroy something, and the name by which they ask."""
    hook = installation.told(
        "webhooks", "create", *(word for pair in HOOK.items() for word in pair)
    )
    client = installation.told(
        "clients", "create", "--name", "Ledger", "--redirect-uri", "https://a.example/", "--scope",
        "openid",
    )  # fmt: skip
    key = installation.told(
        "keys", "create", "--owner", "admin@example.com", "--type", "live", "--name", "Till"
    )
    return {
        f"webhooks delete {hook['id']}": HOOK["--url"],
        f"clients delete {client['client_id']}": "Ledger",
        f"keys revoke {key['id']}": "Till",
        "sandbox reset": "sandbox",
    }


def counted(installation: Installation) -> list[object]:
    """What these commands would change."""
    keys = installation.told("keys", "list")
    return [
        len(installation.told("webhooks", "list")),
        len(installation.told("clients", "list")),
        [key["id"] for key in keys if key["revoked_at"] is None],
        len(installation.told("users", "list", "--sandbox")),
    ]


def test_a_command_that_destroys_something_asks_at_a_terminal(installation: Installation) -> None:
    asking = things(installation)
    before = counted(installation)
    for words, name in asking.items():
        code, said, asked = at_terminal(installation, "x", *words.split())
        assert (code, said) == (1, ""), words
        assert asked.endswith("? [y/N] portico: Nothing was changed.\n"), words
        assert name in asked
    assert counted(installation) == before


def test_yes_at_a_terminal_and_yes_as_an_option_go_on(installation: Installation) -> None:
    webhook, client, *_ = things(installation)
    for words, typed, option in ((webhook, "", ["--yes"]), (client, "yes", [])):
        code, _, asked = at_terminal(installation, typed, *words.split(), *option)
        assert code == 0, asked
        assert ("[y/N]" in asked) is (not option)
    assert counted(installation)[:2] == [0, 0]
