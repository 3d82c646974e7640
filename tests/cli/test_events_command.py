"""`portico events list`."""

import asyncio
from pathlib import Path

from beside import Running, prepared
from operating import Installation
from portico.engines import database
from portico.settings import load
from servers import PostgresServer


def last_id(installation: Installation, *more: str) -> int:
    events = installation.told("events", "list", "--limit", "100000", *more)
    return int(events[-1]["id"]) if events else 0


def test_events_are_those_of_the_api(on_each: Running) -> None:
    after = last_id(on_each.installation)
    product = on_each.service.make_product()

    told = on_each.installation.told("events", "list", "--after", str(after))

    assert [(one["type"], one["data"]["id"]) for one in told] == [("product.created", product)]
    assert told == on_each.get(f"/events?after={after}").json["data"]


def test_only_some_types_may_be_listed(running: Running) -> None:
    after = str(last_id(running.installation))
    running.service.make_product()
    running.installation.told(
        "keys", "create", "--owner", "admin@example.com", "--type", "live", "--name", "Job"
    )
    words = ["events", "list", "--after", after, "--type", "api_key.created", "--type"]
    for more, types in (
        ("api_key.*", ["api_key.created"]),
        ("product.created", ["product.created", "api_key.created"]),
    ):
        assert [one["type"] for one in running.installation.told(*words, more)] == types


def test_a_resource_without_a_name_is_listed_by_its_id(running: Running) -> None:
    email = "unnamed@example.com"
    made = running.installation.told("users", "create", "--email", email, "--name", "Grace Hopper")
    after = str(last_id(running.installation))
    running.installation.told("users", "set-plan", email, "pro")
    done = running.installation.run("events", "list", "--after", after)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"  account.updated  {made['id']} (plan)\n" in done.stdout


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
