"""Each webhook's deliveries by themselves: what fails, hangs or is given up holds up no other."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from driving import Api, Caller, at_rest, settings_for
from jobs.conftest import FAULT, LAMP, WANTS_NO_MORE, became, deliveries, hook
from operating import TIMEOUT_SECONDS, eventually
from portico.core.audit import OPERATOR
from portico.core.errors import Unavailable
from portico.core.events import BY_HAND, DROPPED, RECEIVER_GONE, Published, Webhook
from portico.data.queue import DELIVERIES as RETRIES
from portico.data.table import BATCH
from portico.features.events.deliveries import AT_ONCE, ATTEMPT_SECONDS, CLAIM_SECONDS, Deliver
from portico.features.events.payloads import delivered
from portico.features.events.storage import Deliveries, DeliveryAttempt, Events, Webhooks
from portico.features.events.webhooks import create_webhook, disable_webhook
from portico.outbound.sender import DeliveryOutcome
from receiving import OK, Receiver, receiving


@pytest.fixture
async def quiet(environ: dict[str, str], tmp_path: Path) -> AsyncIterator[Api]:
    """The application without a server, whose jobs would send: tests do."""
    async with at_rest(settings_for(tmp_path, environ)) as api:
        yield api


async def hooked(api: Api, url: str) -> Webhook:
    """A webhook that is told all."""
    values = {"url": url, "types": ("*",), "description": ""}
    return (await create_webhook(api.live, values, OPERATOR)).webhook


async def lamps(admin: Caller, count: int) -> None:
    for number in range(count):
        await admin.post("/products", json=LAMP | {"name": f"Lamp {number}"})


@pytest.mark.one_engine
async def test_nothing_that_waited_is_sent_once_a_webhook_is_disabled(api: Api) -> None:
    admin = await api.caller("admin")
    gone = asyncio.Event()

    async def answer(writer: asyncio.StreamWriter) -> None:
        if len(first.requests) > 1:
            await gone.wait()
            writer.write(WANTS_NO_MORE)
        else:
            writer.write(OK)

    first = Receiver(answer)
    async with receiving(first), receiving(Receiver(FAULT)) as other:
        made = await hook(admin, first, "product.created")
        await lamps(admin, 60)
        await first.got(17)
        gone.set()
        await became(admin, made, "disabled")
        await hook(admin, other, "product.created")
        await lamps(admin, 8)
        await other.got(2)  # so the job has seen that it is disabled
        sent = len(first.requests)
        await other.got(8)  # with a pause after each, long enough for one more to the first
        assert len(first.requests) == sent


@pytest.mark.one_engine
async def test_some_that_hang_hold_up_none_behind_them(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.features.events.deliveries.QUICK_MILLISECONDS", 0)
    monkeypatch.setattr("portico.jobs.queue.POLL_SECONDS", 3600.0)
    monkeypatch.setattr(api.portico.sender, "_seconds", 3600.0)  # so the one that hangs goes on
    admin = await api.caller("admin")
    never, all_but_one = asyncio.Event(), asyncio.Event()

    async def answer(writer: asyncio.StreamWriter) -> None:
        await (never if len(receiver.requests) == 1 else all_but_one).wait()
        writer.write(OK)

    receiver = Receiver(answer)
    async with receiving(receiver):
        made = await hook(admin, receiver, "product.created")
        async with api.live.db.transaction() as tx:
            events = [(made["id"], 1, "product.created")] * 40
            await api.live[Deliveries].add(tx, api.clock(), events)
        await admin.post("/products", json=LAMP)
        await receiver.got(AT_ONCE)
        for _ in range(20):
            await admin.get("/webhooks")  # so the job has seen that there is no place
        all_but_one.set()
        await receiver.got(41)


@pytest.mark.one_engine
async def test_a_secret_that_cannot_be_read_loses_no_delivery(api: Api) -> None:
    admin = await api.caller("admin")
    async with receiving(Receiver()) as receiver:
        made = await hook(admin, receiver, "product.created")
        async with api.live.db.transaction() as tx:
            sealed = {"sealed": b"another installation's"}
            await tx.run("UPDATE webhooks SET secret = :sealed", sealed)
        await admin.post("/products", json=LAMP)
        why = "This server cannot decrypt the webhook's secret."
        (delivery,) = await deliveries(admin, made, why)
        assert delivery["status"] == "pending"
        await admin.post(f"/webhooks/{made['id']}/rotate-secret")
        api.clock.advance(days=1)
        api.live.db.signal.notify()
        await receiver.got(1)


@pytest.mark.one_engine
async def test_410_of_an_address_that_was_left_disables_nothing_and_loses_nothing(
    api: Api,
) -> None:
    admin = await api.caller("admin")
    moved = asyncio.Event()

    async def answer(writer: asyncio.StreamWriter) -> None:
        await moved.wait()
        writer.write(WANTS_NO_MORE)

    async with receiving(Receiver(answer)) as old, receiving(Receiver()) as new:
        made = await hook(admin, old, "product.created")
        await admin.post("/products", json=LAMP)
        await old.got(1)
        url = f"http://127.0.0.1:{new.port}/in"
        path = f"/webhooks/{made['id']}"
        await admin.patch(path, json={"url": url})
        moved.set()
        (waiting,) = await deliveries(admin, made, "it answered 410")
        assert (waiting["status"], waiting["attempts"]) == ("pending", 1)
        assert (await admin.get(path)).json()["data"]["status"] == "enabled"
        await admin.post("/products", json=LAMP)
        await new.got(1)
        await deliveries(admin, made, "delivered")
        api.clock.advance(seconds=RETRIES.waits[0] * 2)
        api.live.db.signal.notify()
        _, late = await new.got(2)
        assert late.headers["webhook-id"] == old.requests[0].headers["webhook-id"]
        assert (await admin.get(path)).json()["data"]["status"] == "enabled"


@pytest.mark.one_engine
async def test_410_disables_the_webhook_in_the_transaction_that_notes_it(
    quiet: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.features.events.deliveries.DATABASE_RETRY_SECONDS", 0.01)
    env, begin = quiet.live, quiet.live.db.transaction
    gone, refused, is_back = asyncio.Event(), asyncio.Event(), asyncio.Event()
    stored = 0

    @asynccontextmanager
    async def transaction() -> AsyncIterator[Any]:
        nonlocal stored
        if gone.is_set() and not is_back.is_set():
            if stored:
                refused.set()
                raise Unavailable("The database went away after one transaction more.")
            stored += 1
        async with begin() as tx:
            yield tx

    async def answer(writer: asyncio.StreamWriter) -> None:
        gone.set()
        writer.write(WANTS_NO_MORE)

    monkeypatch.setattr(env.db, "transaction", transaction)
    async with receiving(Receiver(answer)) as receiver:
        made = await hooked(quiet, f"http://127.0.0.1:{receiver.port}/in")
        async with begin() as tx:
            await env[Events].add(tx, quiet.clock(), Published("product.created", "{}"))
        deliver = Deliver(env, quiet.portico.sender, delivered, "Portico", lambda: 0)
        await deliver.run()
        async with asyncio.timeout(20):
            await refused.wait()
        (delivery,) = (await env[Deliveries].page(made.id, offset=0, limit=9)).rows
        found = await env[Webhooks].get(made.id)
        is_back.set()
        await deliver.close()
    assert (delivery.status, delivery.last_status, delivery.attempts) == ("failed", 410, 1)
    assert found is not None
    assert found.disabled_reason == RECEIVER_GONE


class Slow:
    """A sender that is done with the first delivery at once, and with all others once told."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.told = asyncio.Event()

    async def send(self, _url: str, headers: Mapping[str, str], _body: bytes) -> DeliveryOutcome:
        self.sent.append(headers["webhook-id"])
        if len(self.sent) > 1:
            await self.told.wait()
        return DeliveryOutcome(200, None, "", 0, None)


