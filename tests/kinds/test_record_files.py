"""Records of a kind in files: `portico records KIND import | export | list`."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beside import prepared
from operating import Installation
from servers import PostgresServer

FILES = Path(__file__).with_name("files")
CLOSED = """from portico.kinds import *


class Secret(Record):
    word: str = text(1, 9)


class Memo(Record):
    title: str = text(1, 9)
    word: str | None = text(0, 9, optional=True)


secrets = Kind(Secret, one="secret", many="secrets", files=False)
memos = Kind(Memo, one="memo", many="memos")


@memos.before_change
async def sign(change, before, after):
    return after.replace(word=f"{change.caller}") if after.title == "signed" else None


@memos.after_commit
async def answer(portico, before, after):
    if after.title == "asked" and before is None:
        await portico.update("memos", after.id, word="answered")
"""


FULL: dict[str, Any] = {
    "name": "=1+1", "order": " kept ", "group": -3, "rank": 7, "price": 24.5, "weight": 99.125,
    "active": False, "colour": 'deep "blue"', "stage": "used", "day": "2026-11-28",
    "at": "2026-01-31T08:15:30.123Z", "contact": "ada@example.com", "site": "https://example.com/",
    "currency": "EUR", "code": "'c,1", "labels": {"b": "2", "ä": "a,\nb"},
    "lines": [{"sku": "s", "price": 0.0001, "count": 2, "day": "2026-01-01"}],
    "essay": 'two\nlines, "quoted"; -5',
}  # fmt: skip
LEAST: dict[str, Any] = {"name": "least"}
OTHER = {
    "name": "else", "order": "", "group": 0, "rank": 1, "price": 2, "weight": 3, "active": True,
    "colour": "red", "day": "2026-01-01", "at": "2026-01-01T00:00:00Z", "contact": "b@example.com",
    "site": "https://b.example/", "currency": "USD", "labels": {"x": "y"}, "lines": [],
    "essay": "else",
}  # fmt: skip


@pytest.fixture(scope="module")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """An installation with kinds and a lamp, of which there are ten."""
    return installed(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture(params=["sqlite", "postgres"])
def installation(request: pytest.FixtureRequest, tmp_path: Path) -> Installation:
    """One on each database."""
    if request.param == "sqlite":
        return installed(tmp_path)
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return installed(tmp_path, database_url=postgres.fresh_database())


def installed(directory: Path, **variables: str) -> Installation:
    """An installation with the files of kinds, and one more."""
    kinds = directory / "kinds"
    kinds.mkdir()
    for file in FILES.iterdir():
        if file.is_file():
            (kinds / file.name).write_bytes(file.read_bytes())
    (kinds / "closed.py").write_text(CLOSED)
    made = prepared(directory, kinds=str(kinds), **variables)
    lamp = {"name": "Lamp", "category": "light", "price": 1, "stock_quantity": 10}
    assert made.told("products", "import", written(made, "lamp.ndjson", lamp))["inserted"] == 1
    return made


def written(installation: Installation, name: str, *rows: dict[str, Any]) -> str:
    """The path of an NDJSON file."""
    path = installation.directory / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def imported(installation: Installation, many: str, *words: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the answer of an import; rejected rows by line, with their messages."""
    done = installation.run("records", many, "import", *words, "--json")
    answer = json.loads(done.stdout or "null")
    assert answer is not None, done.stderr
    answer["rejected"] = {
        row["line"]: {fault["field"]: fault["message"] for fault in row["faults"]}
        for row in answer["rejected"]
    }
    return done.returncode, answer


def order(number: int, **values: Any) -> dict[str, Any]:
    """A row of an order."""
    return {"number": f"N-{number}", "product_id": 1, "total": 49.5, **values}


def events(installation: Installation) -> list[tuple[str, Any]]:
    """The events about orders."""
    found = installation.told("events", "list")
    return [(event["type"], event["data"]) for event in found if event["type"][:5] == "order"]


