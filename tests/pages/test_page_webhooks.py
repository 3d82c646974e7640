"""Webhooks in the dashboard, on both databases: made, changed, tried, and what was delivered."""

import re
from html import unescape
from typing import Any

import pytest

from driving import NOON, Api
from operating import eventually
from pages.visiting import Visitor, rows, said, signed_in
from portico.core.events import Delivery, Published, Webhook
from portico.core.times import DAY
from portico.environment import Environment
from portico.features.events.audit import Audit
from portico.features.events.storage import Deliveries, DeliveryAttempt, Events, Webhooks
from receiving import Receiver, receiving

HOSTILE = "<script>alert(1)</script>"
FAULT = f"HTTP/1.1 500 Oops\r\nContent-Length: {len(HOSTILE)}\r\n\r\n{HOSTILE}".encode()
URL = "https://hooks.example.com/in"


@pytest.fixture
def environ(each_database: dict[str, str]) -> dict[str, str]:
    """On both databases; webhooks may lead to this machine."""
    return each_database | {"PORTICO_WEBHOOKS_ALLOW": "127.0.0.0/8"}


async def made(admin: Visitor, base: str = "", **values: Any) -> str:
    """A new webhook's page, by the form; told of nothing that tests do, unless `types` say else."""
    fields = {"url": URL, "types": ["sandbox.reset"], "description": ""} | values
    answer = await admin.made(f"{base}/webhooks/new", **fields)
    assert answer.status_code == 200, answer.text
    (path,) = re.findall(r'href="/dashboard(\S*/webhooks/\d+)">I have saved it', answer.text)
    return str(path)


async def stored(env: Environment, path: str) -> Webhook:
    webhook = await env[Webhooks].get(int(path.rpartition("/")[2]))
    assert webhook is not None
    return webhook


async def attempted(api: Api, path: str, **values: Any) -> int:
    """A delivery to a webhook after an attempt; returns its id."""
    webhook = await stored(api.live, path)
    outcome: dict[str, Any] = {
        "status": "delivered",
        "next_attempt_at": None,
        "last_status": 200,
        "last_error": None,
        "last_milliseconds": 31,
        "answer": "ok",
    }
    async with api.live.db.transaction() as tx:
        await api.live[Deliveries].add(tx, api.clock(), [(webhook.id, 7, "user.created")])
        delivery_id = await api.live[Deliveries].last_of(tx, webhook.id)
        await api.live[Deliveries].done(tx, [DeliveryAttempt(id=delivery_id, **(outcome | values))])
    return delivery_id


