"""`portico webhooks`."""

import asyncio
import json
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from beside import Running, prepared
from operating import PATIENCE_SECONDS, Installation, until
from portico.core.webhooks import MOST_WEBHOOKS
from portico.engines import database
from portico.features.events.storage import Attempt, Deliveries
from portico.settings import load
from receiving import received
from servers import PostgresServer

URL = "https://hooks.example.com/in"
FACTS = {
    "url": URL,
    "types": ["product.*", "user.created"],
    "description": "",
    "status": "enabled",
    "disabled_reason": None,
}


def make(installation: Installation, *more: str) -> dict[str, Any]:
    told: dict[str, Any] = installation.told(
        "webhooks", "create", "--url", URL, "--types", "product.*", "user.created", *more
    )
    return told


def audited(running: Running, webhook_id: int) -> list[str]:
    """The actions that the audit log has of a webhook, by whom, the oldest first."""
    entries = running.installation.told("audit", "--limit", "100")
    return [
        f"{entry['credential']} {entry['action']}"
        for entry in reversed(entries)
        if (entry["target"], entry["target_id"]) == ("webhook", str(webhook_id))
    ]


def with_deliveries(installation: Installation, webhook_id: int, *said: str) -> None:
    """Has a webhook's deliveries as they are after an attempt, which failed with each of these."""

    async def store() -> None:
        db = database(load({}, installation.environment, installation.directory), "live")
        await db.open()
        deliveries = Deliveries(db)
        async with db.transaction() as tx:
            await deliveries.add(tx, 1_000, [(webhook_id, 1, "user.created")] * (len(said) + 1))
        page = await deliveries.page(webhook_id, offset=0, limit=100)
        failed = [
            Attempt(row.id, "failed", None, 500, "it answered 500", 31, text)
            for row, text in zip(reversed(page.rows), said, strict=False)
        ]
        async with db.transaction() as tx:
            await deliveries.done(tx, failed)
        await db.close()

    asyncio.run(store())


def test_a_new_webhook_shows_its_secret_once(on_each: Running) -> None:
    told = make(on_each.installation, "--types", "product.*", "--description", "Cache")

    secret = told.pop("secret")
    assert secret.startswith("whsec_")
    assert told == {
        "id": told["id"],
        **FACTS,
        "description": "Cache",
        "created_at": told["created_at"],
        "updated_at": told["created_at"],
    }
    assert on_each.get(f"/webhooks/{told['id']}").json == {"data": told}
    assert on_each.installation.told("webhooks", "list")[-1] == told
    assert audited(on_each, told["id"]) == ["command webhook.created"]


def test_people_read_the_secret_and_where_it_leads(running: Running) -> None:
    done = running.installation.run("webhooks", "create", "--url", URL, "--types", "*")

    assert f"is created: {URL}" in done.stdout
    assert "\n\n  secret   whsec_" in done.stdout


def test_a_webhook_of_the_sandbox_is_unknown_to_live(running: Running) -> None:
    before = running.installation.told("webhooks", "list")

    told = make(running.installation, "--sandbox")

    assert running.get_sandbox(f"/webhooks/{told['id']}").status == 200
    assert running.installation.told("webhooks", "list") == before
    assert running.installation.told("webhooks", "delete", str(told["id"]), "--sandbox")


def test_a_test_of_a_webhook_names_the_command_that_shows_its_result(running: Running) -> None:
    number = str(make(running.installation, "--sandbox")["id"])

    done = running.installation.run("webhooks", "test", number, "--sandbox")

    assert done.stdout == (
        "A running server sends a ping now. See the result with: portico webhooks deliveries"
        f" {number} --sandbox\n"
    )
    assert running.installation.told("webhooks", "delete", number, "--sandbox")


def test_the_deliveries_of_a_webhook_may_be_asked_for_up_to_the_bound(on_each: Running) -> None:
    told = make(on_each.installation)
    words = ("webhooks", "deliveries", str(told["id"]), "--limit", "1000000000")
    assert on_each.installation.told(*words) == []


