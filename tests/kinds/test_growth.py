"""What becomes of stored records when their files change, and the commands about kinds."""

import os
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from driving import Api, InProcess
from operating import eventually
from portico.cli.main import main
from portico.data.database import AdvisoryLock
from portico.data.migrate import GrowthError
from portico.resource.loading import KindsError, load
from portico.resource.tables import keep

USUAL = "name: str = text(1, 40); size: int = integer(0, 9, default=1)"
HEAD = """from portico.kinds import *


class Note(Record):
    {}


notes = Kind(Note, one="note", many="notes", readers=["viewer"], writers=["editor"]{})
"""


def write(directory: Path, fields: str, options: str = "") -> None:
    """The file of notes with these fields."""
    directory.mkdir(exist_ok=True)
    lines = "\n    ".join(fields.split("; "))
    (directory / "notes.py").write_text(HEAD.format(lines, options and f", {options}"))


@pytest.fixture
def environ(environ: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The stores, and a directory that the test writes."""
    write(tmp_path / "files", USUAL)
    return environ | {"PORTICO_KINDS": str(tmp_path / "files")}


async def restarted(api: Api) -> Api:
    """The same installation after a restart."""
    await api.aclose()
    await api.stop()
    api._clients.clear()  # noqa: SLF001 - they are closed
    await api.start()
    return api


GROWN = [
    (f"{USUAL}; word: str = text(1, 9, default='w')", "", {"size": 3, "word": "w"}),
    (f"{USUAL}; word: str | None = text(1, 9, optional=True)", "sorts=['word']",
     {"size": 3, "word": None}),
    ("name: str = text(1, 40); amount: int = integer(0, 9, was='size')", "", {"amount": 3}),
    ("name: str = text(1, 40, search=True, unique=True)", "sorts=['name']", {}),
    ("name: str = text(1, 40); size: int | None = integer(0, 9, optional=True)",
     "filters=['size'], sorts=['size']", {"size": 3}),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "options", "shown"), GROWN)
async def test_records_stay_and_fields_grow(
    api: Api, tmp_path: Path, fields: str, options: str, shown: dict[str, Any]
) -> None:
    caller = await api.caller()
    user = caller.user
    for name in ("one", "two"):
        assert (await caller.post("/notes", json={"name": name, "size": 3})).status_code == 201
    write(tmp_path / "files", fields, options)
    await restarted(api)
    caller = await api.caller(user=user)
    found = (await caller.get("/notes?order=asc")).json()["data"]
    own = ("id", "name", "created_at", "updated_at")
    assert [{k: v for k, v in one.items() if k not in own} for one in found] == [shown] * 2
    assert (await caller.post("/notes", json={"name": "three", **shown})).status_code == 201
    if "search" in fields:
        hits = (await caller.get("/notes?search=tw")).json()
        assert [one["name"] for one in hits["data"]] == ["two"]
        assert (await caller.post("/notes", json={"name": "one"})).status_code == 409
    write(tmp_path / "files", USUAL)
    if "was=" not in fields:  # what was hidden comes back
        await restarted(api)
        caller = await api.caller(user=user)
        assert [one["size"] for one in (await caller.get("/notes")).json()["data"]][-2:] == [3, 3]


async def test_webhook_for_types_of_a_kind_that_is_gone_holds_no_other_up(
    api: Api, tmp_path: Path
) -> None:
    caller = await api.caller("admin")
    for types in (["note.*"], ["note.created", "product.created"]):
        hook = {"url": "https://hooks.example.com/in", "types": types}
        assert (await caller.post("/webhooks", json=hook)).status_code == 201
    (tmp_path / "files" / "notes.py").unlink()
    await restarted(api)
    caller = await api.caller(user=caller.user)
    lamp = {"name": "Lamp", "category": "light", "price": 1}
    assert (await caller.post("/products", json=lamp)).status_code == 201

    async def queued() -> bool:
        listed = [await caller.get(f"/webhooks/{one}/deliveries") for one in (1, 2)]
        return [len(one.json()["data"]) for one in listed] == [0, 1]

    await eventually(queued, "the deliveries")


async def test_records_that_cannot_be_deleted_are_405(api: Api, tmp_path: Path) -> None:
    write(tmp_path / "files", USUAL, "delete=False")
    await restarted(api)
    caller = await api.caller()
    await caller.post("/notes", json={"name": "one"})
    assert (await caller.delete("/notes/1")).status_code == 405
    assert (await caller.get("/notes/1")).status_code == 200


RANKED = "rank: int | None = integer(0, 9, optional=True)"


async def test_what_hosts_with_former_files_store_meanwhile_is_found_and_sorted(
    api: Api, tmp_path: Path
) -> None:
    write(tmp_path / "files", f"name: str = text(1, 40); {RANKED}")
    await restarted(api)
    caller = await api.caller()
    for name, rank in (("lamp", 1), ("desk", 9)):
        await caller.post("/notes", json={"name": name, "rank": rank})
    fields = f"name: str = text(1, 40, search=True); {RANKED}"
    write(tmp_path / "files", fields, "sorts=['rank']")
    for env in api.portico.environments:  # as another host does when it starts
        await keep(env.db, load(tmp_path / "files"), api.clock())
    api.clock.advance(seconds=3600)
    await caller.post("/notes", json={"name": "late lamp", "rank": 5})
    await caller.patch("/notes/1", json={"name": "chair", "rank": 7})
    await caller.patch("/notes/2", json={"rank": None})
    await restarted(api)
    caller = await api.caller(user=caller.user)
    for query, found in (("sort=rank", [1, 3, 2]), ("search=lamp", [3]), ("search=chair", [1])):
        listed = (await caller.get(f"/notes?{query}")).json()["data"]
        assert [one["id"] for one in listed] == found, query


async def test_order_that_was_gone_for_a_while_is_right_again(api: Api, tmp_path: Path) -> None:
    caller = await api.caller()
    for options in ("sorts=['rank']", "", "sorts=['rank']"):
        write(tmp_path / "files", f"name: str = text(1, 40); {RANKED}", options)
        await restarted(api)
        caller = await api.caller(user=caller.user)
        if options:
            await caller.post("/notes", json={"name": "a", "rank": 5})
        else:
            await caller.patch("/notes/1", json={"rank": 6})
    found = (await caller.get("/notes?sort=rank")).json()["data"]
    assert [one["rank"] for one in found] == [6, 5]


FORBIDDEN = [
    ("name: str = text(1, 40); more: str = text(1, 9)", "notes.more is new and required"),
    ("name: str = text(1, 40); size: str = text(1, 9)", "notes.size is stored as integer"),
    ("name: str = text(1, 40, unique=True)", "notes.name is not unique: several have same"),
    ("name: str = text(1, 40); code: str = text(1, 9, default='x', unique=True)",
     "notes.code is not unique: several have x"),
    ("label: str = text(1, 40, was='name', unique=True)",
     "notes.label is not unique: several have same"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "told"), FORBIDDEN)
async def test_what_stored_records_forbid_stops_the_start(
    api: Api, tmp_path: Path, fields: str, told: str
) -> None:
    caller = await api.caller()
    for _ in range(2):
        await caller.post("/notes", json={"name": "same"})
    write(tmp_path / "files", fields)
    with pytest.raises(GrowthError, match=told):
        await restarted(api)


@pytest.mark.parametrize("environ", ["postgres"], indirect=True)
async def test_index_waits_for_that_of_another_host_and_replaces_what_a_killed_one_left(
    api: Api, tmp_path: Path
) -> None:
    db = api.live.db
    async with db.transaction() as tx:
        await tx.script("CREATE INDEX kind_notes__f_size ON kind_notes (f_size)")
        await tx.script(
            "UPDATE pg_index SET indisvalid = false"
            " WHERE indexrelid = 'kind_notes__f_size'::regclass"
        )
    write(tmp_path / "files", USUAL, "filters=['size']")
    other = await asyncpg.connect(api.settings.database_url)
    await other.execute(f"SELECT pg_advisory_lock({AdvisoryLock.INDEX})")
    pauses = 0

    async def wait(_seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        await other.execute("SELECT pg_advisory_unlock_all()")

    await keep(db, load(tmp_path / "files"), api.clock(), wait)
    await other.close()
    assert pauses == 1
    [found] = await db.all(
        "SELECT indisvalid, pg_get_indexdef(indexrelid) FROM pg_index"
        " WHERE indexrelid = 'kind_notes__f_size'::regclass"
    )
    assert found[0]
    assert found[1].endswith("(f_size, id)")


async def test_other_files_than_the_databases_are_told(api: Api, tmp_path: Path) -> None:
    async def ready(asked: Api) -> Any:
        answer = await InProcess(asked).exchange("GET", "/readyz", [("host", "localhost")])
        assert answer.status_code == 200
        return answer.json()

    assert "kinds" not in await ready(api)
    write(tmp_path / "files", "name: str = text(1, 40); late: str = text(0, 9, default='')")
    kinds = load(tmp_path / "files")
    for env in api.portico.environments:
        await keep(env.db, kinds, api.clock())
    assert (await ready(api.beside()))["kinds"] == "other files than the database's"
    for env in api.portico.environments:
        env.check_kinds = None  # as on a host without files
    assert (await ready(api.beside()))["kinds"] == "other files than the database's"
    caller = await api.caller()  # of files without the new field
    assert (await caller.post("/notes", json={"name": "n"})).status_code == 201
    assert (await caller.get("/notes")).json()["data"][0]["size"] == 1


FAULTY = """from portico.kinds import *


class Bad(Record):
    name: str = text(5, 2)
    Size: int = integer(0, 9, default=10)
    ref: int = reference("nothing")
    both: str = states({"a": ["c"]}, start="b")
    list: dict = texts(3, unique=True)
    bare: int
    typed: int = integer(0, "9")


bad = Kind(Bad, one="user", many="Bads", readers=["king"], filters=["no", "list"], sorts=["list"])


@bad.before_change
def rule(change, before, after):
    pass
"""
FAULTS = [
    "5: name has bounds that no text meets",
    "6: Size must be named by lower-case letters",
    "6: Size has a default that is not allowed: it must be from 0 to 9",
    "7: ref refers to 'nothing', which is no kind",
    "8: both must start in one of its states",
    "8: both leads to c, which is no state",
    "9: list cannot be unique",
    "4: bare has no maker",
    "11: typed has an option of another type",
    "14: one='user' is Portico's own",
    "14: many='Bads' must be lower-case letters",
    "14: readers name 'king', which is no role",
    "14: filters name 'no', which is no field",
    "14: filters name 'list': texts has no filter",
    "14: sorts name 'list': texts has no order",
    "17: is no coroutine: write async def",
]


def test_all_faults_of_files_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(FAULTY)
    with pytest.raises(KindsError) as caught:
        load(tmp_path)
    told = str(caught.value)
    for fault in FAULTS:
        line, _, message = fault.partition(": ")
        assert f"bad.py:{line}: {message}" in told, fault
    (tmp_path / "syntax.py").write_text("x = (\n")
    (tmp_path / "raises.py").write_text("\n\nraise ValueError('no')\n")
    (tmp_path / "exits.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "_helper.py").write_text("raise ValueError('not loaded')\n")
    with pytest.raises(KindsError) as caught:
        load(tmp_path)
    told = str(caught.value)
    assert "ref refers to" not in told, "a file that cannot be loaded may declare it"
    assert "both must start" in told
    assert "syntax.py:1: is not Python" in told
    assert "raises.py:3: cannot be loaded: ValueError: no" in told
    assert "exits.py:1: cannot be loaded: SystemExit: 3" in told
    assert "_helper" not in told


def test_faults_of_samples_are_told_with_their_lines(tmp_path: Path) -> None:
    write(tmp_path, "name: str = text(1, 4)", "samples='notes.ndjson'")
    lines = ['{"name": "a"}', '{"name":', "", '{"name": "too long", "size": 1}']
    (tmp_path / "notes.ndjson").write_text("\n".join(lines))
    with pytest.raises(KindsError) as caught:
        load(tmp_path)
    assert [(one.line, one.message.partition(";")[0]) for one in caught.value.faults] == [
        (2, "body Malformed JSON at column 9: Expecting value."), (4, "size unknown field")
    ]  # fmt: skip


FIELDS = "\n    ".join(f"f{number}: str = text(1, 9)" for number in range(61))
LISTED = "page: int = integer(0, 9)\n    limit: str = text(1, 9)\n    sort: bool = boolean()"
TOO_MANY = [
    (FIELDS, "", 1, "has 61 fields: declare at most 60"),
    ("a: str = text(1, 9)", "", 51, "is kind 51: declare at most 50"),
    (LISTED, ", filters=['page', 'limit']", 1, "the filter 'limit' is called like another"),
    (LISTED, ", filters=['page', 'sort']", 1, "the filter 'sort' is called like another"),
]


@pytest.mark.parametrize(("fields", "options", "count", "told"), TOO_MANY)
def test_files_beyond_what_kinds_may_have_are_refused(
    tmp_path: Path, fields: str, options: str, count: int, told: str
) -> None:
    kinds = "\n".join(f"Kind(R, one='n{n}', many='ns{n}'{options})" for n in range(count))
    (tmp_path / "many.py").write_text(
        f"from portico.kinds import *\nclass R(Record):\n    {fields}\n{kinds}\n"
    )
    with pytest.raises(KindsError) as caught:
        load(tmp_path)
    [fault] = caught.value.faults
    assert fault.message.startswith(told)


@pytest.mark.parametrize("noun", ["user", "quota", "backup"])
def test_nouns_of_portico_are_refused(tmp_path: Path, noun: str) -> None:
    kind = "class A(Record):\n    b: str = text(1, 9)\n\n\nKind(A, one={!r}, many='others')\n"
    (tmp_path / "taken.py").write_text(f"from portico.kinds import *\n{kind.format(noun)}")
    with pytest.raises(KindsError, match="is Portico's own"):
        load(tmp_path)


def test_fifty_kinds_of_sixty_fields_start_within_a_second(tmp_path: Path) -> None:
    from time import perf_counter

    for number in range(50):
        fields = "\n    ".join(f"f{n}: str = text(1, 40, default='x')" for n in range(60))
        (tmp_path / f"k{number}.py").write_text(
            f"from portico.kinds import *\n\n\nclass K(Record):\n    {fields}\n\n\n"
            f"k = Kind(K, one='k{number}', many='ks{number}', filters=['f0'], sorts=['f1'])\n"
        )
    begun = perf_counter()
    assert len(load(tmp_path)) == 50
    assert perf_counter() - begun < 5  # a busy machine; bench has the second


def test_commands_list_check_and_drop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, data = tmp_path / "kinds", str(tmp_path / "data")
    write(directory, "name: str = text(1, 40); gone: str = text(0, 9, default='')")
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PORTICO_")]:
        monkeypatch.delenv(name)

    def run(*words: str) -> tuple[int, str]:
        code = main([*words])
        told = capsys.readouterr()
        return code, told.out + told.err

    assert run("init", "--data", data)[0] == 0
    write(directory, "name: str = text(1, 40)")
    pending = "  live: 0000 kinds\n  sandbox: 0000 kinds\n"
    assert run("migrate", "--check", "--data", data) == (1, f"Pending:\n{pending}")
    assert run("migrate", "--data", data) == (0, f"Applied:\n{pending}")
    assert run("migrate", "--check", "--data", data)[0] == 0
    code, told = run("kinds", "--data", data)
    assert code == 0
    assert [line.split() for line in told.splitlines()[1:]] == [
        ["notes", "live"], ["notes.gone", "hidden"], ["notes.name", "live"]
    ]  # fmt: skip
    assert run("kinds", "drop", "notes.name", "--yes", "--data", data)[0] == 1
    assert run("kinds", "drop", "notes.gone", "--data", data)[0] == 2
    assert run("kinds", "drop", "notes.gone", "--yes", "--data", data)[0] == 0
    assert "gone" not in run("kinds", "--data", data)[1]
    assert run("kinds", "check") == (0, "Fine: notes.\n")
    (directory / "bad.py").write_text("x = (\n")
    assert run("kinds", "check")[0] == 2
    for words in ((), ("--check",)):
        assert run("migrate", *words, "--data", data)[0] == 1
