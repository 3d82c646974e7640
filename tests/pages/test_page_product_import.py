"""Products from a file: sent to a page, checked, stored."""

import asyncio
import csv
import errno
import io
import json
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from driving import Api, settings_for
from operating import eventually, turns
from pages.visiting import DASHBOARD, ORIGIN, Visitor, said, signed_in
from portico.contract.product_files import read_products
from portico.domain.audit import OPERATOR
from portico.domain.errors import Unavailable
from portico.domain.imports import Outcome
from portico.domain.times import SECOND
from portico.domain.uploads import KEPT, LOST, MAX_TOLD, MAX_WAITING, SILENT, Rejected, Upload
from portico.domain.users import User
from portico.jobs.tidy import Tidy
from portico.jobs.uploads import ProcessUploads
from portico.services.imports import SMALL, BatchLimits, check_in_batches, store_in_batches
from portico.services.suspension import suspend
from portico.services.uploads import begin_storing, discard, path_of, take_in
from portico.storage.audit import AuditFilter
from portico.storage.database import Transaction

pytestmark = pytest.mark.one_engine

GOOD = {"name": "Lamp", "category": "light", "price": 1}


@pytest.fixture
def environ(each_database: dict[str, str]) -> dict[str, str]:
    return each_database


def lines(*rows: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def files(api: Api) -> list[Path]:
    """What lies in the data directory."""
    directory = api.live.uploads_directory
    return list(directory.iterdir()) if directory.is_dir() else []


async def cleared(api: Api, left: int = 0) -> None:
    """Waits until the file is gone, which it is right after what came of it is stored."""
    await eventually(lambda: len(files(api)) <= left, "the end of the file")


async def send(
    visitor: Visitor,
    content: bytes,
    name: str = "a.ndjson",
    to: str = "/products/import",
    **fields: str,
) -> httpx.Response:
    """The form with a file, as a browser sends it: its fields first."""
    sent = {"csrf": visitor.csrf, **fields}
    return await visitor.client.post(
        DASHBOARD + to,
        data={key: value for key, value in sent.items() if value},
        files={"file": (name, content)},
        headers={"origin": ORIGIN},
    )


async def settled(visitor: Visitor, path: str) -> str:
    """The page of an import once nobody works on it any more."""

    async def shown() -> str:
        page = await visitor.get(path)
        assert page.status_code == 200, page.text
        return "" if "<progress" in page.text else unescape(page.text)

    text: str = await eventually(shown, "the end of the import")
    return text


async def checked(visitor: Visitor, content: bytes, **fields: str) -> tuple[str, str]:
    """The path of an import and its page, once it is checked."""
    answer = await send(visitor, content, **fields)
    assert answer.status_code == 303, answer.text
    path = answer.headers["location"].removeprefix("/dashboard")
    return path, await settled(visitor, path)


def heading(page: str) -> str:
    found = re.search(r'<div role="status" id="told"><h2>(.*?)</h2>', page)
    assert found, page
    return found[1]


async def test_import_is_checked_then_stored_on_confirmation(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    path, page = await checked(editor, lines(GOOD, {**GOOD, "price": -1}, GOOD))
    assert heading(page) == "2 rows can be imported, 1 row cannot"
    assert "Line 2: price must not be negative" in page
    assert re.findall("<(title|h1)>a.ndjson", page) == ["title", "h1"]
    assert (await editor.get("/products")).text.count("/products/1") == 0

    again = [await editor.post(path, do="store") for _ in range(2)]
    assert [answer.status_code for answer in again] == [303, 303]
    page = await settled(editor, path)
    assert heading(page) == "2 products stored"
    assert (
        '<p id="count" class="quiet" role="status">2 products</p>'
        in (await editor.get("/products")).text
    )
    await cleared(api)


async def test_import_starts_without_waiting_for_a_poll(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.jobs.uploads.POLL_SECONDS", 600)
    async with Api(settings_for(tmp_path, environ)) as api:
        _, editor = await signed_in(api, "editor")
        path, page = await checked(editor, lines(GOOD))
        assert heading(page) == "1 row can be imported"
        await editor.post(path, do="store")
        assert heading(await settled(editor, path)) == "1 product stored"


async def test_import_check_yields_to_requests(api: Api) -> None:
    rows = io.BytesIO(lines(GOOD) * 1_000)
    checking = check_in_batches(api.live, read_products(rows, "ndjson"))
    async with turns() as seen:
        outcomes = [each async for each in checking]
    assert sum(outcome.inserted for outcome in outcomes) == 1_000
    assert seen.count >= 20


async def test_import_check_of_large_rows_yields_to_requests(api: Api) -> None:
    row = GOOD | {"name": "x" * 100_000}
    rows = read_products(io.BytesIO(lines(row) * 20), "ndjson")
    async with turns() as seen:
        async for _ in check_in_batches(api.live, rows):
            pass
    assert seen.count >= 20


async def test_import_is_audited_once_with_its_counts(api: Api) -> None:
    user, editor = await signed_in(api, "editor")
    path, _ = await checked(editor, lines(GOOD, GOOD))
    await editor.post(path, do="store")
    await settled(editor, path)

    (note,) = await api.live.audit.page(AuditFilter(action="products.imported"), limit=9)
    assert (note.user_id, note.credential) == (user.id, "session")
    assert json.loads(note.details) == {"inserted": 2, "updated": 0}


async def test_import_updates_exported_products_on_request(api: Api) -> None:
    product = await api.product(name="Lamp", status="active")
    await api.product(name="Chair")
    _, editor = await signed_in(api, "editor")
    table = (await editor.get("/products/export?format=csv")).text
    await editor.get("/products/import")

    _, page = await checked(editor, table.encode(), name="p.csv")
    assert heading(page) == "0 rows can be imported, 2 rows cannot"
    path, page = await checked(editor, table.encode(), name="p.csv", update="yes")
    assert heading(page) == "2 rows can be imported"
    assert "<dt>Unchanged</dt><dd>2</dd>" in page
    assert "Import 0" not in page

    changed = table.replace(",Lamp,", ",Lantern,").encode()
    path, page = await checked(editor, changed, name="p.csv", update="yes")
    assert "<dt>To update</dt><dd>1</dd>" in page
    await editor.post(path, do="store")
    assert "<dt>Updated</dt><dd>1</dd>" in await settled(editor, path)
    after = await api.live.products.get(product.id)
    assert after is not None
    assert after.name == "Lantern"


LONG = f"{'9' * 60}…"


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.csv", b'name,category,price\nLamp,l,"12,50"\n', ["12,50"]),
        ("a.csv", b"name,category,price,stock_quantity\nLamp,l,-2.50,5.5\n", ["-2.50", "5.5"]),
        ("a.csv", b"name,category,price,status\nLamp,l,1,<b>&\n", ["<b>&"]),
        ("a.csv", b"name,category,price\nLamp,l," + b"9" * 300 + b"x\n", [LONG]),
        ("a.csv", b"id,name,category,price\n007,Lamp,l,1\n", ["007"]),
        ("a.csv", b"name,category,price\n,l,1\n", []),
        ("a.ndjson", lines({**GOOD, "price": True}), ["true"]),
        ("a.ndjson", lines({**GOOD, "price": None, "name": {"a": 1}}), []),
        ("a.ndjson", lines({**GOOD, "images": [{"url": "ftp://a"}]}), ["ftp://a"]),
        ("a.ndjson", lines({**GOOD, "status": "\ud800=1"}), ["\\ud800=1"]),
    ],
)
async def test_import_fault_shows_the_beginning_of_its_value(
    api: Api, name: str, content: bytes, told: list[str]
) -> None:
    _, editor = await signed_in(api, "editor")
    path, _ = await checked(editor, content, name=name)
    shown = re.findall(r": <code>([^<]*)</code>", (await editor.get(path)).text)
    assert [unescape(value) for value in shown] == told

    table = csv.DictReader(io.StringIO((await editor.get(f"{path}/faults")).text))
    values = [row["value"] for row in table]
    assert [value.removeprefix("'") for value in values if value] == told
    assert not any(value.startswith(("=", "-")) for value in values)


async def test_file_of_import_faults_is_bounded_and_runs_no_formula(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    rows = lines({**GOOD, "=cmd": 1}) + b"no json\n" * (MAX_TOLD + 50)
    path, page = await checked(editor, rows)
    assert heading(page) == f"0 rows can be imported, {MAX_TOLD + 51:,} rows cannot"
    assert "These are the first 20 of 1,051." in page

    answer = await editor.get(f"{path}/faults")
    told = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(told) == MAX_TOLD
    first = {"line": "1", "field": "'=cmd", "message": "unknown field", "value": "1"}
    assert told[0] == first
    assert "attachment" in answer.headers["content-disposition"]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.csv", b"\x89PNG\r\n\x1a\n\0", "The CSV header must be UTF-8: save the file as UTF-8."),
        (
            "a.csv",
            "name,category,price\nL\xe4mp,l,1\n".encode("utf-16"),
            "This file is UTF-16: save it as UTF-8.",
        ),
        ("a.csv", b"name;category;price\n", "separated by semicolons"),
        ("a.csv", b"name,name,category,price\n", "name appears twice"),
        ("a.json", b"[{}]", "one product per line"),
        ("a.ndjson", b"[{}]", "one product per line"),
        ("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1", "This is a workbook (.xls)"),
        ("a.csv", b"", "The first line must be a CSV header"),
    ],
)
async def test_unreadable_import_says_why_and_cannot_be_stored(
    api: Api, name: str, content: bytes, told: str
) -> None:
    _, editor = await signed_in(api, "editor")
    _, page = await checked(editor, content, name=name)
    assert told in page
    assert 'value="store"' not in page
    await cleared(api)


