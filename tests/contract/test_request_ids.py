"""The id of a request, on its answer and in the log (decisions §6)."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from driving import Api, InProcess, settings_for

pytestmark = pytest.mark.one_engine


async def test_every_answer_has_an_id_of_its_own(api: Api) -> None:
    caller = await api.caller("editor")
    transport = InProcess(api)
    answers = [
        await caller.get("/users/me"),
        await caller.head("/users/me"),
        await caller.get("/products?limit=0"),
        await caller.get("/nowhere"),
        await caller.put("/users"),
        await caller.post("/products", json={"name": "x"}),
        await caller.post("/products", json={"name": "Lamp", "category": "x", "price": 1}),
        await caller.delete("/products/1"),
        await api.stranger().get("/users/me"),
        await api.stranger().get("https://localhost:8443/healthz"),
        await transport.exchange("GET", "/v1/users/me", [], scheme="http"),
    ]
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert len(set(ids)) == len(answers)
    assert all(identity.startswith("req_") for identity in ids)


async def test_the_log_tells_of_every_request_by_its_id_and_of_no_secret(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with Api(replace(settings_for(tmp_path, {}), log_requests=True)) as api:
        caller = await api.caller("viewer")
        answers = [
            await caller.get("/users/me"),
            await caller.get("/products?search=secret-search"),
            await caller.get(f"/products/{caller.key}"),
            await caller.post("/products", content="secret-body"),
            await api.stranger("203.0.113.7:1").get("/users/me"),
        ]
    written = capfd.readouterr().err
    lines = [json.loads(line) for line in written.splitlines()]
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert [line["request_id"] for line in lines] == ids
    assert [line["status"] for line in lines] == [200, 200, 404, 403, 401]
    assert [line.get("user_id") for line in lines] == [caller.user.id] * 4 + [None]
    assert lines[4]["address"] == "203.0.113.7"
    named = {"time", "level", "event", "method", "path", "milliseconds", "credential"}
    assert lines[0].keys() >= named
    assert not [secret for secret in ("secret", caller.key[8:20]) if secret in written]


async def test_a_fault_of_the_service_is_logged_under_the_answered_id(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    editor = await api.caller("editor")
    broken = await api.broken_product()
    async with api.unchanged():
        answer = await editor.patch(f"/products/{broken.id}", json={"name": "Other"})
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "INTERNAL_ERROR"
    assert "KeyError" not in answer.text
    (record,) = [record for record in caplog.records if record.exc_info]
    assert vars(record)["request_id"] == answer.headers["x-request-id"]
