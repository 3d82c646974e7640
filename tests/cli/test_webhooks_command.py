"""`portico webhooks`."""

import asyncio
from typing import Any

import pytest

from beside import Running
from operating import Installation, in_database, until
from portico.engines import database
from portico.features.events.storage import Deliveries, DeliveryAttempt
from portico.settings import load
from receiving import received

URL = "https://hooks.example.com/in"


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
            DeliveryAttempt(row.id, "failed", None, 500, "it answered 500", 31, text)
            for row, text in zip(reversed(page.rows), said, strict=False)
        ]
        async with db.transaction() as tx:
            await deliveries.done(tx, failed)
        await db.close()

    asyncio.run(store())


def test_a_new_webhook_shows_its_secret_once(running: Running) -> None:
    told = make(running.installation, "--description", "Cache")
    secret = told.pop("secret")
    assert secret.startswith("whsec_")
    assert (told["url"], told["types"]) == (URL, ["product.*", "user.created"])
    assert running.get(f"/webhooks/{told['id']}").json == {"data": told}
    assert running.installation.told("webhooks", "list")[-1] == told


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


def test_deliveries_are_shown_the_newest_first_with_what_was_answered(
    installation: Installation,
) -> None:
    number = str(make(installation)["id"])
    with_deliveries(installation, int(number), "down\x1b[31m", "away")
    told = installation.told("webhooks", "deliveries", number)
    assert [one["status"] for one in told] == ["pending", "failed", "failed"]
    facts = {"event_id": 1, "type": "user.created", "attempts": 1, "last_status": 500}
    assert (facts | {"last_error": "it answered 500", "answer": "down\x1b[31m"}).items() <= (
        told[2].items()
    )
    text = installation.run("webhooks", "deliveries", number).stdout
    assert "500 down\\x1b[31m" in text
    assert "\x1b" not in text
    again = installation.told("webhooks", "redeliver", number, str(told[2]["id"]))
    assert again == {"id": int(number), "delivery_id": told[2]["id"]}
    assert len(installation.told("webhooks", "deliveries", number)) == 4


def test_a_server_sends_what_a_command_asks_for(running: Running) -> None:
    installation = running.installation
    with received() as receiver:
        url = f"http://127.0.0.1:{receiver.port}/in"
        words = ("webhooks", "create", "--url", url, "--types", "api_key.created")
        number = str(installation.told(*words)["id"])
        installation.told("webhooks", "test", number)
        until(lambda: len(receiver.requests) == 1, "the ping")

        def delivered() -> list[dict[str, Any]]:
            rows = installation.told("webhooks", "deliveries", number)
            return rows if all(row["status"] == "delivered" for row in rows) else []

        (ping, *_) = until(delivered, "what became of it")
        installation.told("webhooks", "redeliver", number, str(ping["id"]))
        until(lambda: len(receiver.requests) == 2, "the ping once more")
        installation.told("webhooks", "delete", number)
    assert receiver.requests[0].body == receiver.requests[1].body


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


@pytest.mark.parametrize(
    "verb", ["delete", "test", "enable", "disable", "rotate-secret", "deliveries", "redeliver"]
)
def test_missing_webhook_is_told_in_one_line(installation: Installation, verb: str) -> None:
    words = ["71", "1"] if verb == "redeliver" else ["71"]
    assert installation.refused("webhooks", verb, *words) == (1, "There is no webhook 71.")


@pytest.mark.parametrize(
    ("flag", "value", "says"),
    [
        ("--url", "https://127.0.0.1/in", "--url must lead to a public address over https"),
        ("--types", "ping", "must be some of user.created"),
        ("--description", "x" * 201, "must be at most 200 characters"),
    ],
)
def test_faulty_webhook_is_refused_as_misuse(
    installation: Installation, flag: str, value: str, says: str
) -> None:
    given = {"--url": URL, "--types": "*", flag: value}
    words = [word for pair in given.items() for word in pair]
    done = installation.run("webhooks", "create", *words)
    assert done.returncode == 2
    assert says in done.stderr
    assert in_database(installation.data / "live.db", "SELECT count(*) FROM webhooks") == 0