@pytest.mark.parametrize(
    ("content", "counts"),
    [
        ("\ufeffname,category,price\nLämp,l,1\n".encode(), "1 row can be imported"),
        (
            "name,category,price\nLämp,l,1\n".encode("latin-1"),
            "0 rows can be imported, 1 row cannot",
        ),
        (b"name,category,price\nname,category,price\n", "0 rows can be imported, 1 row cannot"),
        (
            b"name,category,price\n" + b"x" * 10_000_000 + b",l,1\nLamp,l,1\n",
            "1 row can be imported, 1 row cannot",
        ),
    ],
)
async def test_unreadable_rows_of_an_import_are_counted(
    api: Api, content: bytes, counts: str
) -> None:
    _, editor = await signed_in(api, "editor")
    _, page = await checked(editor, content, name="a.csv")
    assert heading(page) == counts


async def test_import_names_rows_that_changed_after_the_check(api: Api) -> None:
    kept = await api.product(name="Lamp")
    gone = await api.product(name="Chair")
    _, editor = await signed_in(api, "editor")
    rows = lines(*({"id": one.id, "price": 7} for one in (kept, gone)))
    path, page = await checked(editor, rows, update="yes")
    assert "<dt>To update</dt><dd>2</dd>" in page
    async with api.live.db.transaction() as tx:
        await api.live.products.delete(tx, gone)

    await editor.post(path, do="store")
    page = await settled(editor, path)
    assert heading(page) == "1 product stored"
    assert f"there is no product {gone.id}" in page


