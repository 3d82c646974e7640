"""`portico events` on a machine without a data directory: over the API."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beside import Running
from listening import listening
from operating import Installation, copy_of, until, with_input
from receiving import received


@pytest.fixture(scope="module")
def running(
    first_installation: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    installation = copy_of(first_installation, tmp_path_factory.mktemp("far"))
    with installation.serving() as service:
        yield Running(installation, service)


def names(events: list[dict[str, Any]]) -> list[str]:
    return [event["data"]["name"] for event in events]


def test_events_are_listed_as_the_server_itself_lists_them(
    running: Running, laptop: Installation
) -> None:
    for number in range(3):
        running.service.make_product(f"Listed {number}")
    words = ("events", "list", "--type", "product.*,user.created")
    assert laptop.told(*words, "--limit", "1000") == running.installation.told(
        *words, "--limit", "1000"
    )
    done = laptop.run(*words, "--limit", "2")
    assert (done.returncode, done.stdout.count("\n")) == (0, 3)
    assert "There are more: --after " in done.stderr


def test_events_are_followed_and_forwarded_from_afar(
    running: Running, laptop: Installation
) -> None:
    last = str(running.installation.told("events", "list", "--limit", "1000")[-1]["id"])
    with received() as receiver:
        url = f"http://localhost:{receiver.port}/in"
        words = ("--json", "--after", last, "--type", "product.created", "--forward-to", url)
        with listening(laptop, *words) as command:
            running.service.make_product("Followed 1")
            command.heard(1)
            running.service.make_product("Followed 2")
            told = command.heard(2)
            assert command.interrupt() == 130
    assert names(told) == ["Followed 1", "Followed 2"]
    assert [one["forwarded"]["status"] for one in told] == [200, 200]
    until(lambda: len(receiver.requests) == 2, "both")
    assert receiver.requests[0].headers["webhook-id"] == f"evt_{told[0]['id']}"


@pytest.mark.parametrize(
    ("words", "variables", "code", "says"),
    [
        ((), {"api_key": "sk_live_x"}, 1, "AUTHENTICATION_REQUIRED"),
        (("--type", "nothing.*"), {}, 1, "VALIDATION_ERROR"),
        (("--sandbox",), {}, 2, "name the sandbox's address"),
        (("--base-url", "http://localhost/v1"), {}, 2, "is not an https:// address"),
        (("--base-url", "https://localhost:1/v1"), {}, 1, "cannot be reached"),
        ((), {"ca": "/nowhere"}, 2, "PORTICO_CA"),
    ],
)
def test_what_is_refused_is_told_in_one_line(
    laptop: Installation, words: tuple[str, ...], variables: dict[str, str], code: int, says: str
) -> None:
    found, said = laptop.having(**variables).refused("events", "list", *words)
    assert (found, says in said) == (code, True), said


def test_address_and_key_come_by_options_too(running: Running, tmp_path: Path) -> None:
    ca, key = str(running.installation.data / "tls/ca.pem"), running.installation.key
    words = ("--base-url", f"https://localhost:{running.installation.port}/v1", "--api-key-stdin")
    nowhere = Installation(tmp_path).having(ca=ca)
    code, said, _ = with_input(nowhere, f"{key}\n".encode(), "events", "list", "--json", *words)
    assert (code, json.loads(said)) == (0, running.installation.told("events", "list"))


def test_a_data_directory_goes_before_the_variables(running: Running) -> None:
    here = running.installation.having(api_key="sk_live_x", ca="/nowhere")
    assert here.told("events", "list", "--limit", "1")
