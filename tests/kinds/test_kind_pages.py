"""The dashboard's pages of kinds that files declare."""

import sys
from pathlib import Path
from typing import Any

import pytest

from driving import Api, settings_for
from pages.uploading import checked, ended, leave, lines, settled
from pages.visiting import (
    Visitor,
    held,
    once_of,
    rows,
    said,
    signed_in,
    version_in,
)
from portico.mounts import ACCOUNT, LIVE, SHOWING
from portico.resource.loading import KindsError, load
from portico.resource.pages import pages

THING = {
    "f-name": "Lamp", "f-order": "", "f-group": "3", "f-rank": "", "f-price": "12.50",
    "f-weight": "1.125", "f-active": "false", "f-colour": "<b>", "f-stage": "new",
    "f-day": "2026-03-05", "f-at": "2026-03-05T08:15:30Z", "f-contact": "ada@example.com",
    "f-site": "https://example.com/", "f-currency": "EUR", "f-code": "L-1", "f-origin": "there",
    "f-parent_id": "", "f-owner_id": "", "f-within_id": "", "f-product_id": "",
    "f-labels-1-name": "colour", "f-labels-1-value": "brass", "f-labels-2-name": "",
    "f-labels-2-value": "", "f-lines-1-sku": "a", "f-lines-1-price": "1.5", "f-lines-1-count": "2",
    "f-lines-1-day": "", "f-essay": "Two\nlines",
}  # fmt: skip
"""The form of a thing, with a value of every sort."""

NOTES = """
from portico.kinds import Kind, Record, text

class Note(Record):
    version: str = text(1, 40)
    csrf: str = text(1, 40)

notes = Kind(Note, one="note", many="notes", files=False, delete=False)
"""
"""Its fields are called like parts of forms."""

FOLLOWED = """
import asyncio
from portico.kinds import Kind, Record, text

class Note(Record):
    word: str = text(1, 40)

notes = Kind(Note, one="note", many="notes", writers=["editor"])
under_way = set()
most = 0

@notes.after_commit
async def tell(portico, before, after):
    global most
    under_way.add(after.id)
    most = max(most, len(under_way))
    await asyncio.sleep(0.5)
    under_way.remove(after.id)
"""


async def create(visitor: Visitor, **changed: str) -> str:
    """The path of a new thing."""
    page = await visitor.get("/things/new")
    fields = THING | {f"f-{name}": text for name, text in changed.items()}
    answer = await visitor.post("/things/new", once=once_of(page, "/things/new"), **fields)
    assert answer.status_code == 303, answer.text
    path: str = answer.headers["location"].removeprefix("/dashboard").partition("?")[0]
    return path


async def stored(api: Api, number: int) -> dict[str, Any]:
    """A thing as the API shows it."""
    caller = await api.caller()
    data: dict[str, Any] = (await caller.get(f"/things/{number}")).json()["data"]
    return data


def input_faults(answer: Any) -> dict[str, str]:
    """What a refused form says, by input."""
    parts = answer.text.split('<p class="fault" id="')[1:]
    return {
        part.partition("-fault")[0].removeprefix("f-"): part.partition(">")[2].partition("<")[0]
        for part in parts
    }


