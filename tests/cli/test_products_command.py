"""`portico products`: files into the catalog and out of it."""

import gzip
import json
import signal
import stat
import subprocess
import sys
import threading
import time
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from beside import Running
from operating import (
    COMMAND,
    Installation,
    in_database,
    lateness,
    seen_on_a_terminal,
    until,
    with_input,
)

MIB = 2**20
GOOD = {"name": "Lamp", "category": "light", "price": 1}
FULL = {
    "name": "Lampe « Été »",
    "category": "light",
    "price": 12.3456,
    "description": 'Two lines,\n"quoted"; and a comma, \U0001f4a1',
    "currency": "EUR",
    "stock_quantity": 7,
    "status": "active",
    "images": [{"url": "https://example.com/a.png", "alt": "from the side"}],
    "metadata": {"sku": "L-1", "größe": "3 m"},
}
MEASURED = """
import sys
from portico.cli.main import main
code = main(sys.argv[1:])
status = open("/proc/self/status").read()
print(status.split("VmHWM:")[1].split()[0], file=sys.stderr)
sys.exit(code)
"""
"""Runs a command and tells the most memory, in KiB, that its process ever had."""


ROWS = 20_000


def written(directory: Path, name: str, *rows: dict[str, Any]) -> str:
    """An NDJSON file's path."""
    path = directory / name
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return str(path)


def stored(installation: Installation, environment: str = "live") -> int:
    """How many products a SQLite installation has."""
    count = in_database(installation.data / f"{environment}.db", "SELECT count(*) FROM products")
    return int(count)


