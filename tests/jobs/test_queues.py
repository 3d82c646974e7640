"""What holds for every queue: one claim at a time, of no more than there is room for, and what is
not done is due again."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from driving import Api, at_rest, settings_for
from portico.core.audit import OPERATOR, Actor, Author
from portico.core.events import Published, Webhook
from portico.core.times import SECOND
from portico.data.queue import Queue
from portico.features.events import deliveries
from portico.features.events.deliveries import Deliver
from portico.features.events.payloads import delivered
from portico.features.events.storage import Deliveries, Events, Webhooks
from portico.features.events.webhooks import create_webhook
from portico.features.mail import sending
from portico.features.mail.sending import SendMails
from portico.features.mail.storage import Mails
from portico.features.people.recovery import ask_verification
from portico.features.people.storage import Users
from portico.resource.uploads import SILENT, ProcessUploads, Upload, Uploads

Channel = dict[str, object]


@pytest.fixture
async def api(environ: dict[str, str], tmp_path: Path) -> AsyncIterator[Api]:
    """The stores, without jobs of their own."""
    async with at_rest(settings_for(tmp_path, environ)) as api:
        yield api


async def counted(api: Api, table: str) -> None:
    """The database takes note of what the table has."""
    async with api.live.db.transaction() as tx:
        await tx.script(f"ANALYZE {table}")


async def add_mails(api: Api, count: int) -> Channel:
    async with api.live.db.transaction() as tx:
        for _ in range(count):
            await api.live[Mails].add(tx, b"sealed", api.clock())
    return {}


async def add_uploads(api: Api, count: int) -> Channel:
    """Files that are here, of which each is a channel: that of the last."""
    env, user = api.live, await api.account("editor")
    env.uploads_directory.mkdir(parents=True, exist_ok=True)
    for _ in range(count):
        token = env.random(16).hex()
        (env.uploads_directory / token).write_bytes(b"{}")
        sent: dict[str, Any] = {
            "updates": False,
            "size": 2,
            "state": "checking",
            "created_at": api.clock(),
        }
        file = Upload(0, token, "products", user.id, Actor(), "a.ndjson", **sent)
        async with env.db.transaction() as tx:
            upload = await env[Uploads].add(tx, file)
    return {"id": upload.id}


async def hooked(api: Api, path: str = "in") -> Webhook:
    values = {"url": f"https://example.com/{path}", "types": ("*",), "description": ""}
    return (await create_webhook(api.live, values, OPERATOR)).webhook


async def add_to(api: Api, webhook: Webhook, count: int) -> Channel:
    async with api.live.db.transaction() as tx:
        told = [(webhook.id, 1, "product.created")] * count
        await api.live[Deliveries].add(tx, api.clock(), told)
    return {"webhook_id": webhook.id, "dropped_up_to": 0}


async def add_deliveries(api: Api, count: int) -> Channel:
    webhooks = await api.live[Webhooks].all() or [await hooked(api)]
    return await add_to(api, webhooks[0], count)


async def sending_mails(api: Api) -> tuple[Any, Channel]:
    await ask_verification(api.live, await api.account(), Author(Actor(address="192.0.2.7")))
    return SendMails(api.live), {}


async def processing_uploads(api: Api) -> tuple[Any, Channel]:
    return ProcessUploads(api.live, api.live[Users].get), await add_uploads(api, 1)


async def delivering(api: Api) -> tuple[Any, Channel]:
    webhook = await hooked(api)
    async with api.live.db.transaction() as tx:
        told = Published("product.created", "{}")
        await api.live[Events].add(tx, api.clock(), told)
    sender: Any = api.live.outlet
    job = Deliver(api.live, sender, delivered, "Portico", lambda: 0)
    return job, {"webhook_id": webhook.id, "dropped_up_to": 0}


class Hanging:
    """Stands in for whatever a job sends to or checks with, and never ends."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def until(self, event: asyncio.Event) -> None:
        self.begun.set()
        await event.wait()

    async def send(self, *_: Any) -> Any:
        await self.until(asyncio.Event())

    async def check(self, *_: Any) -> AsyncIterator[Any]:
        yield await self.send()


