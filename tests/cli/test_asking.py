"""Commands that destroy something ask a person at a terminal first, and no script."""

import os
import subprocess

from operating import COMMAND, Installation

HOOK = {"--url": "https://hooks.example.com/in", "--types": "product.*"}


def at_terminal(
    installation: Installation, typed: str, *words: str
) -> "subprocess.CompletedProcess[str]":
    """A command whose standard input is a terminal at which somebody types a line."""
    master, slave = os.openpty()
    try:
        os.write(master, f"{typed}\n".encode())
        return subprocess.run(
            [*COMMAND, *words],
            cwd=installation.directory,
            env=installation.environment,
            stdin=slave,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        os.close(master)
        os.close(slave)


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
        done = at_terminal(installation, "x", *words.split())
        assert (done.returncode, done.stdout) == (1, ""), words
        assert done.stderr.endswith("? [y/N] portico: Nothing was changed.\n"), words
        assert name in done.stderr
    assert counted(installation) == before


def test_yes_at_a_terminal_and_yes_as_an_option_go_on(installation: Installation) -> None:
    webhook, client, *_ = things(installation)
    for words, typed, option in ((webhook, "", ["--yes"]), (client, "yes", [])):
        done = at_terminal(installation, typed, *words.split(), *option)
        assert done.returncode == 0, done.stderr
        assert ("[y/N]" in done.stderr) is (not option)
    assert counted(installation)[:2] == [0, 0]