@pytest.mark.one_engine
async def test_webhook_secret_is_shown_once(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    answer = await admin.made(
        "/webhooks/new", url=URL, types=["product.*", "user.created"], description="The cache"
    )
    (secret,) = re.findall(r'<code id="secret">(whsec_\S+)</code>', answer.text)
    (row,) = rows(await admin.get("/webhooks"))
    assert row == f"{URL} The cache product.*, user.created Enabled None recently"
    for path in ("/webhooks", "/webhooks/1", "/webhooks/1/edit", "/audit"):
        assert secret not in (await admin.get(path)).text
    webhook = await stored(api.live, "/webhooks/1")
    assert (webhook.url, webhook.types) == (URL, ("product.*", "user.created"))
    (entry,) = await api.live[Audit].page(limit=1)
    assert (entry.action, entry.credential) == ("webhook.created", "session")


async def test_deliveries_are_listed_from_the_newest_to_the_oldest(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    path, other = await made(admin), await made(admin)
    for took in (1, *[31] * 24, 1_204):
        await attempted(api, path, last_milliseconds=took)
    await attempted(api, other)
    first = await admin.get(path)
    assert len(rows(first)) == 25
    assert "in 1,204 ms" in rows(first)[0]
    (older,) = re.findall(r'rel="next" href="/dashboard(.*?)"', first.text)
    second = await admin.get(unescape(older))
    (oldest,) = rows(second)
    assert oldest.startswith("user.created Delivered 1 attempt It answered 200 in 1 ms")
    assert re.findall(r'rel="prev" href="/dashboard(.*?)"', second.text) == [path]


@pytest.mark.one_engine
async def test_delivery_answer_is_escaped(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    path = await made(admin, description=HOSTILE)
    await attempted(api, path, status="failed", last_status=None, answer=None, last_error=HOSTILE)
    await attempted(api, path, answer=f"</code></pre>{HOSTILE}")
    page = await admin.get(path)
    assert HOSTILE not in page.text + (await admin.get("/webhooks")).text
    [path] = re.findall(r'href="/dashboard(/webhooks/delivery\?[^"]*)"', page.text)[:1]
    shown = await admin.get(unescape(path))
    assert HOSTILE not in shown.text
    assert f"</code></pre>{HOSTILE}" in unescape(shown.text)


async def settled(api: Api, path: str, number: int) -> list[Delivery]:
    """A webhook's deliveries, once there are so many and each was tried."""
    webhook = await stored(api.live, path)

    async def tried() -> list[Delivery]:
        found = await api.live[Deliveries].latest(webhook.id, None, 9)
        return found if len(found) == number and all(one.attempts for one in found) else []

    found: list[Delivery] = await eventually(tried, "the last attempt")
    return found


@pytest.mark.one_engine
async def test_webhook_test_is_sent_and_can_be_redelivered(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    async with receiving(Receiver(FAULT)) as receiver:
        path = await made(admin, url=f"http://127.0.0.1:{receiver.port}/in")
        answer = await admin.post(path)
        assert answer.headers["location"] == f"/dashboard{path}?done=webhook-tested"
        (ping,) = await settled(api, path, 1)
        page = await admin.get(path)
        (row,) = rows(page)
        assert row.startswith("ping Failed 1 attempt It answered 500 in")
        shown = await admin.get(f"/webhooks/delivery?webhook={ping.webhook_id}&id={ping.id}")
        assert HOSTILE in unescape(shown.text)
        assert HOSTILE not in shown.text
        answer = await admin.post(path, delivery=ping.id)
        assert answer.headers["location"] == f"/dashboard{path}?done=webhook-resent"
        again, _ = await settled(api, path, 2)
        assert (again.event_id, again.type) == (ping.event_id, "ping")
        first, second = receiver.requests
        assert first.body == second.body
    actions = [entry.action for entry in await api.live[Audit].page(limit=2)]
    assert actions == ["webhook.redelivered", "webhook.tested"]


@pytest.mark.one_engine
async def test_impossible_redelivery_is_refused_on_its_page(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    path, other = await made(admin), await made(admin)
    forgotten, theirs = await attempted(api, path), await attempted(api, other)
    async with api.unchanged():
        answer = await admin.post(path, delivery=forgotten)
        assert answer.status_code == 410
        assert said(answer) == "The event 7 is no longer kept."
        assert len(rows(answer)) == 1
        for delivery in (theirs, 999, "x", "0", "-1", "9" * 30):
            assert (await admin.post(path, delivery=delivery)).status_code == 404, delivery
    async with api.live.db.transaction() as tx:
        for _ in range(7):
            await api.live[Events].add(tx, api.clock(), Published("user.created", '{"id":1}'))
    await api.live[Events].number()
    await admin.post("/webhooks/disable", id=path.rpartition("/")[2])
    async with api.unchanged():
        for fields in ({}, {"delivery": forgotten}):
            answer = await admin.post(path, **fields)
            assert answer.status_code == 409
            assert said(answer) == "This webhook is disabled; enable it first."


@pytest.mark.one_engine
async def test_deleted_webhook_is_not_found(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    path = await made(admin)
    number = path.rpartition("/")[2]
    answer = await admin.post("/webhooks/delete", id=number)
    assert answer.headers["location"] == "/dashboard/webhooks?done=webhook-deleted"
    assert "No webhooks yet" in (await admin.get("/webhooks")).text
    verbs = [f"/webhooks/{verb}" for verb in ("disable", "enable", "secret", "delete")]
    async with api.unchanged():
        for place in (path, f"{path}/edit", *verbs):
            assert (await admin.get(f"{place}?id={number}")).status_code == 404, place
            sent = await admin.post(place, url=URL, types="*", id=number)
            assert sent.status_code == 404, place


@pytest.mark.one_engine
async def test_disabled_webhook_drops_pending_deliveries_until_it_is_enabled(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    path = await made(admin)
    row = {"id": path.rpartition("/")[2]}
    await attempted(api, path, status="pending", next_attempt_at=api.clock() + 5_000)
    assert "Pending 1 attempt, next in 5 seconds" in rows(await admin.get(path))[0]
    async with api.unchanged():
        asked = await admin.get(f"/webhooks/disable?id={row['id']}")
    assert "Pending deliveries are dropped" in asked.text
    await admin.post("/webhooks/disable", **row)
    page = await admin.get(path)
    assert "<strong>disabled by hand</strong>" in page.text
    assert "Failed 1 attempt The webhook was disabled." in rows(page)[0]
    (listed,) = rows(await admin.get("/webhooks"))
    assert listed == f"{URL} sandbox.reset Disabled by hand None recently"
    await admin.post("/webhooks/enable", **row)
    assert (await stored(api.live, path)).enabled


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("reason", "words", "listed"),
    [
        ("gone", "<strong>410 Gone</strong>", "Disabled gone: its receiver answered 410"),
        ("failing", "5 days without a success", "Disabled failing: 5 days without a success"),
        (None, "No delivery has succeeded since", "failing since 14 Mar 2026, 12:00 UTC"),
    ],
)
async def test_failing_webhook_says_why_and_the_overview_names_it_to_admins(
    api: Api, reason: str | None, words: str, listed: str
) -> None:
    _, admin = await signed_in(api, "admin")
    _, viewer = await signed_in(api)
    path = await made(admin, description="Orders")
    async with api.live.db.transaction() as tx:
        sql = "UPDATE webhooks SET disabled_reason = :reason, failing_since = :since"
        await tx.run(sql, {"reason": reason, "since": NOON - DAY})
    assert words in (await admin.get(path)).text
    (row,) = rows(await admin.get("/webhooks"))
    assert listed in row
    link = f'<a href="/dashboard{path}">Orders</a>'
    assert link in (await admin.get("")).text
    assert link not in (await viewer.get("")).text + (await admin.get("/sandbox")).text
