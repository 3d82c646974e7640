"""Every sort of field: what is taken, stored, shown, filtered, sorted and searched."""

from typing import Any

import pytest

from driving import Api, refused

WHOLE: dict[str, Any] = {
    "name": "Desk lamp", "order": " kept ", "group": -3, "rank": 7, "price": 24.5,
    "weight": 99.125, "active": False, "colour": 'deep "blue"', "stage": "used",
    "day": "2026-11-28", "at": "2026-01-31T08:15:30.123Z", "contact": "ada@example.com",
    "site": "https://example.com/", "currency": "EUR", "code": "c1", "origin": "there",
    "parent_id": None, "owner_id": None, "within_id": None, "product_id": None,
    "labels": {"b": "2", "a": "1"},
    "lines": [{"sku": "s", "price": 0.0001, "count": 2, "day": "2026-01-01"}],
    "essay": "long",
}  # fmt: skip
ALONE = {
    "order": "", "group": 0, "rank": None, "price": None, "weight": 1.25, "active": True,
    "colour": None, "stage": "new", "day": None, "at": None, "contact": None, "site": None,
    "currency": "USD", "code": None, "origin": "here", "labels": {}, "lines": [], "essay": "",
}  # fmt: skip

FAULTY = [
    ("name", " ", 422), ("name", "x" * 41, 422), ("name", 1, 400), ("name", None, 400),
    ("group", 6, 422), ("group", 1.5, 400), ("rank", -1, 422),
    ("price", -1, 422), ("price", 1.00001, 422), ("price", "1", 400), ("price", 10**12, 422),
    ("weight", 99.6, 422), ("weight", 1.0001, 422), ("weight", None, 400),
    ("active", 1, 400), ("colour", "green", 422), ("stage", "old", 422),
    ("day", "2026-02-30", 422), ("day", "20260201", 422), ("at", "2026-01-31", 422),
    ("at", "0001-01-01T00:00:00+00:01", 422),
    ("contact", "ada", 422), ("site", "ftp://example.com", 422), ("currency", "XYZ", 422),
    ("code", "", 422), ("parent_id", 0, 422), ("parent_id", 99, 422), ("product_id", 99, 422),
    ("labels", {str(one): "" for one in range(6)}, 422), ("labels", {"a": 1}, 400),
    ("lines", [{"sku": "s", "price": 1}] * 4, 422), ("lines", [{"sku": "s"}], 400),
    ("lines", [{"sku": "s", "price": -1}], 422), ("lines", {}, 400), ("id", 3, 400),
]  # fmt: skip


async def test_every_field_is_shown_as_it_was_sent(api: Api) -> None:
    caller = await api.caller()
    made = await caller.post("/things", json=WHOLE)
    assert made.status_code == 201, made.text
    data = (await caller.get("/things/1")).json()["data"]
    assert {name: data[name] for name in WHOLE} == WHOLE
    [listed] = (await caller.get("/things")).json()["data"]
    assert listed == {k: v for k, v in data.items() if k not in ("labels", "lines", "essay")}
    other = await caller.post("/things", json={"name": "  Bare "})
    assert other.json()["data"]["name"] == "Bare"
    assert {name: other.json()["data"][name] for name in ALONE} == ALONE
    again = await caller.patch("/things/1", json=WHOLE | {"labels": {"a": "1", "b": "2"}})
    assert again.status_code == 200, again.text
    cleared = await caller.patch("/things/1", json={"rank": None, "price": None, "code": None})
    assert cleared.json()["data"]["rank"] is None


@pytest.mark.one_engine
async def test_time_before_the_year_1000_is_answered_with_four_digits(api: Api) -> None:
    caller = await api.caller()
    for at in ("0001-01-01T00:00:00.000Z", "0026-03-05T08:15:30.123Z", "9999-12-31T23:59:59.999Z"):
        made = await caller.post("/things", json={"name": "n", "at": at})
        assert made.status_code == 201, made.text
        assert made.json()["data"]["at"] == at


