"""`portico events listen`, beside a server and without, with a receiver of the test's own."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from beside import Running
from listening import listening
from operating import Installation, copy_of, free_port, until
from receiving import received


def a_key(installation: Installation, name: str) -> None:
    installation.told(
        "keys", "create", "--owner", "admin@example.com", "--type", "live", "--name", name
    )


def names(events: list[dict[str, Any]]) -> list[str]:
    return [event["data"]["name"] for event in events]


def test_what_happens_from_now_on_is_told_as_the_api_has_it(on_each: Running) -> None:
    on_each.service.make_product("Before")
    with listening(on_each.installation, "--json") as command:
        on_each.service.make_product("Desk")
        a_key(on_each.installation, "By a command")
        told = command.heard(2)
        assert command.interrupt() == 130

    assert names(told) == ["Desk", "By a command"]
    after = told[0]["id"] - 1
    assert told == on_each.get(f"/events?after={after}").json["data"]
    assert command.mentioned == f"Following the events of live after {after}.\n"


def test_a_restart_of_the_server_loses_no_event(
    first_installation: Installation, tmp_path: Path
) -> None:
    installation = copy_of(first_installation, tmp_path)
    with listening(installation, "--json") as command:
        for number, how in enumerate((signal.SIGTERM, signal.SIGKILL)):
            with installation.serving() as service:
                service.make_product(f"Served {number}")
                service.stop(how)
            a_key(installation, f"Between {number}")
        told = command.heard(4)
        assert command.interrupt() == 130
    assert names(told) == [f"{what} {n}" for n in range(2) for what in ("Served", "Between")]
    assert [event["id"] for event in told] == [told[0]["id"] + n for n in range(4)]


def test_forwarded_events_are_signed_with_the_secret_that_is_printed(running: Running) -> None:
    with (
        received() as receiver,
        listening(running.installation, "--forward-to", f"http://localhost:{receiver.port}/hook")
        as command,
    ):  # fmt: skip
        products = [running.service.make_product() for _ in range(3)]
        until(lambda: command.text.count("product.created") == 3, command.mentioned)
        secret = command.text.partition("secret   ")[2].partition("\n")[0]
        lines = command.text.splitlines()[-3:]
        assert command.interrupt() == 130

    told = [json.loads(one.body) for one in receiver.requests]
    assert [event["data"]["id"] for event in told] == products
    for event, request, line in zip(told, receiver.requests, lines, strict=True):
        assert request.line == "POST /hook HTTP/1.1"
        assert request.headers["webhook-id"] == f"evt_{event['id']}"
        assert request.headers["content-type"] == "application/json"
        assert request.headers["user-agent"].startswith("Portico/")
        assert Webhook(secret).verify(request.body.decode(), request.headers) == event
        moment = event["timestamp"][:19].replace("T", " ") + "Z"
        what = f"product.created    {event['data']['id']} Lamp  200 in "
        assert re.fullmatch(rf"{moment} +{event['id']}  {what}\d+ ms", line)
    assert "\x1b" not in command.text
    assert command.mentioned == ""


def test_what_a_receiver_answers_is_shown_printable_and_not_sent_again(running: Running) -> None:
    body = "oh\x1b[2J no\u009b31m\r\n".encode()
    answer = b"HTTP/1.1 500 \x1b[31m\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    with received(answer) as receiver:
        words = ["--forward-to", f"http://127.0.0.1:{receiver.port}/"]
        with listening(running.installation, *words) as command:
            running.service.make_product("Lamp\x9b31m")
            until(lambda: "500 in" in command.text, command.text)
            running.service.make_product("Next")
            until(lambda: command.text.count("500 in") == 2, command.text)

    assert "Lamp\\x9b31m" in command.text
    assert ": oh\\x1b[2J no\\x9b31m\n" in command.text
    assert "\x1b" not in command.text
    assert "\x9b" not in command.text
    assert len(receiver.requests) == 2


def test_what_a_receiver_missed_while_it_was_down_comes_in_order(running: Running) -> None:
    port = free_port()
    words = ["--json", "--forward-to", f"http://127.0.0.1:{port}/"]
    with listening(running.installation, *words) as command:
        for number in range(3):
            running.service.make_product(f"Lamp {number}")
        until(lambda: "is not forwarded yet" in command.mentioned, command.mentioned)
        assert command.objects == []
        with received(port=port) as receiver:
            told = command.heard(3)

    assert names(told) == ["Lamp 0", "Lamp 1", "Lamp 2"]
    assert [event["forwarded"]["status"] for event in told] == [200, 200, 200]
    ids = [request.headers["webhook-id"] for request in receiver.requests]
    assert ids == [f"evt_{event['id']}" for event in told]
    assert "Connection refused" in command.mentioned


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--forward-to", "localhost:3000"], "must be an absolute http or https URL"),
        (["--forward-to", "http://me:secret@localhost/"], "without credentials"),
        (["--forward-to", "http://localhost:0/"], "must have a port from 1 to 65535"),
        (["--type", "ping"], "must be some of user.created"),
        (["--after", "x"], "must be the id of an event, or 0"),
    ],
)
def test_wrong_words_are_misuse(installation: Installation, words: list[str], says: str) -> None:
    done = installation.run("events", "listen", *words)

    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