async def test_repeated_row_of_a_product_is_faulty_and_changes_nothing(api: Api) -> None:
    lamp, other = await api.product(name="Lamp"), await api.product(name="Chair")
    _, editor = await signed_in(api, "editor")
    own = {"id": lamp.id, "name": "Lamp"}
    between = [{"id": other.id, "stock_quantity": number} for number in (1, 2)]
    new = [{**GOOD, "name": f"Lamp {number}"} for number in range(SMALL.rows)]
    rows = lines(own, between[0], {**own, "name": "Lamp 2"}, *new, between[1], {**own, "price": 7})
    path, page = await checked(editor, rows, update="yes")
    last = SMALL.rows + 5
    table = (await editor.get(f"{path}/faults")).text
    assert [row["line"] for row in csv.DictReader(io.StringIO(table))] == [
        "3",
        f"{last - 1}",
        f"{last}",
    ]
    assert "is also in an earlier row" in page

    await editor.post(path, do="store")
    assert heading(await settled(editor, path)).startswith(f"{SMALL.rows + 1} products stored")
    found = await api.live.products.several([lamp.id, other.id])
    assert found[lamp.id] == lamp
    assert found[other.id].stock_quantity == 1


async def test_repetition_of_a_faulty_row_is_faulty(api: Api) -> None:
    lamp = await api.product(name="Lamp")
    _, editor = await signed_in(api, "editor")
    own = {"id": lamp.id, "name": "Lamp"}
    between = [{**GOOD, "name": f"Lamp {number}"} for number in range(SMALL.rows)]
    rows = lines({**own, "price": -1}, *between, {**own, "name": "Lamp 2"})
    _, page = await checked(editor, rows, update="yes")
    assert heading(page) == f"{SMALL.rows} rows can be imported, 2 rows cannot"
    assert "is also in an earlier row" in page