@pytest.mark.one_engine
async def test_what_waited_for_a_place_too_long_comes_again_when_its_claim_ends(quiet: Api) -> None:
    env, slow = quiet.live, Slow()
    made = await hooked(quiet, "https://hooks.example.com/in")
    deliver = Deliver(env, slow, delivered, "Portico", lambda: 0, at_once=1)

    async def happen(count: int) -> None:
        async with env.db.transaction() as tx:
            for _ in range(count):
                await env[Events].add(tx, quiet.clock(), Published("product.created", "{}"))
        env.db.signal.notify()
        await deliver.run()

    async def delivers(count: int) -> None:
        async def are_there() -> bool:
            found = await env[Deliveries].latest(made.id, None, 9)
            return [one.status for one in found].count("delivered") == count

        await eventually(are_there, "the deliveries")

    await happen(1)
    await delivers(1)
    await happen(2)
    assert len(slow.sent) == 2
    quiet.clock.advance(seconds=CLAIM_SECONDS - ATTEMPT_SECONDS + 1)
    slow.told.set()
    await delivers(2)
    assert len(slow.sent) == 2
    quiet.clock.advance(seconds=CLAIM_SECONDS)
    await happen(0)
    await delivers(3)
    assert len(set(slow.sent)) == len(slow.sent) == 3
    await deliver.close()