def test_all_that_is_done_to_a_webhook_holds_and_is_noted(on_each: Running) -> None:
    told = make(on_each.installation)
    number = str(told["id"])

    def do(verb: str) -> Any:
        return on_each.installation.told("webhooks", verb, number)

    disabled = do("disable")
    assert (disabled["status"], disabled["disabled_reason"]) == ("disabled", "by hand")
    code, line = on_each.installation.refused("webhooks", "test", number)
    assert (code, line) == (1, "This webhook is disabled; enable it first.")
    assert do("enable")["status"] == "enabled"
    assert on_each.get(f"/webhooks/{number}").json["data"]["status"] == "enabled"
    assert do("test") == {"id": told["id"]}
    rotated = do("rotate-secret")
    assert rotated["secret"].startswith("whsec_")
    assert rotated["secret"] != told["secret"]
    assert do("delete") == {"id": told["id"]}
    assert on_each.get(f"/webhooks/{number}").status == 404
    assert audited(on_each, told["id"]) == [
        "command webhook.created",
        "command webhook.disabled",
        "command webhook.enabled",
        "command webhook.tested",
        "command webhook.secret_rotated",
        "command webhook.deleted",
    ]


@pytest.mark.parametrize(
    "words",
    [
        ["delete", "71"],
        ["test", "71"],
        ["enable", "71"],
        ["disable", "71"],
        ["rotate-secret", "71"],
        ["deliveries", "71"],
        ["redeliver", "71", "1"],
    ],
    ids=" ".join,
)
def test_what_is_not_there_is_told_in_one_line(
    installation: Installation, words: list[str]
) -> None:
    assert installation.refused("webhooks", *words) == (1, "There is no webhook 71.")


@pytest.mark.parametrize(
    ("flag", "value", "says"),
    [
        ("--url", "ftp://example.com", "must be an absolute http or https URL"),
        ("--url", "https://me:secret@example.com", "must be an absolute http or https URL"),
        ("--url", "http://example.com/in", "--url must be an https URL"),
        ("--url", "https://127.0.0.1/in", "--url must lead to a public address over https"),
        ("--types", "product.painted", "must be some of user.created"),
        ("--types", "ping", "must be some of user.created"),
        ("--description", "x" * 201, "must be at most 200 characters"),
    ],
)
def test_what_cannot_be_a_webhook_is_refused_as_misuse(
    installation: Installation, flag: str, value: str, says: str
) -> None:
    given = {"--url": URL, "--types": "*", flag: value}
    words = [word for pair in given.items() for word in pair]

    done = installation.run("webhooks", "create", *words)

    assert done.returncode == 2
    assert says in done.stderr
    assert installation.told("webhooks", "list") == []


def test_an_exception_of_the_settings_lets_a_webhook_lead_inside(
    installation: Installation,
) -> None:
    inside = installation.having(webhooks_allow="127.0.0.0/8")
    told = inside.told("webhooks", "create", "--url", "http://127.0.0.1:9/in", "--types", "*")
    assert told["url"] == "http://127.0.0.1:9/in"


def test_one_too_many_is_refused(installation: Installation) -> None:
    words = ("webhooks", "create", "--url", URL, "--types", "*")
    for _ in range(MOST_WEBHOOKS):
        installation.told(*words)

    code, line = installation.refused(*words)

    assert (code, line) == (1, f"There are already {MOST_WEBHOOKS} webhooks; delete one first.")