class Claimable(NamedTuple):
    """A queue, how rows that are due are added to one channel, a job with something to do, how
    long a claim lasts, and how many of six rows two claims of four get. A claim ends `after` the
    time that is stored."""

    name: str
    store: type[Mails] | type[Uploads] | type[Deliveries]
    add: Callable[[Api, int], Awaitable[Channel]]
    begin: Callable[[Api], Awaitable[tuple[Any, Channel]]]
    seconds: int
    claims: list[int]
    after: int = 0

    def queue(self, api: Api) -> Queue[Any]:
        queue: Queue[Any] = api.live[self.store].queue
        return queue

    async def claim(self, api: Api, channel: Channel, room: int = 1) -> list[Any]:
        """Claims due rows as a process does."""
        now = api.clock() - self.after
        until = now + self.seconds * SECOND
        async with api.live.db.transaction() as tx:
            return await self.queue(api).claim(tx, [(channel, room)], now=now, until=until)


MAILS = Claimable("mails", Mails, add_mails, sending_mails, sending.CLAIM_SECONDS, [4, 2])
UPLOADS = Claimable(
    "uploads", Uploads, add_uploads, processing_uploads, SILENT // SECOND, [1, 0], after=SILENT
)
DELIVERIES = Claimable(
    "deliveries", Deliveries, add_deliveries, delivering, deliveries.CLAIM_SECONDS, [4, 2]
)
each_queue = pytest.mark.parametrize(
    "case", [MAILS, UPLOADS, DELIVERIES], ids=lambda case: case.name
)


@each_queue
async def test_no_more_is_claimed_than_there_is_room_for(api: Api, case: Claimable) -> None:
    # Where the statistics take a table for one of a single row, as after a quiet night, PostgreSQL
    # would look for what is claimed once for each row of the table.
    await case.add(api, 1)
    await counted(api, case.name)
    channel = await case.add(api, 5)
    claims = [await case.claim(api, channel, 4) for _ in range(2)]
    assert [len(claimed) for claimed in claims] == case.claims


@each_queue
async def test_a_claimed_row_is_due_again_when_the_claim_ends(api: Api, case: Claimable) -> None:
    channel = await case.add(api, 1)
    (row,) = await case.claim(api, channel)
    api.clock.advance(seconds=case.seconds, milliseconds=-1)
    assert await case.claim(api, channel) == []
    api.clock.advance(milliseconds=1)
    (again,) = await case.claim(api, channel)
    assert again.id == row.id


@each_queue
@pytest.mark.parametrize("stage", ["claiming", "working"])
async def test_what_is_claimed_at_a_stop_is_due_at_once(
    api: Api, monkeypatch: pytest.MonkeyPatch, case: Claimable, stage: str
) -> None:
    queue, hanging, go_on = case.queue(api), Hanging(), asyncio.Event()
    claim = queue.claim

    async def slowly(*args: Any, **values: Any) -> list[Any]:
        rows = await claim(*args, **values)
        await hanging.until(go_on)
        return rows

    api.live.outlet = hanging
    monkeypatch.setattr("portico.resource.uploads.check_in_batches", hanging.check)
    monkeypatch.setattr("portico.jobs.queue.CLOSE_SECONDS", 0.5)
    job, channel = await case.begin(api)
    with monkeypatch.context() as patch:
        if stage == "claiming":
            patch.setattr(queue, "claim", slowly)
        run = asyncio.create_task(job.run())
        async with asyncio.timeout(20):
            await hanging.begun.wait()
    if stage == "working":
        assert await case.claim(api, channel) == []
    run.cancel()
    go_on.set()
    await asyncio.gather(run, return_exceptions=True)
    if not isinstance(job, ProcessUploads):
        await job.close()
    assert len(await case.claim(api, channel)) == 1


async def test_each_lane_has_room_of_its_own(api: Api) -> None:
    one, other = await hooked(api, "one"), await hooked(api, "other")
    channels = [(await add_to(api, one, 6), 4), (await add_to(api, other, 5), 3)]
    now = api.clock()
    claims = []
    for _ in range(2):
        async with api.live.db.transaction() as tx:
            claimed = await api.live[Deliveries].queue.claim(
                tx, channels, now=now, until=now + 60_000
            )
        ids = [delivery.webhook_id for delivery in claimed]
        claims.append((ids.count(one.id), ids.count(other.id)))
    assert claims == [(4, 3), (2, 2)]