async def test_repeated_row_of_a_product_made_by_the_same_file_is_faulty(
    api: Api,
) -> None:
    """The first row is a batch by itself, and the others were read before it was stored."""
    text = lines({**GOOD, "description": "x" * 1_000}, {"id": 1, "price": 2}, {"id": 1, "price": 3})
    rows = read_products(io.BytesIO(text), "ndjson", update=True)
    outcomes = [
        one async for one in store_in_batches(api.live, rows, OPERATOR, BatchLimits(9, 1_000))
    ]
    assert [(one.inserted, one.updated) for one in outcomes] == [(1, 0), (0, 1)]
    (refused,) = outcomes[1].refused
    assert refused.line == 3
    assert refused.faults[0].message.startswith("is also in an earlier row")
    product = await api.live.products.get(1)
    assert product is not None
    assert product.price == 20_000


async def test_import_is_its_senders_alone_and_of_no_viewer(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    path, _ = await checked(editor, lines(GOOD))
    _, viewer = await signed_in(api)
    _, other = await signed_in(api, "admin")

    assert (await viewer.get("/products/import")).status_code == 403
    assert (await send(viewer, lines(GOOD))).status_code == 403
    assert (await other.get(path)).status_code == 404
    assert (await other.post(path, do="store")).status_code == 404
    assert (await other.get(f"{path}/faults")).status_code == 404
    assert (await other.post(path, do="discard")).status_code == 404


async def test_upload_without_csrf_token_is_not_stored(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    for token in ("", "0" * 32):
        assert (await send(editor, lines(GOOD), csrf=token)).status_code == 403
    assert files(api) == []


async def test_import_form_without_a_file_is_refused(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    answer = await send(editor, b"", name="")
    assert answer.status_code == 422, answer.text
    url = f"{DASHBOARD}/products/import"
    headers = {"origin": ORIGIN, "content-type": "multipart/form-data"}
    broken = await editor.client.post(url, content=b"x", headers=headers)
    assert broken.status_code == 415


async def test_interrupted_upload_leaves_nothing(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    whole = editor.client.build_request(
        "POST",
        f"{DASHBOARD}/products/import",
        data={"csrf": editor.csrf},
        files={"file": ("a.ndjson", lines(GOOD, GOOD))},
    ).read()
    kind = whole.split(b"\r\n", 1)[0][2:].decode()
    answer = await editor.client.post(
        f"{DASHBOARD}/products/import",
        content=whole[:-60],
        headers={"origin": ORIGIN, "content-type": f"multipart/form-data; boundary={kind}"},
    )
    assert answer.status_code == 422
    assert said(answer) == "The file was not received completely. Upload it again."
    assert files(api) == []


async def test_upload_whose_file_vanishes_is_refused(api: Api) -> None:
    user, editor = await signed_in(api, "editor")

    async def resting() -> AsyncIterator[bytes]:
        yield lines(GOOD)
        (path,) = files(api)
        path.unlink()
        yield lines(GOOD)

    with pytest.raises(Unavailable, match="send it again"):
        await take_in(api.live, user.id, "a.ndjson", resting(), OPERATOR, updates=False)
    assert await api.live.uploads.all() == []
    assert (await send(editor, lines(GOOD))).status_code == 303


async def test_upload_beyond_the_limit_is_refused(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.services.uploads.MAX_BYTES", 1_000)
    _, editor = await signed_in(api, "editor")
    answer = await send(editor, lines(GOOD) * 100)
    assert answer.status_code == 422
    assert "larger than" in said(answer)
    assert files(api) == []


async def test_upload_of_a_declared_length_beyond_the_limit_is_refused(
    api: Api,
) -> None:
    _, editor = await signed_in(api, "editor")
    answer = await editor.client.post(
        f"{DASHBOARD}/products/import",
        data={"csrf": editor.csrf},
        files={"file": ("a.ndjson", lines(GOOD))},
        headers={"origin": ORIGIN, "content-length": str(101 << 20)},
    )
    assert answer.status_code == 413
    assert "<p>The file is larger than 100 MiB.</p>" in answer.text
    assert files(api) == []


async def test_waiting_imports_of_an_account_are_bounded(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    paths = [(await checked(editor, lines(GOOD)))[0] for _ in range(3)]
    refused = await send(editor, lines(GOOD))
    assert refused.status_code == 409
    assert len(files(api)) == 3

    assert (await editor.post(paths[0], do="discard")).status_code == 303
    assert (await editor.get(paths[0])).status_code == 404
    assert len(files(api)) == 2
    await checked(editor, lines(GOOD))


async def test_failed_imports_do_not_displace_waiting_ones(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    paths: list[str] = []
    for _ in range(MAX_WAITING):
        paths.append((await checked(editor, lines(GOOD)))[0])
        if len(paths) < MAX_WAITING:
            await checked(editor, b"no header\n", name="a.csv")
            await cleared(api, len(paths))
    assert (await send(editor, lines(GOOD))).status_code == 409
    page = (await editor.get("/products/import")).text
    assert all(f"/dashboard{path}" in page for path in paths)


async def test_concurrent_uploads_are_bounded(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    answers = await asyncio.gather(*(send(editor, lines(GOOD)) for _ in range(20)))
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses == [303] * MAX_WAITING + [409] * (20 - MAX_WAITING)
    assert len(await api.live.uploads.all()) == len(files(api)) == MAX_WAITING


@pytest.mark.parametrize("problem", [errno.ENOSPC, errno.EACCES, errno.EROFS])
async def test_upload_to_an_unwritable_directory_is_unavailable(
    api: Api, problem: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(problem, os.strerror(problem))

    _, editor = await signed_in(api, "editor")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", fail)
        answer = await send(editor, lines(GOOD))
    assert answer.status_code == 503
    assert said(answer) == "The file could not be stored here."


async def test_import_discarded_while_it_is_claimed_ends_silently(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, editor = await signed_in(api, "editor")
    path, _ = await checked(editor, lines(GOOD))
    (upload,) = await api.live.uploads.all()
    again = msgspec.structs.replace(upload, state="checking", seen_at=0)
    rejected = api.live.uploads.rejected

    async def meanwhile(upload_id: int) -> list[Rejected]:
        await discard(api.live, upload_id, user.id, OPERATOR)
        return await rejected(upload_id)

    monkeypatch.setattr(api.live.uploads, "rejected", meanwhile)
    async with api.live.db.transaction() as tx:
        await api.live.uploads.move(tx, upload, again)
    await ProcessUploads(api.live, api.live).run()
    assert (await editor.get(path)).status_code == 404
    assert files(api) == []


async def test_truncated_import_stores_nothing(api: Api) -> None:
    user, editor = await signed_in(api, "editor")
    content = lines(GOOD, GOOD)
    path, _ = await checked(editor, content)
    (file,) = files(api)
    file.write_bytes(content[: len(content) // 2])  # as where the machine lost its power
    await begin(api, user, path)
    upload = await ended(api)
    assert (upload.state, upload.inserted) == ("failed", 0)
    assert upload.problem == "The server has lost part of the file: send it again."


async def test_import_truncated_half_way_names_the_rows_to_send_again(
    api: Api,
) -> None:
    _, editor = await signed_in(api, "editor")
    await checked(editor, lines(GOOD, GOOD))
    await leave(api, state="storing", line=1, inserted=1, seen_at=0)
    (file,) = files(api)
    file.write_bytes(lines(GOOD))
    upload = await ended(api)
    assert (upload.state, upload.inserted) == ("failed", 1)
    assert upload.problem.endswith("part of the file: send the rows after line 1 again.")


async def demote(api: Api, user: User) -> None:
    admin = await api.caller("admin")
    assert (await admin.patch(f"/users/{user.id}", json={"role": "viewer"})).status_code == 200


async def suspend_sender(api: Api, user: User) -> None:
    await suspend(api.live, user.id, OPERATOR)


@pytest.mark.parametrize("end", [demote, suspend_sender])
async def test_import_of_a_sender_without_permission_stores_nothing(
    api: Api, end: Callable[[Api, User], Awaitable[None]]
) -> None:
    user, editor = await signed_in(api, "editor")
    path, _ = await checked(editor, lines(GOOD))
    await end(api, user)
    await begin(api, user, path)
    upload = await ended(api)
    assert (upload.state, upload.inserted) == ("failed", 0)
    assert "may no longer change products" in upload.problem


async def test_import_of_a_demoted_sender_stops_after_the_batch_under_way(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, editor = await signed_in(api, "editor")
    admin = await api.caller("admin")
    path, _ = await checked(editor, lines(GOOD) * (2 * SMALL.rows))

    async def demoting(*args: Any) -> AsyncIterator[Outcome]:
        async for outcome in store_in_batches(*args):
            await admin.patch(f"/users/{user.id}", json={"role": "viewer"})
            yield outcome

    monkeypatch.setattr("portico.jobs.uploads.store_in_batches", demoting)
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
    move = api.live.uploads.move

    async def breaks(tx: Transaction, before: Upload, after: Upload) -> bool:
        moved = await move(tx, before, after)
        if after.state == "storing" and after.line > SMALL.rows:
            raise RuntimeError("nobody thought of this")
        return moved

    monkeypatch.setattr(api.live.uploads, "move", breaks)
    await begin(api, user, path)
    with suppress(RuntimeError):  # unless the server's own job is the first
        await ProcessUploads(api.live, api.live).run()
    upload = await ended(api)
    assert (upload.state, upload.line) == ("failed", SMALL.rows)
    assert (upload.inserted, upload.faulty) == (SMALL.rows - 1, 1)
    assert [row.line for row in await api.live.uploads.rejected(upload.id)] == [SMALL.rows]
    stored = [each async for batch in api.live.products.batches() for each in batch]
    assert len(stored) == SMALL.rows - 1


async def test_sandbox_import_is_its_live_senders(
    api: Api,
) -> None:
    await api.account("editor")
    user, editor = await signed_in(api, "editor")
    await editor.get("/sandbox/products/import")
    mirror = await api.sandbox.users.by_account(user.id)
    assert mirror is None or mirror.id != user.id
    sent = await send(editor, lines(GOOD), to="/sandbox/products/import")
    path = sent.headers["location"].removeprefix("/dashboard")
    await settled(editor, path)
    await editor.post(path, do="store")
    assert heading(await settled(editor, path)) == "1 product stored"


async def begin(api: Api, user: User, path: str) -> None:
    """Has the products of an import stored, as its sender asks."""
    await begin_storing(api.live, int(path.rpartition("/")[2]), user.id, OPERATOR)


async def leave(api: Api, **values: Any) -> None:
    """Stores how far another process has come with the one import that there is."""
    (before,) = await api.live.uploads.all()
    async with api.live.db.transaction() as tx:
        await api.live.uploads.move(tx, before, msgspec.structs.replace(before, **values))


async def ended(api: Api) -> Upload:
    """The one import that there is, once nobody works on it any more."""
    job = ProcessUploads(api.live, api.live)

    async def settled() -> Upload | None:
        await job.run()
        (upload,) = await api.live.uploads.all()
        return None if upload.under_way else upload

    upload: Upload = await eventually(settled, "the end of the import")
    return upload


async def test_import_of_a_killed_process_resumes_after_the_last_row(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    await checked(editor, lines(*({**GOOD, "name": f"Lamp {n}"} for n in range(3))))
    await leave(api, state="storing", line=2, inserted=2, seen_at=api.clock())

    await ProcessUploads(api.live, api.live).run()
    (waiting,) = await api.live.uploads.all()
    assert waiting.under_way
    api.clock.advance(seconds=SILENT // SECOND)
    upload = await ended(api)
    assert (upload.state, upload.inserted) == ("stored", 3)
    made = [each.name async for batch in api.live.products.batches() for each in batch]
    assert made == ["Lamp 2"]


async def test_resumed_import_knows_the_products_of_earlier_rows(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    lamp = await api.product(name="Lamp")
    rows = lines(GOOD, {"id": lamp.id, "price": 7}, GOOD, {"id": lamp.id, "price": 8})
    await checked(editor, rows, update="yes")
    await leave(api, state="storing", line=2, inserted=1, updated=1, faulty=0)
    api.clock.advance(seconds=SILENT // SECOND)
    upload = await ended(api)
    assert (upload.inserted, upload.updated, upload.faulty) == (2, 1, 1)
    assert await api.live.products.get(lamp.id) == lamp


async def test_import_taken_over_by_another_process_stops_in_the_first(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, editor = await signed_in(api, "editor")
    await checked(editor, lines(*({**GOOD, "name": f"Lamp {n}"} for n in range(3))))
    (before,) = await api.live.uploads.all()
    mine = msgspec.structs.replace(before, state="storing", line=0, seen_at=0)
    others = msgspec.structs.replace(mine, line=2, inserted=2, seen_at=api.clock())
    rejected = api.live.uploads.rejected

    async def stands_still(upload_id: int) -> list[Rejected]:
        async with api.live.db.transaction() as tx:
            await api.live.uploads.move(tx, mine, others)
        return await rejected(upload_id)

    monkeypatch.setattr(api.live.uploads, "rejected", stands_still)
    async with api.live.db.transaction() as tx:
        await api.live.uploads.move(tx, before, mine)
    await ProcessUploads(api.live, api.live).run()
    assert await api.live.uploads.all() == [others]
    assert [each async for batch in api.live.products.batches() for each in batch] == []


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
    assert await api.live.uploads.all() == []


async def test_import_waiting_for_another_says_so(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    first, _ = await checked(editor, lines(GOOD))
    second, _ = await checked(editor, lines(GOOD))
    other, one = await api.live.uploads.all()
    elsewhere = {"state": "storing", "seen_at": api.clock()}
    async with api.live.db.transaction() as tx:
        for upload, values in ((other, elsewhere), (one, {"state": "storing", "seen_at": 0})):
            path_of(api.live, upload).rename(path_of(api.live, upload).with_suffix(".away"))
            after = msgspec.structs.replace(upload, **values)
            await api.live.uploads.move(tx, upload, after)

    assert heading((await editor.get(second)).text) == "Waiting for another import"
    assert heading((await editor.get(first)).text) == "Storing the products"
    api.clock.advance(seconds=SILENT // SECOND)
    assert heading((await editor.get(second)).text) == "Storing the products"


async def test_orphaned_upload_is_removed_after_its_time(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    await checked(editor, lines(GOOD))
    (kept,) = files(api)
    old, fresh = kept.with_name("old"), kept.with_name("fresh")
    for path in (old, fresh, kept):
        path.touch()
        at = api.clock() // SECOND - (110 if path is fresh else 3600)  # which may still be sent
        os.utime(path, (at, at))

    await ProcessUploads(api.live, api.live).run()
    assert set(files(api)) == {kept, fresh}


DISCARD = 'name="do" value="discard">'


async def lost(api: Api, editor: Visitor) -> list[str]:
    """The paths of as many files as may wait, which were to be stored when their host was
    exchanged."""
    paths = [(await checked(editor, lines(GOOD)))[0] for _ in range(MAX_WAITING)]
    for file in files(api):
        file.unlink()
    for path in paths:
        await editor.post(path, do="store")
    return paths


async def test_lost_import_can_be_discarded(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    path, *_ = await lost(api, editor)
    assert DISCARD not in (await editor.get(path)).text
    early = await editor.post(path, do="discard")
    assert (early.status_code, said(early)) == (409, "This file is being stored.")
    api.clock.advance(milliseconds=LOST + 1)

    page = (await editor.get(path)).text
    assert "is not responding" in page
    assert DISCARD in page
    assert (await editor.post(path, do="discard")).status_code == 303
    assert (await editor.get(path)).status_code == 404


async def test_lost_imports_do_not_count_against_the_limit(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    await lost(api, editor)
    assert (await send(editor, lines(GOOD))).status_code == 409
    api.clock.advance(milliseconds=LOST + 1)

    for _ in range(MAX_WAITING):
        await checked(editor, lines(GOOD))
    assert (await send(editor, lines(GOOD))).status_code == 409, "those are all here"


async def test_lost_imports_are_listed_beside_later_ones(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    paths = await lost(api, editor)
    api.clock.advance(milliseconds=LOST + 1)
    paths += [(await checked(editor, lines(GOOD)))[0] for _ in range(MAX_WAITING)]

    page = (await editor.get("/products/import")).text

    assert [path for path in paths if f'{path}"' not in page] == []


async def test_import_waiting_on_another_host_is_not_lost(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    path = (await lost(api, editor))[0]
    api.clock.advance(milliseconds=LOST + 1)
    uploads: list[Upload] = await api.live.uploads.all()
    async with api.live.db.transaction() as tx:
        now, lane = api.clock(), {"id": uploads[-1].id}
        assert await api.live.uploads.queue.claim(tx, [(lane, 1)], now=now, until=now)

    assert "Waiting for another import" in (await editor.get(path)).text
    assert (await editor.post(path, do="discard")).status_code == 409
    assert not path_of(api.live, uploads[0]).exists()