async def test_giving_up_very_many_holds_up_no_other(api: Api) -> None:
    admin = await api.caller("admin")
    many = 40 * BATCH
    async with receiving(Receiver(FAULT)) as dead, receiving(Receiver()) as receiver:
        made = await hook(admin, dead, "user.created")
        await hook(admin, receiver, "product.created")
        await admin.post("/products", json=LAMP)
        await receiver.got(1)  # so what sends is loaded
        async with api.live.db.transaction() as tx:
            due = [(made["id"], 1, "user.created")] * many
            await api.live[Deliveries].add(tx, api.clock() + 3_600_000, due)
        await admin.patch(f"/webhooks/{made['id']}", json={"status": "disabled"})
        await admin.post("/products", json=LAMP)
        await receiver.got(2)
        left = "SELECT count(*) FROM deliveries WHERE status = 'pending' AND webhook_id = :id"
        row = await api.live.db.one(left, {"id": made["id"]})
        assert row is not None
        assert row[0] > 0

        async def none_is_left() -> bool:
            return await api.live.db.one(left, {"id": made["id"]}) == (0,)

        await eventually(none_is_left, "the end of the last one")
        page = await api.live[Deliveries].page(made["id"], offset=many - 1, limit=1)
        assert page.total == many
        assert (page.rows[0].status, page.rows[0].last_error) == ("failed", DROPPED)


@pytest.mark.one_engine
async def test_a_stop_waits_for_what_is_under_way_which_is_not_sent_twice(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("jobs.queue", "features.events.deliveries"):
        monkeypatch.setattr(f"portico.{module}.CLOSE_SECONDS", TIMEOUT_SECONDS)
    admin = await api.caller("admin")
    answered = asyncio.Event()

    async def late(writer: asyncio.StreamWriter) -> None:
        await answered.wait()
        writer.write(OK)

    async with receiving(Receiver(late)) as receiver:
        made = await hook(admin, receiver, "product.created")
        await admin.post("/products", json=LAMP)
        await receiver.got(1)
        asyncio.get_running_loop().call_later(0.5, answered.set)
        await api.stop()
        await api.start()
        admin = await api.caller("admin")
        (delivery,) = await deliveries(admin, made)
        assert delivery["status"] == "delivered"
        assert len(receiver.requests) == 1


async def test_no_attempt_that_was_under_way_brings_back_what_was_given_up(quiet: Api) -> None:
    env = quiet.live
    webhook = await hooked(quiet, "https://hooks.example.com/in")
    async with env.db.transaction() as tx:
        await env[Deliveries].add(tx, quiet.clock(), [(webhook.id, 1, "product.created")])
        last = await env[Deliveries].last_of(tx, webhook.id)
    assert await disable_webhook(env, webhook, BY_HAND, OPERATOR)
    disabled = await env[Webhooks].get(webhook.id)
    assert disabled is not None
    async with env.db.transaction() as tx:
        await env[Deliveries].drop(tx, disabled)
    given_up = await env[Deliveries].get(webhook.id, last)
    assert given_up is not None
    assert (given_up.status, given_up.last_error) == ("failed", DROPPED)

    soon = quiet.clock() + 5_000
    attempt = DeliveryAttempt(last, "pending", soon, 503, "it answered 503", 1, "")
    async with env.db.transaction() as tx:
        await env[Deliveries].done(tx, [attempt])
        await env[Deliveries].queue.move(tx, [last], quiet.clock())
    assert await env[Deliveries].get(webhook.id, last) == given_up
