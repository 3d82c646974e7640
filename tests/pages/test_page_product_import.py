"""Products from a file: sent to a page, checked, stored."""

import asyncio
import csv
import errno
import io
import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from driving import Api
from operating import eventually, turns
from pages.uploading import begin, checked, ended, job_of, leave, lines, send, settled
from pages.visiting import DASHBOARD, ORIGIN, Visitor, said, signed_in
from portico.core.audit import OPERATOR
from portico.core.times import SECOND
from portico.data.database import Transaction
from portico.features.catalogue.products import PRODUCTS
from portico.features.catalogue.storage import Products
from portico.features.events.audit import Audit, AuditFilter
from portico.features.operations.tidy import Tidy
from portico.features.people.accounts import suspend
from portico.resource.file_rows import ImportOutcome, Rejected, read_rows
from portico.resource.files import columns_of
from portico.resource.imports import SMALL, check_in_batches, store_in_batches
from portico.resource.uploads import (
    KEPT,
    LOST,
    MAX_TOLD,
    MAX_WAITING,
    SILENT,
    Upload,
    Uploads,
)

pytestmark = pytest.mark.one_engine

GOOD = {"name": "Lamp", "category": "light", "price": 1}


@pytest.fixture
async def editor(api: Api) -> Visitor:
    _, editor = await signed_in(api, "editor")
    return editor


@pytest.fixture
def environ(each_database: dict[str, str]) -> dict[str, str]:
    return each_database


def files(api: Api) -> list[Path]:
    """What lies in the data directory."""
    directory = api.live.uploads_directory
    return list(directory.iterdir()) if directory.is_dir() else []


async def cleared(api: Api, left: int = 0) -> None:
    """Waits until the file is gone, which it is right after what came of it is stored."""
    await eventually(lambda: len(files(api)) <= left, "the end of the file")


def heading(page: str) -> str:
    found = re.search(r'<div role="status" id="told"><h2>(.*?)</h2>', page)
    assert found, page
    return found[1]


async def test_import_check_yields_to_requests(api: Api) -> None:
    rows = io.BytesIO(lines(GOOD) * 300)
    async with turns() as seen:
        found = read_rows(columns_of(PRODUCTS), rows, "ndjson")
        checked = check_in_batches(api.live, PRODUCTS, found, OPERATOR)
        outcomes = [each async for each in checked]
    assert sum(outcome.inserted for outcome in outcomes) == 300
    assert seen.count >= 6


async def test_import_updates_exported_products_on_request(api: Api, editor: Visitor) -> None:
    product = await api.product(name="Lamp", status="active")
    await api.product(name="Chair")
    table = (await editor.get("/products/export?format=csv")).text
    await editor.get("/products/import")
    _, page = await checked(editor, table.encode(), name="p.csv")
    assert heading(page) == "0 rows can be imported, 2 rows cannot"
    path, page = await checked(editor, table.encode(), name="p.csv", update="yes")
    assert "<dt>Unchanged</dt><dd>2</dd>" in page

    changed = table.replace(",Lamp,", ",Lantern,").encode()
    path, page = await checked(editor, changed, name="p.csv", update="yes")
    assert "<dt>To update</dt><dd>1</dd>" in page
    await editor.post(path, do="store")
    assert "<dt>Updated</dt><dd>1</dd>" in await settled(editor, path)
    after = await api.live[Products].get(product.id)
    assert after is not None
    assert after.name == "Lantern"


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.csv", b"name;category;price\n", "separated by semicolons"),
        ("a.ndjson", b"[{}]", "one product per line"),
    ],
)
async def test_unreadable_import_says_why_and_cannot_be_stored(
    api: Api, editor: Visitor, name: str, content: bytes, told: str
) -> None:
    _, page = await checked(editor, content, name=name)
    assert told in page
    assert 'value="store"' not in page
    await cleared(api)


async def test_repeated_row_of_a_product_is_faulty_and_changes_nothing(
    api: Api, editor: Visitor
) -> None:
    lamp = await api.product(name="Lamp")
    own = {"id": lamp.id, "name": "Lamp"}
    new = [{**GOOD, "name": f"Lamp {number}"} for number in range(SMALL.rows)]
    rows = lines(own, {**own, "name": "Lamp 2"}, *new, {**own, "price": 7})
    path, page = await checked(editor, rows, update="yes")
    assert "is also in an earlier row" in page
    table = csv.DictReader(io.StringIO((await editor.get(f"{path}/faults")).text))
    assert [row["line"] for row in table] == ["2", f"{SMALL.rows + 3}"]
    await editor.post(path, do="store")
    assert heading(await settled(editor, path)).startswith(f"{SMALL.rows} products stored")
    assert await api.live[Products].get(lamp.id) == lamp