@pytest.fixture(scope="session")
def large_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As many products as `ROWS`, 8 MB."""
    words = ["oak", "steel", "lamp", "river", "stone", "linen", "brass", "chair", "paper"]
    path = tmp_path_factory.mktemp("large") / "large.ndjson"
    with path.open("w") as file:
        for n in range(ROWS):
            row = {
                "name": f"{words[n % 9]} {words[n * 7 % 9]} {n}",
                "category": words[n % 7],
                "price": n * 7919 % 100_003 / 100,
                "description": " ".join(words[n * k % 9] for k in range(1, 40)),
                "status": "active",
                "metadata": {"sku": f"S-{n}"},
            }
            file.write(json.dumps(row) + "\n")
    return path


@pytest.mark.parametrize(
    ("on_each", "ending"), [("on_sqlite", "csv"), ("on_postgres", "ndjson")], indirect=["on_each"]
)
def test_what_was_exported_and_stored_again_changes_nothing(
    on_each: Running, tmp_path: Path, ending: str
) -> None:
    installation = on_each.installation
    told = installation.told("products", "import", written(tmp_path, "a.ndjson", FULL))
    assert told == {"inserted": 1, "updated": 0, "faulty": 0, "rejected": []}
    number = on_each.get("/products?search=lampe%20ete").json["data"][0]["id"]
    found = on_each.get(f"/products/{number}").json["data"]
    assert {name: found[name] for name in FULL} == FULL
    first, second = str(tmp_path / f"first.{ending}"), str(tmp_path / f"second.{ending}")
    exported = installation.told("products", "export", first)["exported"]
    last = installation.told("events", "list", "--limit", "100000")[-1]
    told = installation.told("products", "import", first, "--update")
    installation.told("products", "export", second)
    assert exported > 0
    assert told == {"inserted": 0, "updated": 0, "faulty": 0, "rejected": []}
    assert Path(second).read_bytes() == Path(first).read_bytes()
    assert installation.told("events", "list", "--after", str(last["id"])) == []
    refused = installation.run("products", "import", first, "--json")
    assert json.loads(refused.stdout)["faulty"] == exported


@pytest.mark.parametrize(
    ("on_each", "strict"),
    [("on_sqlite", []), ("on_postgres", []), ("on_sqlite", ["--strict"])],
    indirect=["on_each"],
)
def test_rows_with_ids_change_products_and_the_faulty_ones_are_told(
    on_each: Running, tmp_path: Path, strict: list[str]
) -> None:
    installation = on_each.installation
    installation.told("products", "import", written(tmp_path, "f.ndjson", FULL, FULL))
    last, before, *_ = on_each.get("/products?search=lampe%20ete").json["data"]
    path = tmp_path / "changes.csv"
    path.write_text(
        "id,name,category,price,description,status\n"
        f"{before['id']},Lampion,light,2,,active\n"
        f"{last['id']},{last['name']},light,12.3456,x,draft\n"
        "9007199254740991,Gone,light,1,,active\n"
        ",Lantern,light,1,,active\n"
        f"{before['id']},Copy,light,3,,active\n"
    )

    done = installation.run("products", "import", str(path), "--update", *strict)

    assert done.returncode == 1
    assert done.stderr == (
        "line 3: status cannot change from active to draft\n"
        "line 4: id must be the id of a product; there is no product 9007199254740991\n"
        "line 6: id is also in an earlier row: remove one of the two\n"
    )
    after = on_each.get(f"/products/{before['id']}").json["data"]
    if strict:
        assert done.stdout == "Nothing was stored; 3 rows are faulty.\n"
        assert after["name"] == before["name"]
        return
    assert done.stdout == "Inserted 1 product and updated 1 product; 3 rows are faulty.\n"
    assert (after["name"], after["price"], after["description"]) == ("Lampion", 2, "")
    assert (after["stock_quantity"], after["metadata"]) == (7, FULL["metadata"])
    assert on_each.get("/products?search=lampion").json["data"][0]["id"] == before["id"]
    (event,) = installation.told("events", "list", "--type", "products.imported")[-1:]
    made = on_each.get("/products?search=lantern").json["data"][0]["id"]
    assert event["data"] == {
        "inserted": 1,
        "updated": 1,
        "first_id": before["id"],
        "last_id": made,
        "inserted_ids": [made],
        "updated_ids": [before["id"]],
    }


def test_standard_input_is_read_in_the_format_that_it_begins_in(installation: Installation) -> None:
    words = ["products", "import", "-", "--sandbox"]
    table = b"\xef\xbb\xbfname,category,price\r\nLamp,light,1\r\n"
    lines = b'\n  {"name":"Lamp","category":"light","price":1}'
    assert with_input(installation, table, *words) == (0, b"Inserted 1 product.\n", b"")
    assert with_input(installation, lines, *words, "--strict")[0] == 0
    assert with_input(installation, lines, *words, "--format", "csv")[0] == 1
    assert (stored(installation, "sandbox"), stored(installation)) == (2, 0)


def test_an_export_that_fails_leaves_the_file_as_it_was(
    installation: Installation, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.ndjson"
    kept.write_text("before")
    (installation.data / "live.db").write_bytes(b"no database" * 1_000)
    before = {path.name for path in tmp_path.iterdir()}

    done = installation.run("products", "export", str(kept))

    assert done.returncode == 1
    assert kept.read_text() == "before"
    assert {path.name for path in tmp_path.iterdir()} == before


def test_an_export_touches_no_other_file(installation: Installation, tmp_path: Path) -> None:
    installation.told("products", "import", written(tmp_path, "a.ndjson", GOOD))
    (tmp_path / "into").mkdir()
    of_somebody = tmp_path / "into" / "catalog.ndjson.partial"
    of_somebody.write_text("mine")
    target = tmp_path / "into" / "catalog.ndjson"
    link = tmp_path / "link.ndjson"
    link.symlink_to(target)

    installation.told("products", "export", str(link))

    assert json.loads(target.read_text()).items() > GOOD.items()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert link.is_symlink()
    assert of_somebody.read_text() == "mine"
    assert set((tmp_path / "into").iterdir()) == {target, of_somebody}


def test_a_large_import_takes_little_memory_and_lets_the_server_write(
    on_sqlite: Running, large_file: Path
) -> None:
    installation = on_sqlite.installation
    before = on_sqlite.total("status=active")
    waits: list[float] = []
    over = threading.Event()

    def write() -> None:
        with on_sqlite.service.connect() as connection:
            while not over.is_set():
                started = time.monotonic()
                answer = on_sqlite.service.ask(
                    "/v1/products", method="POST", key=installation.key, body=GOOD,
                    connection=connection,
                )  # fmt: skip
                assert answer.status == 201, answer.text
                waits.append(time.monotonic() - started)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with lateness() as late:
            done = subprocess.run(
                [sys.executable, "-c", MEASURED, "products", "import", str(large_file), "--json"],
                cwd=installation.directory,
                env=installation.environment,
                capture_output=True,
                check=True,
                text=True,
            )
    finally:
        over.set()
        writer.join()
    assert json.loads(done.stdout)["inserted"] == ROWS
    assert int(done.stderr) * 1024 < 120 * MIB
    assert on_sqlite.total("status=active") == before + ROWS
    assert len(waits) > 10
    assert max(waits) < 3.0 + late.seconds


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_import_that_is_interrupted_tells_what_it_stored(
    installation: Installation, large_file: Path, how: signal.Signals, code: int
) -> None:
    with large_file.open("rb") as file:
        lines = list(islice(file, 4_500))
    with subprocess.Popen(
        [*COMMAND, "products", "import", "-"],
        cwd=installation.directory,
        env=installation.environment,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as importing:
        assert importing.stdin is not None
        assert importing.stderr is not None
        importing.stdin.writelines(lines)
        importing.stdin.flush()
        until(lambda: stored(installation) == 4_000, "the second batch")
        importing.send_signal(how)  # while it waits for more
        told = importing.stderr.read().decode()

    assert importing.returncode == code
    count = stored(installation)  # with the rest, if it was being stored when the signal came
    assert told == f"Inserted {count:,} products, up to line {count:,}, before it ended.\n"
    assert count in (4_000, 4_500)


def test_an_import_that_is_killed_is_told_by_the_server(
    installation: Installation, large_file: Path
) -> None:
    with large_file.open("rb") as file:
        lines = list(islice(file, 2_500))
    database = installation.data / "live.db"
    with subprocess.Popen(
        [*COMMAND, "products", "import", "-"],
        cwd=installation.directory,
        env=installation.environment,
        stdin=subprocess.PIPE,
    ) as importing:
        assert importing.stdin is not None
        importing.stdin.writelines(lines)
        importing.stdin.flush()
        until(lambda: stored(installation) == 2_000, "the first batch")
        importing.kill()
    in_database(database, "UPDATE untold_imports SET at = 0")  # long ago
    with installation.serving():
        events = until(
            lambda: installation.told("events", "list", "--type", "products.imported"), "the event"
        )
        (note,) = installation.told("audit", "--action", "products.imported")
    assert [event["data"]["inserted"] for event in events] == [2_000]
    assert note["credential"] == "command"
    assert in_database(database, "SELECT count(*) FROM untold_imports") == 0


def test_faulty_rows_are_told_by_line_without_control_characters_and_the_rest_goes_in(
    installation: Installation, tmp_path: Path
) -> None:
    path = tmp_path / "catalog.csv"
    path.write_text(
        "name,category,price,stock_quantity\n"
        "Lamp,light,1,5\n"
        ",light,-1,x\n"
        'Oak,"wood\nfine",3,\n'
        "Torn,light\n"
    )
    done = installation.run("products", "import", str(path))
    assert (done.returncode, done.stdout) == (1, "Inserted 2 products; 2 rows are faulty.\n")
    assert done.stderr == (
        "line 3: name is required; price must not be negative;"
        " stock_quantity must be an integer\n"
        "line 6: must have 4 cells like the header, not 2\n"
    )
    assert stored(installation) == 2
    rows = [{**GOOD, "\x1b]0;owned\x07": 1}] * 150
    done = installation.run("products", "import", written(tmp_path, "a.ndjson", *rows), "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["faulty"], len(told["rejected"])) == (1, 150, 100)
    assert done.stderr.startswith("line 1: \\x1b]0;owned\\x07 unknown field\n")
    strict = installation.run("products", "import", str(path), "--strict")
    assert (strict.returncode, strict.stdout) == (1, "Nothing was inserted; 2 rows are faulty.\n")
    assert stored(installation) == 2


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("import bad.csv", 1, "'Title' is not a field, 'Cost' is not a field, name is missing"),
        ("import packed.csv.gz", 1, "This is an archive (gzip)"),
        ("import nowhere/a.csv", 2, "cannot be"),
        ("export nowhere/a.csv", 2, "cannot be"),
        ("export /dev/full --format csv", 1, "/dev/full cannot be written: the disk is full."),
        ("export - --json", 2, "--json"),
    ],
)
def test_unusable_file_of_products_is_one_clear_error(
    installation: Installation, words: str, code: int, told: str
) -> None:
    (installation.directory / "bad.csv").write_text("Title,Cost\n")
    (installation.directory / "packed.csv.gz").write_bytes(gzip.compress(b"name,category\n"))
    found, line = installation.refused("products", *words.split())
    assert (found, told in line) == (code, True), line


def test_a_terminal_alone_shows_progress_and_faults(
    installation: Installation, tmp_path: Path
) -> None:
    path = written(tmp_path, "a.ndjson", GOOD, {}, GOOD)
    code, said, seen = seen_on_a_terminal(installation, "products", "import", path)
    assert (code, "2 products" in said, "Reading" in said) == (1, True, False)
    assert "Reading: 100%" in seen
    assert "line 2: name is required; category is required; price is required\r\n" in seen
    done = installation.run("products", "import", path)
    assert "Reading" not in done.stdout + done.stderr