@pytest.mark.one_engine
async def test_faults_are_told_by_field(api: Api) -> None:
    caller = await api.caller()
    for field, value, status in FAULTY:
        answer = await caller.post("/things", json={"name": "n", field: value})
        told = refused(answer, status)
        assert all(name.partition(".")[0] == field for name in told), (field, value, told)
    assert (await caller.get("/things")).json()["pagination"]["total_items"] == 0
    await caller.post("/things", json=WHOLE)
    answer = await caller.patch("/things/1", json={"origin": "else", "stage": "new"})
    assert refused(answer, 422) == {
        "origin": "cannot be changed", "stage": "cannot change from used to new"
    }  # fmt: skip


FILTERS = [
    ("group=", None), ("min_group=1", ["c"]), ("max_group=0", ["b", "a"]), ("active=false", ["b"]),
    ("colour=red", ["a"]), ("stage=used", ["b"]), ("min_price=1.00005", ["c", "b"]),
    ("max_price=1", ["a"]), ("min_price=1&max_price=2", ["b", "a"]), ("min_weight=-1", ["c", "b"]),
    ("min_weight=9223372036854775808", []), ("max_weight=-9e17", []),
    ("min_weight=-1e99", ["c", "b", "a"]),
    ("min_day=2026-01-02", ["c"]), ("max_at=2026-01-01T00:00:00Z", ["a"]),
    ("contact=ada@example.com", ["a"]), ("currency=EUR", ["b"]), ("parent_id=1", ["b"]),
    ("sort=name", ["c", "b", "a"]), ("sort=name&order_=asc", None), ("sort=rank", ["c", "a", "b"]),
    ("search=lamp", ["c", "b", "a"]), ("search=tall", ["b"]),
    ("search=LAM&active=true", ["c", "a"]),
    ("sort=price", ["c", "b", "a"]), ("sort=essay", None), ("min_price=3&max_price=2", None),
]  # fmt: skip


async def test_filters_sorts_and_search_find_the_same_on_either_engine(api: Api) -> None:
    caller = await api.caller()
    rows = [
        {"name": "a lamp", "colour": "red", "price": 1, "weight": -2, "day": "2026-01-01",
         "at": "2026-01-01T00:00:00Z", "contact": "ada@example.com", "rank": 1},
        {"name": "b lamp", "active": False, "stage": "used", "price": 2, "weight": 0,
         "currency": "EUR", "parent_id": 1, "essay": "A tall one"},
        {"name": "c lamp", "group": 1, "price": 3, "day": "2026-01-02", "order": "x", "rank": 2,
         "at": "2026-01-02T00:00:00Z"},
    ]  # fmt: skip
    for row in rows:
        assert (await caller.post("/things", json=row)).status_code == 201
    for query, expected in FILTERS:
        answer = await caller.get(f"/things?{query}")
        if expected is None:
            refused(answer, 400)
            continue
        assert answer.status_code == 200, answer.text
        body = answer.json()
        assert [one["name"][0] for one in body["data"]] == expected, query
        assert body["pagination"]["total_items"] == len(expected), query
    pages = await caller.get("/things?sort=rank&limit=1&order=asc")
    walked = []
    while True:
        walked += [one["name"][0] for one in pages.json()["data"]]
        if "link" not in pages.headers:
            break
        pages = await caller.get(pages.headers["link"].split(";")[0].strip("<>").split("/v1")[1])
    assert walked == ["b", "a", "c"]