async def test_form_stores_every_sort_of_field(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    path = await create(editor)
    data = await stored(api, 1)
    assert path == "/things/1"
    assert {name: data[name] for name in data if name not in ("created_at", "updated_at")} == {
        "id": 1, "name": "Lamp", "order": "", "group": 3, "rank": None, "price": 12.5,
        "weight": 1.125, "active": False, "colour": "<b>", "stage": "new", "day": "2026-03-05",
        "at": "2026-03-05T08:15:30.000Z", "contact": "ada@example.com",
        "site": "https://example.com/", "currency": "EUR", "code": "L-1", "origin": "there",
        "parent_id": None, "owner_id": None, "within_id": None, "product_id": None,
        "labels": {"colour": "brass"},
        "lines": [{"sku": "a", "price": 1.5, "count": 2, "day": None}], "essay": "Two\nlines",
    }  # fmt: skip
    page = await editor.get("/things/1")
    assert "12.50 EUR" in page.text
    assert "&lt;b&gt;" in page.text.lower()
    edit = await editor.get("/things/1/edit")
    fields = {name: text for name, text in THING.items() if name not in ("f-stage", "f-origin")}
    same = await editor.post("/things/1/edit", version=version_in(edit), **fields)
    assert same.headers["location"] == "/dashboard/things/1?done=nothing-changed"
    for name in ("f-price", "f-weight", "f-day", "f-at", "f-lines-1-price", "f-labels-1-value"):
        assert held(edit, name) in (THING[name], THING[name].replace("1.5", "1.50"),
                                    THING[name].replace("30Z", "30.000Z"))  # fmt: skip


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"name": "", "group": "9", "price": "x"}, {"name", "group", "price"}),
        ({"weight": "1.23456", "day": "2026-02-30", "at": "now"}, {"weight", "day", "at"}),
        ({"contact": "ada", "site": "ftp://x", "currency": "QQQ"}, {"contact", "site", "currency"}),
        ({"stage": "old", "active": "maybe", "colour": "green"}, {"stage", "active", "colour"}),
        ({"labels-2-name": "colour", "labels-2-value": "x"}, {"labels-2-name"}),
        ({"lines-1-sku": "", "lines-1-count": "0"}, {"lines-1-sku", "lines-1-count"}),
        ({"parent_id": "17"}, {"parent_id"}),
        ({"parent_id": "1.5"}, {"parent_id"}),
    ],
)
async def test_form_with_faults_is_shown_with_them_and_stores_nothing(
    api: Api, changed: dict[str, str], expected: set[str]
) -> None:
    _, editor = await signed_in(api, "editor")
    page = await editor.get("/things/new")
    fields = THING | {f"f-{name}": text for name, text in changed.items()}
    answer = await editor.post("/things/new", once=once_of(page, "/things/new"), **fields)
    assert answer.status_code == 422, answer.text
    assert input_faults(answer).keys() == expected
    assert held(answer, "f-code") == "L-1"
    assert rows(await editor.get("/things")) == []