def test_rows_are_judged_one_by_one_and_one_event_tells_of_them(
    installation: Installation,
) -> None:
    rows = [
        order(1),
        order(2, quantity=11),
        order(1, note="again"),
        order(4, product_id=99),
        order(5, total=-1, status="lost"),
        {"id": 1, **order(6)},
        order(7, note="=1+1"),
    ]
    code, answer = imported(installation, "orders", written(installation, "o.ndjson", *rows))
    rejected = answer.pop("rejected")
    assert (code, answer) == (1, {"inserted": 2, "updated": 0, "faulty": 5})
    assert rejected[2] == {"quantity": "is more than there is in stock"}
    assert rejected[3] == {"number": "is taken"}
    assert rejected[4] == {"product_id": "must be the id of one of the products"}
    assert rejected[5].keys() == {"total", "status"}
    assert rejected[6] == {"id": "must be omitted unless the import updates existing orders"}
    [(name, data)] = events(installation)
    assert (name, data["inserted"], data["updated"]) == ("orders.imported", 2, 0)
    assert len(data["inserted_ids"]) == 2

    out = installation.directory / "o.csv"
    exported = installation.run("records", "orders", "export", str(out))
    assert exported.stdout == "Exported 2 orders.\n"
    head, first, second = out.read_text().splitlines()
    assert head == "id,number,product_id,quantity,total,currency,note,status"
    assert second.endswith(",N-7,1,1,49.5,USD,'=1+1,open")
    out.write_text("\r\n".join([head, first.replace("open", "paid"), second]))
    code, answer = imported(installation, "orders", "--update", str(out))
    assert (code, answer["updated"], answer["rejected"]) == (0, 1, {})
    out.write_text("\r\n".join([head, first, f"99{second.lstrip('0123456789')}", first]))
    code, answer = imported(installation, "orders", "--update", str(out))
    assert (code, answer["updated"]) == (1, 0)
    assert answer["rejected"] == {
        2: {"status": "cannot change from paid to open"},
        3: {"id": "must be the id of one of the orders; there is no order 99"},
        4: {"id": "is also in an earlier row: remove one of the two"},
    }
    assert [name for name, _ in events(installation)] == ["orders.imported"] * 2


@pytest.mark.parametrize("ending", ["csv", "ndjson"])
def test_an_exported_file_brings_back_every_sort_of_value(
    on_sqlite: Installation, ending: str
) -> None:
    rows = [{**row, "code": f"{ending}{n}"} for n, row in enumerate((FULL, LEAST))]
    inserted = imported(on_sqlite, "things", written(on_sqlite, "new.ndjson", *rows))[1]
    assert inserted["inserted"] == len(rows), inserted
    first, again = (str(on_sqlite.directory / f"{name}.{ending}") for name in ("first", "again"))
    on_sqlite.told("records", "things", "export", first)
    listed = on_sqlite.told("records", "things", "list", "--limit", "2")
    others = [{**OTHER, "id": one["id"]} for one in listed]
    for file in (written(on_sqlite, "other.ndjson", *others), first):
        code, answer = imported(on_sqlite, "things", file, "--update")
        assert (code, answer["rejected"]) == (0, {})
    on_sqlite.told("records", "things", "export", again)
    assert Path(again).read_text() == Path(first).read_text()


def test_an_empty_cell_leaves_an_empty_text_and_makes_others_null(on_sqlite: Installation) -> None:
    rows: list[dict[str, Any]] = [{"title": "a", "word": word} for word in ("", None, "x")]
    assert imported(on_sqlite, "memos", written(on_sqlite, "m.ndjson", *rows))[0] == 0
    table = on_sqlite.directory / "m.csv"
    on_sqlite.told("records", "memos", "export", str(table))
    for words, count in (((), 0), (("--strict",), 0), ((), 1)):
        assert imported(on_sqlite, "memos", str(table), "--update", *words)[1]["updated"] == count
        if words:
            table.write_text(table.read_text().replace(",x", ","))
    listed = on_sqlite.told("records", "memos", "list")
    assert [row["word"] for row in listed] == [None, None, ""]


def test_rules_and_what_follows_run_for_imported_rows_without_a_caller(
    on_sqlite: Installation,
) -> None:
    rows = [{"title": "signed"}, {"title": "asked"}]
    assert imported(on_sqlite, "memos", written(on_sqlite, "r.ndjson", *rows))[0] == 0
    newest = on_sqlite.told("records", "memos", "list", "--limit", "2")
    assert [(row["title"], row["word"]) for row in newest] == [
        ("asked", "answered"), ("signed", "None")
    ]  # fmt: skip


