"""Events become deliveries, and deliveries reach their receivers (decisions §12)."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks import Webhook as Verifier

from answering import answering
from driving import Api, InProcess
from jobs.conftest import (
    FAULT,
    LAMP,
    WANTS_NO_MORE,
    all_tried,
    became,
    deliveries,
    deliveries_after,
    hook,
)
from operating import eventually
from portico.core.errors import Unavailable
from portico.core.events import Published
from portico.data.queue import DELIVERIES as RETRIES
from portico.features.events.audit import Audit
from portico.features.events.deliveries import BUSY_REQUESTS
from portico.features.events.storage import Deliveries, Events
from portico.jobs.queue import DATABASE_RETRY_SECONDS
from receiving import OK, Answer, Received, Receiver, receiving

ELSEWHERE = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n"

LATER = b"HTTP/1.1 503 Later\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n"


def event_of(request: Received) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(request.body)
    return event


async def test_an_event_reaches_its_receiver_signed_and_as_it_is_listed(
    api: Api, receiver: Receiver
) -> None:
    admin = await api.caller("admin")
    made = await hook(admin, receiver, "product.*")
    await admin.post("/products", json=LAMP)
    (request,) = await receiver.got(1)
    listed = (await admin.get("/events", params={"type": "product.*"})).json()["data"]
    assert event_of(request) == listed[0]
    assert request.line == "POST /in HTTP/1.1"
    assert request.headers["webhook-id"] == f"evt_{listed[0]['id']}"
    # Its time is the test's, which the library holds against the real one: only the rest is tried.
    at = int(request.headers["webhook-timestamp"])
    assert at == api.clock() // 1000
    moment, body = datetime.fromtimestamp(at, UTC), request.body.decode()
    signature = Verifier(made["secret"]).sign(request.headers["webhook-id"], moment, body)
    assert request.headers["webhook-signature"] == signature
    (delivery,) = await deliveries(admin, made, "delivered")
    assert (delivery["attempts"], delivery["last_status"]) == (1, 200)
    assert (delivery["event_id"], delivery["next_attempt_at"]) == (listed[0]["id"], None)


async def test_other_types_count_for_what_happens_from_then_on(
    api: Api, receiver: Receiver
) -> None:
    admin = await api.caller("admin")
    made = await hook(admin, receiver)

    async def make(begin: int) -> None:
        bodies = [LAMP | {"name": str(number)} for number in range(begin, begin + 5)]
        await asyncio.gather(*(admin.post("/products", json=body) for body in bodies))

    wanted = {"the last"}
    for begin in range(0, 50, 10):
        await make(begin)
        wanted |= {str(number) for number in range(begin, begin + 5)}
        await admin.patch(f"/webhooks/{made['id']}", json={"types": ["user.created"]})
        await make(begin + 5)
        await admin.patch(f"/webhooks/{made['id']}", json={"types": ["product.created"]})
    await admin.post("/products", json=LAMP | {"name": "the last"})

    def names() -> set[str]:
        events = [event_of(request) for request in receiver.requests]
        return {one["data"]["name"] for one in events if one["type"] == "product.created"}

    await eventually(lambda: "the last" in names() and len(names()) >= len(wanted), "all of them")
    assert names() == wanted


@pytest.mark.parametrize("answer", [FAULT, ELSEWHERE], ids=["fault", "redirect"])
async def test_a_failed_delivery_comes_again_on_schedule_under_the_same_id(
    api: Api, answer: bytes
) -> None:
    admin = await api.caller("admin")
    async with receiving(Receiver(answer)) as receiver:
        made = await hook(admin, receiver)
        await admin.post("/products", json=LAMP)
        for attempt, wait in enumerate(RETRIES.waits, 1):
            requests = await receiver.got(attempt)
            (delivery,) = await deliveries_after(admin, made, attempt)
            assert delivery["status"] == "pending"
            due = await api.live[Deliveries].get(made["id"], delivery["id"])
            assert due is not None
            assert due.next_attempt_at is not None
            waited = (due.next_attempt_at - api.clock()) / 1000
            assert 0.8 * wait <= waited <= 1.2 * wait
            api.clock.advance(milliseconds=due.next_attempt_at - api.clock() - 1)
            api.live.db.signal.notify()
            assert len(requests) == attempt
            api.clock.advance(milliseconds=1)
            api.live.db.signal.notify()
        requests = await receiver.got(len(RETRIES.waits) + 1)
        assert len({request.headers["webhook-id"] for request in requests}) == 1
        assert len({request.body for request in requests}) == 1
        (delivery,) = await deliveries(admin, made, "failed")
        assert delivery["last_error"].startswith("it answered ")


@pytest.mark.one_engine
async def test_a_receiver_that_asks_for_a_longer_wait_gets_it(api: Api) -> None:
    admin = await api.caller("admin")
    async with receiving(Receiver(LATER)) as receiver:
        made = await hook(admin, receiver)
        await admin.post("/products", json=LAMP)
        (delivery,) = await deliveries_after(admin, made, 1)
    assert delivery["next_attempt_at"] == "2026-03-15T13:00:00.000Z"


@pytest.mark.one_engine
async def test_410_disables_the_webhook_and_tells_the_admins(api: Api) -> None:
    admin = await api.caller("admin")
    async with receiving(Receiver(WANTS_NO_MORE)) as receiver:
        made = await hook(admin, receiver)
        await admin.post("/products", json=LAMP)
        await receiver.got(1)
        disabled = await became(admin, made, "disabled")
    assert disabled["disabled_reason"] == "gone"
    entries = await api.live[Audit].page(limit=9)
    assert [e.credential for e in entries if e.action == "webhook.disabled"] == ["system"]
    log = api.settings.data / "log"
    await eventually(log.exists, "the mail")
    await api.mailed()
    letters = "".join(file.read_text() for file in log.iterdir())
    assert "Subject: A webhook was disabled" in letters
    assert f"To: {admin.user.email}" in letters


@pytest.mark.one_engine
async def test_five_days_without_a_success_disable_it(api: Api) -> None:
    admin = await api.caller("admin")
    async with receiving(Receiver(FAULT)) as receiver:
        made = await hook(admin, receiver)
        for day in range(5):
            await admin.post("/products", json=LAMP | {"name": f"Lamp {day}"})
            await all_tried(admin, made, day + 1)
            enabled = (await admin.get(f"/webhooks/{made['id']}")).json()["data"]
            assert enabled["status"] == "enabled"
            api.clock.advance(days=1)
        api.live.db.signal.notify()
        disabled = await became(admin, made, "disabled")
    assert disabled["disabled_reason"] == "failing"


async def test_disabling_drops_what_is_pending_and_enabling_starts_anew(api: Api) -> None:
    admin = await api.caller("admin")
    answers = [FAULT]

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(answers[0])
        await writer.drain()

    async with receiving(Receiver(answer)) as receiver:
        made = await hook(admin, receiver, "product.*")
        await admin.post("/products", json=LAMP | {"name": "Pending"})
        await deliveries_after(admin, made, 1)
        path = f"/webhooks/{made['id']}"
        await admin.patch(path, json={"status": "disabled"})
        (dropped,) = await deliveries(admin, made)
        assert (dropped["status"], dropped["next_attempt_at"]) == ("failed", None)
        await admin.post("/products", json=LAMP | {"name": "Meanwhile"})
        await admin.patch(path, json={"status": "enabled"})
        answers[0] = OK
        api.clock.advance(days=1)
        await admin.post("/products", json=LAMP | {"name": "Afterwards"})
        requests = await receiver.got(2)
        assert [event_of(one)["data"]["name"] for one in requests] == ["Pending", "Afterwards"]
        assert len(await deliveries(admin, made, "delivered")) == 2


@pytest.mark.one_engine
async def test_a_ping_goes_to_one_webhook_once_and_into_no_list(
    api: Api, receiver: Receiver
) -> None:
    admin = await api.caller("admin")
    async with receiving(Receiver(FAULT)) as other:
        made = await hook(admin, other, "user.created")
        await hook(admin, receiver)
        before = (await admin.get("/events")).json()
        await admin.post(f"/webhooks/{made['id']}/test")
        (request,) = await other.got(1)
        assert event_of(request)["type"] == "ping"
        assert event_of(request)["data"] == {"webhook_id": made["id"]}
        (delivery,) = await deliveries(admin, made, "failed")
        assert (delivery["type"], delivery["attempts"]) == ("ping", 1)
    assert (await admin.get("/events")).json() == before
    assert receiver.requests == []


@pytest.mark.one_engine
async def test_both_secrets_sign_for_a_day_after_a_rotation(api: Api, receiver: Receiver) -> None:
    admin = await api.caller("admin")
    made = await hook(admin, receiver)
    for _ in range(2):
        await admin.post(f"/webhooks/{made['id']}/rotate-secret")
    await admin.post("/products", json=LAMP | {"name": "Both"})
    await receiver.got(1)
    api.clock.advance(days=1)
    await admin.post("/products", json=LAMP | {"name": "One"})
    both, one = await receiver.got(2)
    assert len(both.headers["webhook-signature"].split()) == 2
    assert len(one.headers["webhook-signature"].split()) == 1


@pytest.mark.one_engine
async def test_a_receiver_that_hangs_delays_no_other(api: Api, receiver: Receiver) -> None:
    admin = await api.caller("admin")
    answered = asyncio.Event()

    async def never(_writer: asyncio.StreamWriter) -> None:
        await answered.wait()

    answer: Answer = never
    async with receiving(Receiver(answer)) as hanging:
        await hook(admin, hanging)
        for number in range(20):
            await admin.post("/products", json=LAMP | {"name": f"Lamp {number}"})
        await hook(admin, receiver)
        await admin.post("/products", json=LAMP)
        await receiver.got(1)
        assert not answered.is_set()


@pytest.mark.one_engine
async def test_deliveries_go_one_by_one_while_many_requests_are_under_way(
    api: Api, receiver: Receiver
) -> None:
    admin = await api.caller("admin")
    made = await hook(admin, receiver, "product.*")
    go_on = asyncio.Event()
    headers = [("authorization", f"Bearer {admin.key}"), ("content-type", "application/json")]
    slow = [
        asyncio.ensure_future(
            InProcess(api).exchange("POST", "/v1/products", headers, b"{", go_on.wait, b"}")
        )
        for _ in range(BUSY_REQUESTS)
    ]
    told = Published("product.created", "{}")
    async with api.live.db.transaction() as tx:
        for _ in range(10):
            await api.live[Events].add(tx, api.clock(), told)
    api.live.db.signal.notify()
    await receiver.got(10)
    assert receiver.most_open == 1
    go_on.set()
    await asyncio.gather(*slow)
    assert len(await deliveries(admin, made)) == 10


async def test_what_a_killed_process_had_claimed_another_sends(api: Api) -> None:
    admin = await api.caller("admin")
    hung = asyncio.Event()

    async def once(writer: asyncio.StreamWriter) -> None:
        if hung.is_set():
            writer.write(OK)
        else:
            hung.set()
            await asyncio.Event().wait()

    async with receiving(Receiver(once)) as receiver:
        made = await hook(admin, receiver, "product.created")
        await admin.post("/products", json=LAMP)
        await hung.wait()
        await api.crash()
        await api.start()
        admin = await api.caller("admin")
        api.clock.advance(seconds=30)
        api.live.db.signal.notify()
        first, second = await receiver.got(2)
        assert first.body == second.body
        await deliveries(admin, made, "delivered")


async def test_nothing_is_sent_while_what_came_of_others_cannot_be_stored(
    api: Api, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be claimed again, and sent again, when that ends."""
    tried = asyncio.Event()

    async def busy(*_: Any) -> None:
        tried.set()
        raise Unavailable("The database is busy.")

    admin = await api.caller("admin")
    made = await hook(admin, receiver, "product.created")
    with monkeypatch.context() as patch:
        patch.setattr(api.live[Deliveries], "done", busy)
        await admin.post("/products", json=LAMP)
        await receiver.got(1)
        await tried.wait()
        await admin.post("/products", json=LAMP)

        async def both_wait() -> bool:
            return len(await deliveries(admin, made)) == 2

        await eventually(both_wait, "the other's delivery")
        await asyncio.sleep(2 * DATABASE_RETRY_SECONDS)
        assert len(receiver.requests) == 1
    await receiver.got(2)
    await deliveries(admin, made, "delivered")


@pytest.mark.one_engine
async def test_deleting_stops_what_is_under_way(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.portico.sender, "_seconds", 3600.0)  # so no attempt ends by itself
    admin = await api.caller("admin")
    came, ended = asyncio.Event(), asyncio.Event()

    async def never(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        came.set()
        await reader.read()  # to its end
        ended.set()

    async with answering(never) as port:
        body = {"url": f"http://127.0.0.1:{port}/", "types": ["*"]}
        made = (await admin.post("/webhooks", json=body)).json()["data"]["id"]
        await admin.post("/products", json=LAMP)
        await eventually(came.is_set, "the delivery")
        await admin.delete(f"/webhooks/{made}")
        await eventually(ended.is_set, "its end")
