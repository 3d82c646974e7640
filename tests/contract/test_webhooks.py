"""Webhooks as the API has them (decisions §12); what is sent is tried in tests/jobs."""

import asyncio
from typing import Any

import httpx
import pytest

from driving import Api, Caller, refused
from portico.core.events import MOST_WEBHOOKS
from portico.features.events.audit import Audit

AT = "2026-03-15T12:00:00.000Z"
HOOK: dict[str, Any] = {
    "url": "https://hooks.example.com/in",
    "types": ["product.*", "user.created"],
}


async def made(caller: Caller, **values: Any) -> dict[str, Any]:
    answer = await caller.post("/webhooks", json=HOOK | values)
    assert answer.status_code == 201, answer.text
    data: dict[str, Any] = answer.json()["data"]
    return data


async def test_a_webhook_is_made_and_shows_its_secret_once(api: Api) -> None:
    admin, tester = await api.caller("admin"), await api.caller("admin", "test")
    answer = await admin.post("/webhooks", json=HOOK)
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    data = answer.json()["data"]
    secret = data.pop("secret")
    assert secret.startswith("whsec_")
    assert data == {
        **HOOK,
        "id": data["id"],
        "description": "",
        "status": "enabled",
        "disabled_reason": None,
        "created_at": AT,
        "updated_at": AT,
    }
    where = answer.headers["location"]
    assert where == f"https://localhost:8443/v1/webhooks/{data['id']}"
    assert (await admin.get(where)).json() == {"data": data}
    second = await made(admin, description="Second")
    listed = (await admin.get("/webhooks")).json()
    assert [one["id"] for one in listed["data"]] == [second["id"], data["id"]]
    assert listed["pagination"]["total_items"] == 2
    assert (await tester.get("/webhooks")).json()["data"] == []
    assert secret not in str(await api.state())
    for field, body in (
        *(("url", {"types": ["*"]}), ("types", {"url": HOOK["url"]})),
        *(("types", HOOK | {"types": "*"}), ("types.0", HOOK | {"types": [1]})),
        *((field, HOOK | {field: "enabled"}) for field in ("secret", "status")),
    ):
        answer = await admin.post("/webhooks", json=body)
        assert refused(answer, 400, "VALIDATION_ERROR").keys() == {field}


@pytest.mark.one_engine
@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("url", url) for url in ("https://10.0.0.1/", "https://[::1]/", "http://example.com/")),
        *(("url", url) for url in ("https://ada:secret@example.com/", "nonsense")),
        *(("types", types) for types in ([], ["ping"], ["product.sold"])),
        ("description", "x" * 201),
    ],
)
async def test_a_webhook_that_breaks_a_rule_is_422_and_not_stored(
    api: Api, field: str, value: Any
) -> None:
    admin = await api.caller("admin")
    path = f"/webhooks/{(await made(admin))['id']}"
    async with api.unchanged():
        for answer in (
            await admin.post("/webhooks", json=HOOK | {field: value}),
            await admin.patch(path, json={field: value}),
        ):
            (fault,) = refused(answer, 422, "VALIDATION_ERROR")
            assert fault.partition(".")[0] == field


async def test_a_patch_of_a_webhook_keeps_other_fields(api: Api) -> None:
    admin = await api.caller("admin")
    hook = await made(admin)
    api.clock.advance(seconds=1)
    path = f"/webhooks/{hook['id']}"
    changed = (await admin.patch(path, json={"types": ["*", " * "], "description": "All"})).json()
    assert changed["data"]["types"] == ["*"]
    assert changed["data"]["url"] == HOOK["url"]
    assert changed["data"]["updated_at"] == "2026-03-15T12:00:01.000Z"
    same = await admin.patch(path, json={"types": ["*"]})
    assert same.json() == changed


@pytest.mark.one_engine
async def test_a_deleted_webhook_is_404_on_every_path(api: Api) -> None:
    admin = await api.caller("admin")
    path = f"/webhooks/{(await made(admin))['id']}"
    assert (await admin.delete(path)).status_code == 204
    for answer in (
        await admin.get(path),
        await admin.patch(path, json={}),
        await admin.delete(path),
        await admin.post(f"{path}/test"),
        await admin.post(f"{path}/rotate-secret"),
        await admin.get(f"{path}/deliveries"),
        await admin.post(f"{path}/deliveries/1/redeliver"),
    ):
        refused(answer, 404, "RESOURCE_NOT_FOUND")


async def test_concurrent_creations_stop_at_twenty_webhooks(api: Api) -> None:
    admin = await api.caller("admin")
    posts = (admin.post("/webhooks", json=HOOK) for _ in range(MOST_WEBHOOKS + 5))
    answers: list[httpx.Response] = await asyncio.gather(*posts)
    assert sum(answer.status_code == 201 for answer in answers) == MOST_WEBHOOKS
    for answer in answers:
        if answer.status_code != 201:
            refused(answer, 409, "CONFLICT")


async def test_a_webhook_is_disabled_and_enabled_by_hand(api: Api) -> None:
    admin = await api.caller("admin")
    path = f"/webhooks/{(await made(admin))['id']}"
    disabled = (await admin.patch(path, json={"status": "disabled"})).json()["data"]
    assert (disabled["status"], disabled["disabled_reason"]) == ("disabled", "by hand")
    refused(await admin.post(f"{path}/test"), 409, "CONFLICT")
    enabled = (await admin.patch(path, json={"status": "enabled"})).json()["data"]
    assert (enabled["status"], enabled["disabled_reason"]) == ("enabled", None)
    entries = await api.live[Audit].page(limit=2)
    assert [entry.action for entry in entries] == ["webhook.enabled", "webhook.disabled"]