async def test_taken_value_is_told_at_its_input(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    await create(editor)
    page = await editor.get("/things/new")
    answer = await editor.post("/things/new", once=once_of(page, "/things/new"), **THING)
    assert (answer.status_code, input_faults(answer)) == (409, {"code": "Is taken."})


@pytest.mark.one_engine
async def test_form_that_is_sent_twice_creates_one_record(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    once = once_of(await editor.get("/things/new"), "/things/new")
    answers = [await editor.post("/things/new", once=once, **THING) for _ in range(2)]
    assert [one.headers["location"] for one in answers] == [
        "/dashboard/things/1?done=record-created"
    ] * 2
    assert len(rows(await editor.get("/things"))) == 1


@pytest.mark.one_engine
async def test_change_meanwhile_is_shown_beside_ones_own(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    await create(editor)
    edit = await editor.get("/things/1/edit")
    caller = await api.caller()
    await caller.patch("/things/1", json={"name": "Theirs"})
    fields = {name: text for name, text in THING.items() if name not in ("f-stage", "f-origin")}
    mine = fields | {"f-group": "4"}
    answer = await editor.post("/things/1/edit", version=version_in(edit), **mine)
    assert answer.status_code == 412
    assert rows(answer) == ["Name Theirs Lamp", "Group 3 4"]
    assert (await stored(api, 1))["name"] == "Theirs"
    again = await editor.post("/things/1/edit", version=version_in(answer), **mine)
    assert again.status_code == 303
    assert (await stored(api, 1))["name"] == "Lamp"
    await caller.delete("/things/1")
    gone = await editor.post("/things/1/edit", version=version_in(answer), **mine)
    assert gone.status_code == 404
    assert held(gone, "f-name") == "Lamp"


@pytest.mark.one_engine
async def test_states_are_buttons_for_those_that_may_follow(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    await create(editor)
    page = await editor.get("/things/1")
    assert "Set to used" in page.text
    assert "Set to new" not in page.text
    answer = await editor.post("/things/1", do="stage:used")
    assert answer.status_code == 303
    assert (await stored(api, 1))["stage"] == "used"
    assert "Set to" not in (await editor.get("/things/1")).text
    refused = await editor.post("/things/1", do="stage:new")
    assert refused.status_code == 409
    assert said(refused) == "Stage cannot change from used to new."
    assert (await editor.post("/things/1", do="name:x")).status_code == 400


async def test_list_searches_filters_sorts_and_pages(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    caller = await api.caller()
    for number in range(30):
        body = {"name": f"Lamp {number:02}", "rank": number, "active": number % 2 == 0}
        assert (await caller.post("/things", json=body)).status_code == 201

    async def names(query: str) -> list[str]:
        found = rows(await editor.get(f"/things{query}"))
        return [row.partition("Lamp ")[2][:2] for row in found]

    assert await names("") == [f"{number:02}" for number in range(29, 4, -1)]
    assert await names("?page=2") == ["04", "03", "02", "01", "00"]
    assert len(await names("?limit=50")) == 30
    assert len(await names("?limit=7")) == 25
    assert (await names("?sort=name&order=asc"))[:2] == ["00", "01"]
    assert await names("?search=lamp+07") == ["07"]
    assert (await names("?search=lamp&sort=weight&order=asc"))[:2] == ["00", "01"]
    await caller.patch("/things/2", json={"colour": "red", "contact": "ada@example.com"})
    every = api.live.stores["things"].kind.query(limit=30)
    for column in ("colour", "contact"):  # without an index, and null elsewhere
        for way, place in (("asc", -1), ("desc", 0)):
            found = await api.live.stores["things"].listed(every, 0, None, (column, way))
            assert found.rows[place].id == 2, column
    assert await names("?max_rank=3&active=true") == ["02", "00"]
    page = await editor.get("/things?sort=rank&order=asc")
    assert page.text.count("aria-sort") == 1
    assert 'aria-sort="ascending"><a href="/dashboard/things?sort=rank&amp;order=desc"' in page.text
    faulty = await editor.get("/things?min_rank=x")
    assert input_faults(faulty)["min_rank"] == "Must be a whole number."
    export = await editor.get("/things/export?format=ndjson&search=lamp&max_rank=1")
    assert [line.partition('"rank":')[2][:1] for line in export.text.splitlines()] == ["0", "1"]
    assert (await editor.get("/things/export?format=csv")).text.startswith("id,name,order,")


@pytest.mark.one_engine
async def test_several_are_changed_and_deleted_at_once(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    for number in range(3):
        await create(editor, code=f"c{number}")
    await editor.post("/things/1", do="stage:used")
    asked = await editor.get("/things/several?do=stage:used&id=1&id=2")
    assert "will be skipped" not in asked.text
    asked = await editor.get("/things/several?do=stage:new&id=1&id=2")
    assert "1 thing will be skipped: it is used." in asked.text
    answer = await editor.post("/things/several", do="stage:used", ids="1,2,99")
    assert rows(answer) == [
        "Lamp Changed", "Lamp Changed", "Thing 99 Failed It has been deleted since."
    ]  # fmt: skip
    answer = await editor.post("/things/several", do="delete", ids="1,2")
    assert answer.headers["location"] == "/dashboard/things?done=records-deleted&count=2"
    assert (
        "2 records were deleted." in (await editor.get("/things?done=records-deleted&count=2")).text
    )
    assert len(rows(await editor.get("/things"))) == 1


BODIES = {"things": {}, "products": {"category": "light", "price": 1}}
"""What creates a record, besides its name: one of a file, and one of Portico's own."""


@pytest.mark.one_engine
@pytest.mark.parametrize(("many", "notice"), [("things", "record"), ("products", "product")])
async def test_deletion_is_asked_for_and_done(api: Api, many: str, notice: str) -> None:
    _, editor = await signed_in(api, "editor")
    caller = await api.caller()
    assert (await caller.post(f"/{many}", json={"name": "Lamp", **BODIES[many]})).is_success
    asked = f"/{many}/delete?id=1"
    assert "Delete Lamp?" in (await editor.get(asked)).text
    assert (await caller.get(f"/{many}/1")).status_code == 200
    answer = await editor.post(f"/{many}/delete", id="1")
    assert answer.headers["location"] == f"/dashboard/{many}?done={notice}-deleted"
    for gone in (await editor.get(asked), await editor.post(f"/{many}/delete", id="1")):
        assert gone.status_code == 404
        assert f"no {many[:-1]} 1" in gone.text


@pytest.mark.one_engine
@pytest.mark.parametrize("many", ["things", "products"])
async def test_viewer_sees_no_button_and_is_refused_every_change(api: Api, many: str) -> None:
    caller = await api.caller()
    assert (await caller.post(f"/{many}", json={"name": "Lamp", **BODIES[many]})).is_success
    _, viewer = await signed_in(api, "viewer")
    for path in (f"/{many}", f"/{many}/1", f"/sandbox/{many}"):
        page = await viewer.get(path)
        assert page.status_code == 200
        for word in (
            "New ",
            "Edit",
            "Delete",
            "Set to",
            "Publish",
            "Archive<",
            "Import",
            "Selected",
        ):
            assert word not in page.text.partition("<main")[2], word
    kinds = [pages(records.kind) for records in api.live.records]
    every = (*SHOWING, *(page for kind in kinds for page in kind.routes()))
    changing = [page for page in every if page.access == f"write:{many}"]
    assert len(changing) == 14
    fields = {"id": "1", "ids": "1", "do": "delete"}
    async with api.unchanged():
        for base in ("", "/sandbox"):
            for route in changing:
                path = base + route.path.replace("{id}", "1")
                if route.method == "GET":
                    answer = await viewer.get(f"{path}?id=1&do=delete")
                else:
                    answer = await viewer.post(path, **fields)
                assert answer.status_code == 403, (route.method, path)


@pytest.mark.one_engine
async def test_kind_stands_in_the_navigation_of_its_readers(api: Api) -> None:
    _, viewer = await signed_in(api, "viewer")
    overview = await viewer.get("")
    assert '<a href="/dashboard/things">' in overview.text
    assert "/dashboard/secrets" not in overview.text


@pytest.mark.one_engine
async def test_reference_leads_to_its_record(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    await create(editor)
    await create(editor, code="c2", parent_id="1")
    assert '<a href="/dashboard/things/1">1</a>' in (await editor.get("/things/2")).text


async def send_things(editor: Visitor, *rows: dict[str, Any], **fields: str) -> tuple[str, Any]:
    """The path of an import of things and its page, once it is checked."""
    await editor.get("/things/import")
    path, _ = await checked(editor, lines(*rows), to="/things/import", **fields)
    return path, await editor.get(path)


async def test_file_is_checked_by_every_rule_and_then_stored_but_for_its_faulty_rows(
    api: Api,
) -> None:
    user, editor = await signed_in(api, "editor")
    caller = await api.caller()
    values = {"name": "Lamp", "category": "c", "price": 1, "stock_quantity": 2}
    assert (await caller.post("/products", json=values)).is_success
    taking = {"order": "take", "product_id": 1}
    file = (
        {"name": "a", **taking},
        {"name": "b", "group": 9},
        {"name": "c", "order": "conflict"},
        {"name": "d", "code": "x"},
        {"name": "e", "code": "x"},
        {"name": "f", "product_id": 99},
    )
    faulty = [
        "2 group must be from -5 to 5: 9",
        "3 It is so.",
        "5 code is taken",
        "6 product_id must be the id of one of the products",
    ]
    async with api.unchanged(but="uploads"):
        path, page = await send_things(editor, *file)
    assert rows(page) == faulty
    assert "2 rows can be imported, 4 rows cannot" in page.text
    await editor.post(path, do="store")
    assert "2 things stored" in await settled(editor, path)
    assert rows(await editor.get(path)) == faulty
    made = (await caller.get("/things?limit=9")).json()["data"]
    assert {one["name"] for one in made} == {"a", "d", f"for {user.email}"}
    stock = (await caller.get("/products/1")).json()["data"]["stock_quantity"]
    assert stock == 1
    events = (await caller.get("/events?type=things.imported")).json()["data"]
    assert [event["data"]["inserted"] for event in events] == [2]


async def test_file_that_changes_records_is_stored_after_the_last_row_of_a_killed_process(
    api: Api,
) -> None:
    _, editor = await signed_in(api, "editor")
    await create(editor)
    new, first = {"name": "New"}, {"id": 1, "name": "Lantern"}
    file = (new, first, new, {"id": 1, "name": "Again"}, {"id": 99, "name": "None"})
    _, page = await send_things(editor, *file, update="yes")
    faulty = [
        "4 id is also in an earlier row: remove one of the two",
        "5 id must be the id of one of the things; there is no thing 99",
    ]
    assert rows(page) == faulty
    await leave(api, state="storing", line=2, inserted=1, updated=1, faulty=0, seen_at=0)
    upload = await ended(api)
    assert (upload.state, upload.inserted, upload.updated, upload.faulty) == ("stored", 2, 1, 2)
    assert len(rows(await editor.get("/things"))) == 2
    assert (await stored(api, 1))["name"] == "Lamp"


@pytest.mark.one_engine
@pytest.mark.parametrize("word", ["fail", "cancelled"])
async def test_rule_with_a_fault_of_its_own_ends_its_file_and_no_other(api: Api, word: str) -> None:
    _, editor = await signed_in(api, "editor")
    _, page = await send_things(editor, {"name": "a"}, {"name": "b", "order": word})
    assert said(page).startswith("Something went wrong.")
    _, page = await send_things(editor, {"name": "c"})
    assert "1 row can be imported" in page.text


async def test_import_does_not_outrun_what_follows_its_rows(tmp_path: Path) -> None:
    (tmp_path / "kinds").mkdir()
    (tmp_path / "kinds" / "notes.py").write_text(FOLLOWED)
    async with Api(settings_for(tmp_path, {"PORTICO_KINDS": str(tmp_path / "kinds")})) as api:
        _, editor = await signed_in(api, "editor")
        await editor.get("/notes/import")
        path, _ = await checked(editor, lines(*[{"word": "a"}] * 3000), to="/notes/import")
        await editor.post(path, do="store")
        assert (await ended(api)).inserted == 3000
        assert 1000 < sys.modules["portico_kinds.notes"].most < 2000


@pytest.mark.one_engine
async def test_upload_is_found_at_its_own_kind_alone(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    path, _ = await send_things(editor, {"name": "Lamp"})
    for many in ("orders", "products"):
        other = path.replace("things", many)
        for answer in (
            await editor.get(other),
            await editor.get(f"{other}/faults"),
            await editor.post(other, do="store"),
            await editor.post(other, do="discard"),
        ):
            assert answer.status_code == 404
        assert path not in (await editor.get(f"/{many}/import")).text
    assert path in (await editor.get("/things/import")).text


async def test_kind_without_files_and_deletion_has_no_pages_for_them(tmp_path: Path) -> None:
    (tmp_path / "kinds").mkdir()
    (tmp_path / "kinds" / "notes.py").write_text(NOTES)
    environ = {"PORTICO_KINDS": str(tmp_path / "kinds")}
    async with Api(settings_for(tmp_path, environ)) as api:
        _, admin = await signed_in(api, "admin")
        once = once_of(await admin.get("/notes/new"), "/notes/new")
        await admin.post("/notes/new", once=once, **{"f-version": "1", "f-csrf": "2"})
        for path in ("/notes", "/notes/1"):
            page = await admin.get(path)
            assert page.status_code == 200
            for word in ("Import", "Export", "Delete"):
                assert word not in page.text.partition("<main")[2]
        for path in ("import", "export?format=csv", "delete?id=1", "several?do=delete&id=1"):
            assert (await admin.get(f"/notes/{path}")).status_code != 200


def test_kind_cannot_be_called_like_another_page(tmp_path: Path) -> None:
    pages = {page.path[1:].partition("/")[0] for page in (*SHOWING, *LIVE, *ACCOUNT)} - {""}
    (tmp_path / "k.py").write_text(
        "from portico.kinds import Kind, Record, text\n"
        "class A(Record):\n    a: str = text(1, 9)\n"
        + "".join(f"Kind(A, one='one-{name}', many={name!r})\n" for name in pages)
    )
    with pytest.raises(KindsError) as caught:
        load(tmp_path)
    told = str(caught.value)
    assert [name for name in pages if f"many={name!r} is Portico's own" not in told] == []