def test_deliveries_are_shown_the_newest_first_with_what_was_answered(
    installation: Installation,
) -> None:
    number = str(make(installation)["id"])
    assert installation.told("webhooks", "deliveries", number) == []
    with_deliveries(installation, int(number), "down\x1b[31m", "away")

    told = installation.told("webhooks", "deliveries", number)

    assert [one["status"] for one in told] == ["pending", "failed", "failed"]
    assert told[2] == {
        "id": told[2]["id"],
        "event_id": 1,
        "type": "user.created",
        "status": "failed",
        "attempts": 1,
        "next_attempt_at": None,
        "last_status": 500,
        "last_error": "it answered 500",
        "last_milliseconds": 31,
        "created_at": "1970-01-01T00:00:01.000Z",
        "answer": "down\x1b[31m",
    }
    assert installation.told("webhooks", "deliveries", number, "--limit", "1") == told[:1]
    text = installation.run("webhooks", "deliveries", number).stdout
    assert "500 away" in text
    assert "500 down\\x1b[31m" in text
    assert "\x1b" not in text

    again = installation.told("webhooks", "redeliver", number, str(told[2]["id"]))

    assert again == {"id": int(number), "delivery_id": told[2]["id"]}
    assert len(installation.told("webhooks", "deliveries", number)) == 4


def test_a_server_sends_what_a_command_asks_for(on_each: Running) -> None:
    installation = on_each.installation
    with received() as receiver:
        url = f"http://127.0.0.1:{receiver.port}/in"
        words = ("webhooks", "create", "--url", url, "--types", "api_key.created")
        number = str(installation.told(*words)["id"])
        installation.told("webhooks", "test", number)
        until(lambda: len(receiver.requests) == 1, "the ping")
        installation.told(
            "keys", "create", "--owner", "admin@example.com", "--type", "live", "--name", "Job"
        )
        until(lambda: len(receiver.requests) == 2, "the event")

        def shown() -> list[dict[str, Any]]:
            rows = installation.told("webhooks", "deliveries", number)
            return rows if all(row["status"] == "delivered" for row in rows) else []

        event, _ = until(lambda: len(shown()) == 2 and shown(), "what became of them")
        installation.told("webhooks", "redeliver", number, str(event["id"]))
        until(lambda: len(receiver.requests) == 3, "the event once more")
        again, *_ = until(lambda: len(shown()) == 3 and shown(), "what became of it")
        installation.told("webhooks", "delete", number)

    assert [json.loads(one.body)["type"] for one in receiver.requests] == [
        "ping",
        "api_key.created",
        "api_key.created",
    ]
    assert receiver.requests[1].body == receiver.requests[2].body
    assert again["event_id"] == event["event_id"]
    assert (again["attempts"], again["last_status"], again["answer"]) == (1, 200, "ok")


async def test_what_is_sent_again_wakes_every_server(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.fresh_database()
    installation = await asyncio.to_thread(lambda: prepared(tmp_path, database_url=url))
    number = (await asyncio.to_thread(make, installation))["id"]
    await asyncio.to_thread(with_deliveries, installation, number, "away")
    heard = asyncio.Event()

    def hear(_connection: object, _pid: int, _channel: str, of: object) -> None:
        if of == "webhooks":
            heard.set()

    connection = await asyncpg.connect(url)
    try:
        await connection.add_listener("portico_live", hear)
        await asyncio.to_thread(installation.told, "webhooks", "redeliver", str(number), "1")
        async with asyncio.timeout(PATIENCE_SECONDS):
            await heard.wait()
    finally:
        await connection.close()


def test_a_delivery_of_another_webhook_is_not_redelivered(installation: Installation) -> None:
    one, other = (str(make(installation)["id"]) for _ in range(2))
    with_deliveries(installation, int(one), "away")
    delivery = str(installation.told("webhooks", "deliveries", one)[0]["id"])

    code, line = installation.refused("webhooks", "redeliver", other, delivery)

    assert (code, line) == (1, f"There is no delivery {delivery} of webhook {other}.")
    assert installation.told("webhooks", "deliveries", other) == []


def test_nothing_is_sealed_by_another_secret_than_the_databases(installation: Installation) -> None:
    with installation.serving():
        pass  # which has made the first signing key
    file = installation.data / "secret.key"
    file.unlink()
    create = ("webhooks", "create", "--url", URL, "--types", "*")
    code, line = installation.refused(*create)
    assert (code, "another secret" in line) == (1, True)
    assert not file.exists()
    code, line = installation.having(secret_key="ab" * 32).refused(*create)
    assert (code, "another secret" in line) == (1, True)
    assert installation.told("webhooks", "list") == []
