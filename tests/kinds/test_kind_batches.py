"""Many records in one request."""

from typing import Any

import pytest

from driving import TINY, Api, refused


def body(kind: str, number: int, **values: Any) -> dict[str, Any]:
    """One item."""
    if kind == "products":
        return {"name": f"n{number}", "category": "c", "price": 1, **values}
    return {"name": f"n{number}", "code": f"c{number}", **values}


@pytest.mark.parametrize("kind", ["products", "things"])
async def test_items_stand_alone_and_are_answered_in_order(api: Api, kind: str) -> None:
    caller = await api.caller()
    items = [body(kind, 1), {"name": ""}, body(kind, 2), body(kind, 3, nothing=1)]
    answer = await caller.post(f"/{kind}/batch", json={"items": items})
    assert answer.status_code == 200, answer.text
    results = answer.json()["data"]
    assert [one["status"] for one in results] == [201, 400 if kind == "products" else 422, 201, 400]
    assert results[3]["error"]["details"][0]["field"] == "nothing"
    total = (await caller.get(f"/{kind}?limit=1" + "&status=draft" * (kind == "products"))).json()
    assert total["pagination"]["total_items"] == 2
    changed = [{"id": results[0]["id"], "name": "x"}, {"id": 99, "name": "y"}, body(kind, 4)]
    answer = await caller.post(f"/{kind}/batch", json={"items": changed, "upsert_by": "id"})
    assert [one["status"] for one in answer.json()["data"]] == [200, 404, 201]
    noun = kind.removesuffix("s")
    events = (await caller.get(f"/events?type={noun}.*")).json()["data"]
    assert [event["type"] for event in events] == [
        f"{noun}.created", f"{noun}.created", f"{noun}.updated", f"{noun}.created"
    ]  # fmt: skip


@pytest.mark.one_engine
async def test_item_whose_rule_fails_or_is_too_slow_holds_no_other_up(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.resource.changes.RULE_SECONDS", 0.05)
    caller = await api.caller()
    items = [body("things", n, order=word) for n, word in enumerate(("", "sleep", "fail", ""))]
    for _ in range(2):
        answer = await caller.post(
            "/things/batch", json={"items": items}, headers={"idempotency-key": "k"}
        )
        assert [one["status"] for one in answer.json()["data"]] == [201, 503, 500, 201]
        assert "secret" not in answer.text
    names = [one["name"] for one in (await caller.get("/things")).json()["data"]]
    assert names == ["n3", "n0"]
    whole = {"items": items[1:], "atomic": True}
    refused(await caller.post("/things/batch", json=whole), 503)


@pytest.mark.parametrize("environ", ["postgres"], indirect=True)
async def test_items_that_take_long_are_stored_by_several_transactions_unless_atomic(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.resource.batches.SECONDS", 0)
    caller = await api.caller()
    for atomic, transactions in ((True, 1), (False, 3)):
        items = [body("things", number, code=f"{atomic}{number}") for number in range(3)]
        answer = await caller.post("/things/batch", json={"items": items, "atomic": atomic})
        ids = [one["id"] for one in answer.json()["data"]]
        sql = "SELECT count(DISTINCT xmin::text) FROM kind_things WHERE id = ANY (:ids)"
        assert [tuple(row) for row in await api.live.db.all(sql, {"ids": ids})] == [(transactions,)]


async def test_all_or_nothing_has_the_status_of_the_first_fault(api: Api) -> None:
    caller = await api.caller()
    items = [body("things", 1), body("things", 2), body("things", 1)]
    answer = await caller.post("/things/batch", json={"items": items, "atomic": True})
    assert refused(answer, 409).keys() == {"items.2.code"}
    items[2] = {"name": "", "code": "c3"}
    answer = await caller.post("/things/batch", json={"items": items, "atomic": True})
    assert refused(answer, 422).keys() == {"items.2.name"}
    answer = await caller.post("/things/batch", json={"items": [items[2]], "atomic": True})
    assert refused(answer, 422).keys() == {"items.0.name"}
    assert (await caller.get("/things")).json()["data"] == []
    items[2] = body("things", 3)
    headers = {"idempotency-key": "k"}
    for _ in range(2):
        whole = {"items": items, "atomic": True}
        answer = await caller.post("/things/batch", json=whole, headers=headers)
        assert [one["status"] for one in answer.json()["data"]] == [201] * 3
    assert (await caller.get("/things")).json()["pagination"]["total_items"] == 3


async def test_a_unique_field_says_which_record_is_meant(api: Api) -> None:
    caller = await api.caller()
    await caller.post("/things", json=body("things", 1))
    items = [body("things", 1, name="new"), body("things", 2)]
    answer = await caller.post("/things/batch", json={"items": items, "upsert_by": "code"})
    assert [one["status"] for one in answer.json()["data"]] == [200, 201]
    assert (await caller.get("/things/1")).json()["data"]["name"] == "new"
    refused(await caller.post("/things/batch", json={"items": items, "upsert_by": "name"}), 422)
    refused(await caller.post("/things/batch", json={"items": []}), 422)
    refused(await caller.post("/things/batch", json={"items": [1]}), 400)


@pytest.mark.one_engine
async def test_every_hundred_items_count_as_a_request(api: Api) -> None:
    caller = await api.caller(plan=TINY)
    items = [body("things", number) for number in range(1000)]
    refused(await caller.post("/things/batch", json={"items": items}), 429)
    answer = await caller.post("/things/batch", json={"items": items[:150]})
    assert answer.status_code == 200
    assert {one["status"] for one in answer.json()["data"]} == {201}
    refused(await caller.get("/things"), 429)
