"""`portico events list`."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from beside import Running, prepared
from operating import Installation
from portico.engines import database
from portico.settings import load
from servers import PostgresServer

LAMP = {"name": "Lamp", "category": "light", "price": 1}


def last_id(installation: Installation, *more: str) -> int:
    events = installation.told("events", "list", "--limit", "100000", *more)
    return int(events[-1]["id"]) if events else 0


def with_product(running: Running, **values: Any) -> int:
    answer = running.service.ask(
        "/v1/products", method="POST", key=running.installation.key, body=LAMP | values
    )
    assert answer.status == 201
    return int(answer.json["data"]["id"])


def test_events_are_those_of_the_api(on_each: Running) -> None:
    after = last_id(on_each.installation)
    product = with_product(on_each)

    told = on_each.installation.told("events", "list", "--after", str(after))

    assert [(one["type"], one["data"]["id"]) for one in told] == [("product.created", product)]
    assert told == on_each.get(f"/events?after={after}").json["data"]


def test_a_cursor_walks_through_them_all(on_each: Running) -> None:
    after = last_id(on_each.installation)
    products = [with_product(on_each) for _ in range(3)]
    seen = []
    while page := on_each.installation.told(
        "events", "list", "--after", str(after), "--limit", "2"
    ):
        seen += [one["data"]["id"] for one in page]
        after = page[-1]["id"]
    assert seen == products


def test_as_many_as_are_asked_for_are_listed_however_large_they_are(running: Running) -> None:
    after = str(last_id(running.installation))
    large = {f"{number}": "\u0001" * 1000 for number in range(50)}
    products = [with_product(running, metadata=large) for _ in range(6)]

    told = running.installation.told("events", "list", "--after", after, "--limit", "5")

    assert [one["data"]["id"] for one in told] == products[:5]


def test_only_some_types_may_be_listed(running: Running) -> None:
    after = str(last_id(running.installation))
    with_product(running)
    running.installation.told(
        "keys", "create", "--owner", "admin@example.com", "--type", "live", "--name", "Job"
    )

    told = running.installation.told("events", "list", "--after", after, "--type", "api_key.*")
    both = running.installation.told(
        "events", "list", "--after", after, "--type", "product.created", "--type", "api_key.*"
    )

    again = running.installation.told(
        "events", "list", "--after", after, "--type", "api_key.created", "--type", "api_key.*"
    )

    assert [one["type"] for one in told] == ["api_key.created"]
    assert again == told, "each event once, however often its type is named"
    assert [one["type"] for one in both] == ["product.created", "api_key.created"]


def test_the_sandbox_has_events_of_its_own(installation: Installation) -> None:
    before = last_id(installation)
    installation.told("sandbox", "reset")

    told = installation.told("events", "list", "--sandbox", "--type", "sandbox.reset")

    assert len(told) == 1
    assert last_id(installation) == before
    text = installation.run("events", "list", "--sandbox", "--type", "sandbox.reset").stdout
    assert f"users {told[0]['data']['users']}, products {told[0]['data']['products']}" in text


def test_people_read_what_each_is_about(running: Running) -> None:
    after = str(last_id(running.installation))
    product = with_product(running, name="Lamp\x9b31m")
    path = f"/v1/products/{product}"
    key = running.installation.key
    assert running.service.ask(path, method="PATCH", key=key, body={"price": 2}).status == 200

    done = running.installation.run("events", "list", "--after", after)

    heading, *lines = done.stdout.splitlines()
    assert heading.split() == ["ID", "AT", "TYPE", "OF"]
    assert [line.partition("product.")[2].split() for line in lines] == [
        ["created", str(product), "Lamp\\x9b31m"],
        ["updated", str(product), "Lamp\\x9b31m", "(price)"],
    ]
    assert done.stderr == ""
    first = running.installation.run("events", "list", "--after", after, "--limit", "1")
    assert first.stderr == f"There are more: --after {int(after) + 1}\n"


def test_where_nothing_has_happened_it_says_so(installation: Installation) -> None:
    words = ["events", "list", "--after", "1000"]
    assert installation.run(*words).stdout == "There are no events.\n"
    assert installation.told(*words) == []


@pytest.mark.parametrize(
    ("flag", "value", "says"),
    [
        ("--after", "-1", "must be the id of an event, or 0"),
        ("--after", "9" * 20, "must be the id of an event, or 0"),
        ("--type", "product.painted", "must be some of user.created"),
        ("--limit", "0", "must be a number from 1 to 1000000000"),
    ],
)
def test_wrong_words_are_misuse(
    installation: Installation, flag: str, value: str, says: str
) -> None:
    done = installation.run("events", "list", f"{flag}={value}")

    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


def test_what_a_command_tells_has_its_number_when_it_ends(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    installation = prepared(tmp_path, database_url=postgres.fresh_database())
    installation.told("sandbox", "reset")

    async def numbers() -> list[int | None]:
        settings = load({}, installation.environment, installation.directory)
        db = database(settings, "sandbox")
        await db.open()
        try:
            return [row[0] for row in await db.all("SELECT id FROM events ORDER BY seq")]
        finally:
            await db.close()

    found = asyncio.run(numbers())
    assert found == list(range(1, len(found) + 1))
    assert found