def test_files_that_stored_records_forbid_stop_a_start_by_2_and_migrate_by_1(
    on_sqlite: Installation, tmp_path: Path
) -> None:
    shutil.copytree(on_sqlite.directory / "kinds", tmp_path, dirs_exist_ok=True)
    closed = tmp_path / "closed.py"
    closed.write_text(closed.read_text().replace("title: str = text(1, 9)", "title: int = date()"))
    changed = on_sqlite.having(kinds=str(tmp_path))
    told = "memos.title is stored as text and declared as date: give the new field another name"
    for command, code in (("serve", 2), ("migrate", 1)):
        assert changed.refused(command) == (code, told)


def test_strict_stores_all_rows_or_none(installation: Installation) -> None:
    rows = [order(1), order(2, quantity=11), order(1), order(4)]
    path = written(installation, "o.ndjson", *rows)
    code, answer = imported(installation, "orders", "--strict", path)
    assert (code, answer["inserted"], [*answer["rejected"]]) == (1, 0, [2, 3])
    assert events(installation) == []
    path = written(installation, "o.ndjson", *(order(number) for number in range(250)))
    code, answer = imported(installation, "orders", "--strict", path)
    assert (code, answer) == (0, {"inserted": 250, "updated": 0, "faulty": 0, "rejected": {}})
    [(_, data)] = events(installation)
    assert (data["inserted"], data["last_id"] - data["first_id"]) == (250, 249)


def test_a_rule_that_takes_too_long_refuses_its_row_alone(on_sqlite: Installation) -> None:
    rows = [{"name": "a", "order": "sleep"}, {"name": "b", "order": "conflict"}, {"name": "c"}]
    code, answer = imported(on_sqlite, "things", written(on_sqlite, "slow.ndjson", *rows))
    assert (code, answer["inserted"]) == (1, 1)
    assert answer["rejected"][1]["row"].startswith("The rules of things took longer than 2")
    assert answer["rejected"][2] == {"row": "It is so."}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("secrets export x.csv", "secrets have no import and export: their file says files=False."),
        ("tables list", "There is no kind tables: the kinds are secrets, memos, orders, things."),
    ],
)
def test_what_has_no_files_is_refused(on_sqlite: Installation, words: str, told: str) -> None:
    assert on_sqlite.refused("records", *words.split()) == (2, told)


@pytest.mark.parametrize("words", ["list", "export -", "import new.ndjson"])
def test_a_kind_that_the_database_was_not_migrated_to_is_refused(
    on_sqlite: Installation, tmp_path: Path, words: str
) -> None:
    written(on_sqlite, "new.ndjson", {"word": "first"})
    (tmp_path / "draft.py").write_text(
        CLOSED.replace("secret", "draft").replace(", files=False", "")
    )
    done = on_sqlite.having(kinds=str(tmp_path)).refused("records", "drafts", *words.split())
    assert done == (
        1,
        "The files of kinds are others than the database's: run portico migrate first.",
    )


def test_doctor_tells_of_other_files_than_the_databases(tmp_path: Path) -> None:
    installation = installed(tmp_path)

    def kinds() -> list[tuple[str, bool]]:
        findings = json.loads(installation.run("doctor", "--json").stdout)["findings"]
        return [(one["message"], one["ok"]) for one in findings if one["check"] == "live kinds"]

    directory = installation.directory / "kinds"
    assert kinds() == [(f"as in {directory}", True)]
    (directory / "closed.py").write_text(CLOSED.replace("9", "10"))
    assert kinds() == [(f"{directory} has other files than the database's", True)]
    (directory / "closed.py").write_text("x = (")
    assert [ok for _, ok in kinds()] == [False]
    directory.rename(directory.with_name("moved"))
    installation = replace(installation, variables={})
    assert kinds() == [("The database has kinds, and this host has no files", True)]


def test_commands_know_the_types_of_events_of_kinds(on_sqlite: Installation) -> None:
    imported(on_sqlite, "orders", written(on_sqlite, "event.ndjson", order(100)))
    found = on_sqlite.told("events", "list", "--type", "order.*,orders.imported")
    assert {one["type"] for one in found} == {"orders.imported"}
    url = ("--url", "https://hooks.example.com/in")
    made = on_sqlite.told("webhooks", "create", *url, "--types", "order.created", "product.*")
    assert made["types"] == ["order.created", "product.*"]
    for words in (
        ("events", "list", "--type", "nothing.*"),
        ("events", "listen", "--type", "nothing.*"),
        ("webhooks", "create", *url, "--types", "nothing.*"),
    ):
        code, said = on_sqlite.refused(*words)
        assert (code, "must be some of" in said) == (2, True)
