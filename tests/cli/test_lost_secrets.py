"""A secret that cannot be written: the command says what is there, and how to have another."""

import tempfile
from pathlib import Path

import pytest

import forking
from operating import TIMEOUT_SECONDS, Installation

ADMIN = "admin@example.com"
KEY = ["keys", "create", "--owner", ADMIN, "--name", "Lost", "--type"]
USER = ["users", "create", "--email", "a@example.com", "--name", "Ada", "--role", "viewer"]
RESET = "portico users reset-password a@example.com"
WEBHOOK = ["webhooks", "create", "--url", "https://a.example.com/", "--types", "product.created"]
CLIENT = [
    *("clients", "create", "--name", "Lost", "--redirect-uri", "https://a.example.com/"),
    *("--scope", "read:products"),
]


def said_on_a_full_disk(installation: Installation, words: list[str]) -> str:
    """The one line of a command whose standard output takes nothing."""
    with Path("/dev/full").open("wb") as full, tempfile.TemporaryFile() as errors:
        place, variables = installation.directory, installation.environment
        code = forking.Forked(words, place, variables, full, errors).wait(TIMEOUT_SECONDS)
        errors.seek(0)
        said = errors.read().decode()
    assert code == 1
    assert said.count("\n") == 1
    assert "sk_" not in said
    lost = "portico: the secret could not be written: No space left on device. "
    assert said.startswith(lost)
    return said.removeprefix(lost).rstrip("\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            [*KEY, "live"],
            "Key 2 was created: revoke it with portico keys revoke 2, and create another.",
        ),
        (
            [*USER, "--json"],
            f"User 2 was created: {RESET} prints a link to set a password.",
        ),
        (
            [*USER, "--sandbox"],
            f"User 2 was created: {RESET} --sandbox prints a link to set a password.",
        ),
        (
            ["users", "invite", "a@example.com", "--role", "viewer"],
            "Invite a@example.com again: a new link replaces it.",
        ),
        (
            ["users", "reset-password", ADMIN],
            "Run it again: a new link replaces it.",
        ),
        (
            WEBHOOK,
            "Webhook 1 has the new secret: portico webhooks rotate-secret 1 prints another.",
        ),
    ],
)
def test_a_command_says_what_is_there_and_how_to_have_another_secret(
    installation: Installation, words: list[str], told: str
) -> None:
    assert said_on_a_full_disk(installation, words) == told


def test_the_client_of_a_lost_secret_gets_another(installation: Installation) -> None:
    told = said_on_a_full_disk(installation, CLIENT)

    (client,) = installation.told("clients", "list")
    renew = f"clients renew-secret {client['client_id']}"
    assert told == f"The client was registered: portico {renew} prints another."
    again = said_on_a_full_disk(installation, renew.split())
    assert again == "The old secret no longer works: renew it again."
    assert installation.told(*renew.split())["client_secret"]