async def test_references_are_cleared_deleted_or_refuse(api: Api) -> None:
    caller = await api.caller()
    values = {"name": "p", "category": "c", "price": 1}
    product = (await caller.post("/products", json=values)).json()["data"]["id"]
    for body in (
        {"name": "one"},
        {"name": "two", "parent_id": 1, "product_id": product},
        {"name": "three", "within_id": 1},
        {"name": "four", "within_id": 3},
        {"name": "five", "owner_id": 4},
    ):
        assert (await caller.post("/things", json=body)).status_code == 201
    told = (await caller.delete("/things/1")).json()["error"]["message"]
    assert told.startswith("One of the things refers to it (owner_id of 5)")
    assert (await caller.get("/things")).json()["pagination"]["total_items"] == 5
    assert (await caller.delete("/things/5")).status_code == 204
    assert (await caller.delete("/things/1")).status_code == 204
    [left] = (await caller.get("/things")).json()["data"]
    assert (left["name"], left["parent_id"]) == ("two", None)
    assert (await caller.delete(f"/products/{product}")).status_code == 204
    assert (await caller.get("/things/2")).json()["data"]["product_id"] is None
    events = (await caller.get("/events?type=thing.*&limit=100")).json()["data"]
    assert [event["type"].removeprefix("thing.") for event in events] == [
        *["created"] * 5, "deleted", "updated", "deleted", "deleted", "deleted", "updated"
    ]  # fmt: skip
    reader = await api.caller("editor")
    narrow = await reader.post(
        "/api-keys", json={"name": "n", "type": "live", "scopes": ["write:things"]}
    )
    key = {"authorization": f"Bearer {narrow.json()['data']['key']}"}
    answer = await caller.post("/things", json={"name": "n", "parent_id": 2}, headers=key)
    assert refused(answer, 422).keys() == {"parent_id"}


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("word", "status", "told"),
    [("refuse", 422, "is refused"), ("conflict", 409, "It is so."), ("forbidden", 403, "Not you."),
     ("fail", 500, None), ("broken", 500, None), ("cancelled", 500, None)],
)  # fmt: skip
async def test_what_a_rule_raises_refuses_the_change_and_a_refusal_is_kept_for_its_key(
    api: Api, word: str, status: int, told: str | None
) -> None:
    caller = await api.caller()
    body, once = {"name": "n", "order": word}, {"idempotency-key": "k"}
    answer = await caller.post("/things", json=body, headers=once)
    refused(answer, status)
    assert "secret" not in answer.text
    assert told is None or told in answer.text
    again = await caller.post("/things", json=body, headers=once)
    assert (again.status_code, again.content) == (status, answer.content)
    assert ("idempotent-replayed" in again.headers) is (told is not None)
    assert (await caller.get("/things")).json()["data"] == []


@pytest.mark.one_engine
async def test_a_rule_has_two_seconds(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portico.resource.changes.RULE_SECONDS", 0.05)
    caller = await api.caller()
    refused(await caller.post("/things", json={"name": "n", "order": "sleep"}), 503)
    assert (await caller.get("/things")).json()["data"] == []
    assert (await caller.post("/things", json={"name": "n"})).status_code == 201


async def test_a_rule_changes_its_record_and_others(api: Api) -> None:
    caller = await api.caller()
    values = {"name": "p", "category": "c", "price": 1, "stock_quantity": 5}
    product = (await caller.post("/products", json=values)).json()["data"]["id"]
    upper = await caller.post("/things", json={"name": "n", "order": "upper"})
    assert (upper.json()["data"]["name"], upper.json()["data"]["weight"]) == ("N", 2.25)
    taking = {"name": "n", "order": "take", "product_id": product}
    assert (await caller.post("/things", json=taking)).status_code == 201
    left = (await caller.get(f"/products/{product}")).json()["data"]["stock_quantity"]
    assert left == 4
    names = [one["name"] for one in (await caller.get("/things")).json()["data"]]
    assert names[0] == "n" or names[1].startswith("for ")
    types = [one["type"] for one in (await caller.get("/events?limit=100")).json()["data"]]
    assert types.count("product.updated") == 1
    assert types.count("thing.created") == 3


@pytest.mark.one_engine
async def test_what_follows_a_change_runs_once_and_fails_alone(api: Api) -> None:
    caller = await api.caller()
    made = await caller.post("/things", json={"name": "n", "order": "follow"})
    from portico.resource.changes import followers_ended

    await followers_ended(10)
    await followers_ended(10)
    assert made.json()["data"]["order"] == "follow"
    assert (await caller.get("/things/1")).json()["data"]["order"] == "followed"


async def test_each_reset_of_the_sandbox_stores_samples_that_refer_to_each_other(
    api: Api,
) -> None:
    caller = await api.caller(key_type="test")
    await caller.post("/things", json={"name": "mine"})
    from portico.core.audit import OPERATOR
    from portico.features.people.sandbox import reset

    for _ in range(2):
        await reset(api.sandbox, OPERATOR)
        two, one = (await caller.get("/things")).json()["data"]
        assert (one["name"], two["name"]) == ("Sample one", "Sample two")
        assert two["parent_id"] == two["owner_id"] == one["id"]
        assert (await caller.get(f"/products/{two['product_id']}")).status_code == 200