async def test_import_is_its_senders_alone_and_of_no_viewer(api: Api, editor: Visitor) -> None:
    path, _ = await checked(editor, lines(GOOD))
    _, viewer = await signed_in(api)
    _, other = await signed_in(api, "admin")
    assert (await viewer.get("/products/import")).status_code == 403
    assert (await send(viewer, lines(GOOD))).status_code == 403
    for answer in (
        await other.get(path),
        await other.get(f"{path}/faults"),
        await other.post(path, do="store"),
        await other.post(path, do="discard"),
    ):
        assert answer.status_code == 404


async def test_import_of_a_demoted_sender_stops_after_the_batch_under_way(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, editor = await signed_in(api, "editor")
    admin = await api.caller("admin")
    path, _ = await checked(editor, lines(GOOD) * (2 * SMALL.rows))

    async def demoting(*args: Any) -> AsyncIterator[ImportOutcome]:
        async for outcome in store_in_batches(*args):
            await admin.patch(f"/users/{user.id}", json={"role": "viewer"})
            yield outcome

    monkeypatch.setattr("portico.resource.uploads.store_in_batches", demoting)
    await begin(api, user, path)
    upload = await ended(api)
    assert (upload.state, upload.inserted) == ("failed", SMALL.rows)
    assert "may no longer change products" in upload.problem


async def test_failed_batch_of_an_import_is_not_counted(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, editor = await signed_in(api, "editor")
    faulty = {**GOOD, "price": -1}
    content = lines(GOOD) * (SMALL.rows - 1) + lines(faulty, GOOD, faulty)
    path, _ = await checked(editor, content)
    move = api.live[Uploads].move

    async def breaks(tx: Transaction, before: Upload, after: Upload) -> bool:
        moved = await move(tx, before, after)
        if after.state == "storing" and after.line > SMALL.rows:
            raise RuntimeError("nobody thought of this")
        return moved

    monkeypatch.setattr(api.live[Uploads], "move", breaks)
    await begin(api, user, path)
    with suppress(RuntimeError):  # unless the server's own job is the first
        await job_of(api).run()
    upload = await ended(api)
    assert (upload.state, upload.line) == ("failed", SMALL.rows)
    assert (upload.inserted, upload.faulty) == (SMALL.rows - 1, 1)
    assert [row.line for row in await api.live[Uploads].rejected(upload.id)] == [SMALL.rows]
    stored = [each async for batch in api.live[Products].batches() for each in batch]
    assert len(stored) == SMALL.rows - 1


async def test_import_of_a_killed_process_resumes_after_the_last_row(
    api: Api, editor: Visitor
) -> None:
    lamp = await api.product(name="Lamp")
    first, again = ({"id": lamp.id, "price": price} for price in (7, 8))
    await checked(editor, lines(GOOD, first, {**GOOD, "name": "Last"}, again), update="yes")
    counts = {"line": 2, "inserted": 1, "updated": 1, "faulty": 0}
    await leave(api, state="storing", seen_at=api.clock(), **counts)
    await job_of(api).run()
    (waiting,) = await api.live[Uploads].all()
    assert waiting.under_way
    api.clock.advance(seconds=SILENT // SECOND)
    upload = await ended(api)
    assert (upload.state, upload.inserted, upload.updated, upload.faulty) == ("stored", 2, 1, 1)
    made = [each async for batch in api.live[Products].batches() for each in batch]
    assert made[0] == lamp, "the row that repeats an earlier one is faulty"
    assert [each.name for each in made[1:]] == ["Last"]


async def test_import_taken_over_by_another_process_stops_in_the_first(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, editor = await signed_in(api, "editor")
    await checked(editor, lines(*({**GOOD, "name": f"Lamp {n}"} for n in range(3))))
    (before,) = await api.live[Uploads].all()
    mine = msgspec.structs.replace(before, state="storing", line=0, seen_at=0)
    others = msgspec.structs.replace(mine, line=2, inserted=2, seen_at=api.clock())
    rejected = api.live[Uploads].rejected

    async def stands_still(upload_id: int) -> list[Rejected]:
        async with api.live.db.transaction() as tx:
            await api.live[Uploads].move(tx, mine, others)
        return await rejected(upload_id)

    monkeypatch.setattr(api.live[Uploads], "rejected", stands_still)
    async with api.live.db.transaction() as tx:
        await api.live[Uploads].move(tx, before, mine)
    await job_of(api).run()
    assert await api.live[Uploads].all() == [others]
    assert [each async for batch in api.live[Products].batches() for each in batch] == []


async def test_import_under_way_is_not_tidied_by_age(
    api: Api,
) -> None:
    user, editor = await signed_in(api, "editor")
    path, _ = await checked(editor, lines(GOOD))
    api.clock.advance(milliseconds=KEPT - SECOND)
    await begin(api, user, path)
    api.clock.advance(seconds=2)
    await Tidy(api.live, "this").run()
    assert (await ended(api)).state == "stored"
    api.clock.advance(milliseconds=KEPT)
    await Tidy(api.live, "this").run()
    assert await api.live[Uploads].all() == []


async def test_orphaned_upload_is_removed_after_its_time(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    await checked(editor, lines(GOOD))
    (kept,) = files(api)
    old, fresh = kept.with_name("old"), kept.with_name("fresh")
    for path in (old, fresh, kept):
        path.touch()
        at = api.clock() // SECOND - (110 if path is fresh else 3600)  # which may still be sent
        os.utime(path, (at, at))

    await job_of(api).run()
    assert set(files(api)) == {kept, fresh}


async def lost(api: Api, editor: Visitor) -> list[str]:
    """The paths of as many files as may wait, which were to be stored when their host was
    exchanged."""
    paths = [(await checked(editor, lines(GOOD)))[0] for _ in range(MAX_WAITING)]
    for file in files(api):
        file.unlink()
    for path in paths:
        await editor.post(path, do="store")
    return paths


async def test_import_is_checked_then_stored_once_on_confirmation_and_audited(api: Api) -> None:
    user, editor = await signed_in(api, "editor")
    path, page = await checked(editor, lines(GOOD, {**GOOD, "price": -1}, GOOD))
    assert heading(page) == "2 rows can be imported, 1 row cannot"
    assert 'Line">2</th><td data-label="Fault"><span>price must not be negative' in page
    assert (await editor.get("/products")).text.count("/products/1") == 0

    again = [await editor.post(path, do="store") for _ in range(2)]
    assert [answer.status_code for answer in again] == [303, 303]
    assert heading(await settled(editor, path)) == "2 products stored"
    assert (
        '<p id="count" class="quiet" role="status">2 products</p>'
        in (await editor.get("/products")).text
    )
    await cleared(api)
    (note,) = await api.live[Audit].page(AuditFilter(action="products.imported"), limit=9)
    assert (note.user_id, note.credential) == (user.id, "session")
    assert json.loads(note.details) == {"inserted": 2, "updated": 0}


async def test_import_faults_show_the_beginnings_of_their_values_and_no_formula(
    editor: Visitor,
) -> None:
    content = lines(
        {**GOOD, "price": "=1", "stock_quantity": -5.5},
        {**GOOD, "status": "<b>&"},
        {**GOOD, "name": "x" * 300},
        {**GOOD, "images": [{"url": "ftp://a"}]},
        {"name": "Lamp"},
    )
    told = ["=1", "-5.5", "<b>&", f"{'x' * 60}…", "ftp://a"]
    path, page = await checked(editor, content)
    assert heading(page) == "0 rows can be imported, 5 rows cannot"
    shown = re.findall(r": <code>([^<]*)</code>", (await editor.get(path)).text)
    assert [unescape(value) for value in shown] == told
    table = csv.DictReader(io.StringIO((await editor.get(f"{path}/faults")).text))
    values = [row["value"] for row in table if row["value"]]
    assert [value.removeprefix("'") for value in values] == told
    assert not any(value.startswith(("=", "-")) for value in values)


async def test_file_of_import_faults_is_bounded(editor: Visitor) -> None:
    rows = lines({**GOOD, "=cmd": 1}) + b"no json\n" * (MAX_TOLD + 50)
    path, page = await checked(editor, rows)
    assert heading(page) == f"0 rows can be imported, {MAX_TOLD + 51:,} rows cannot"
    answer = await editor.get(f"{path}/faults")
    told = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(told) == MAX_TOLD
    first = {"line": "1", "field": "'=cmd", "message": "unknown field", "value": "1"}
    assert told[0] == first


async def test_refused_upload_is_not_stored(
    api: Api, editor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, origin = f"{DASHBOARD}/products/import", {"origin": ORIGIN}
    whole = editor.client.build_request(
        "POST", url, data={"csrf": editor.csrf}, files={"file": ("a.ndjson", lines(GOOD))}
    )
    content = whole.read()
    kind, length = {"content-type": whole.headers["content-type"]}, {"content-length": "105906176"}

    async def post(content: bytes, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await editor.client.post(url, content=content, headers=origin | kind | named)

    cut = await post(content[:-60])
    assert (cut.status_code, said(cut)) == (
        422,
        "The file was not received completely. Upload it again.",
    )
    assert (await post(content, **length)).status_code == 413
    assert (await post(b"x", content_type="multipart/form-data")).status_code == 415
    assert (await send(editor, b"", name="")).status_code == 422
    for token in ("", "0" * 32):
        assert (await send(editor, lines(GOOD), csrf=token)).status_code == 403
    monkeypatch.setattr("portico.resource.uploads.MAX_BYTES", 1_000)
    large = await send(editor, lines(GOOD) * 100)
    assert large.status_code == 422
    assert "larger than" in said(large)
    assert files(api) == []


async def test_concurrent_uploads_are_bounded_until_one_is_discarded(
    api: Api, editor: Visitor
) -> None:
    answers = await asyncio.gather(*(send(editor, lines(GOOD)) for _ in range(9)))
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses == [303] * MAX_WAITING + [409] * (9 - MAX_WAITING)
    assert len(await api.live[Uploads].all()) == len(files(api)) == MAX_WAITING
    (path, *_) = [one.headers["location"] for one in answers if one.status_code == 303]
    path = path.removeprefix("/dashboard")
    await settled(editor, path)
    assert (await editor.post(path, do="discard")).status_code == 303
    assert (await editor.get(path)).status_code == 404
    await checked(editor, lines(GOOD))


async def test_upload_to_a_full_disk_is_unavailable(
    editor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", fail)
        answer = await send(editor, lines(GOOD))
    assert answer.status_code == 503
    assert said(answer) == "The file could not be stored here."


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (0, "The server has lost part of the file: send it again."),
        (1, "The server has lost part of the file: send the rows after line 1 again."),
    ],
)
async def test_truncated_import_fails_and_names_the_rows_to_send_again(
    api: Api, editor: Visitor, line: int, told: str
) -> None:
    await checked(editor, lines(GOOD, GOOD))
    await leave(api, state="storing", line=line, inserted=line, seen_at=0)
    (file,) = files(api)
    file.write_bytes(lines(GOOD))  # as where the machine lost its power
    upload = await ended(api)
    assert (upload.state, upload.inserted, upload.problem) == ("failed", line, told)


async def test_import_of_a_suspended_sender_stores_nothing(api: Api) -> None:
    user, editor = await signed_in(api, "editor")
    path, _ = await checked(editor, lines(GOOD))
    await suspend(api.live, user.id, OPERATOR)
    await begin(api, user, path)
    upload = await ended(api)
    assert (upload.state, upload.inserted) == ("failed", 0)
    assert "may no longer change products" in upload.problem


async def test_lost_import_can_be_discarded_and_does_not_count_against_the_limit(
    api: Api, editor: Visitor
) -> None:
    path, *_ = await lost(api, editor)
    early = await editor.post(path, do="discard")
    assert (early.status_code, said(early)) == (409, "This file is being stored.")
    assert (await send(editor, lines(GOOD))).status_code == 409
    api.clock.advance(milliseconds=LOST + 1)
    page = (await editor.get(path)).text
    assert "is not responding" in page
    assert 'name="do" value="discard">' in page
    for _ in range(MAX_WAITING):
        await checked(editor, lines(GOOD))
    assert f'{path}"' in (await editor.get("/products/import")).text
    assert (await editor.post(path, do="discard")).status_code == 303
    assert (await editor.get(path)).status_code == 404
