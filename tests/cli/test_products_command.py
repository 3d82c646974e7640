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
    PATIENCE_SECONDS,
    Installation,
    bytes_in,
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
    """50,000 products, 20 MB."""
    words = ["oak", "steel", "lamp", "river", "stone", "linen", "brass", "chair", "paper"]
    path = tmp_path_factory.mktemp("large") / "large.ndjson"
    with path.open("w") as file:
        for n in range(50_000):
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


def test_imported_products_are_there_for_the_next_request(on_each: Running, tmp_path: Path) -> None:
    before = on_each.total("search=lampe%20ete")
    in_sandbox = on_each.total("search=lampe%20ete", sandbox=True)

    told = on_each.installation.told("products", "import", written(tmp_path, "a.ndjson", FULL))

    assert told == {"inserted": 1, "updated": 0, "faulty": 0, "rejected": []}
    assert on_each.total("search=lampe%20ete") == before + 1
    found = on_each.get("/products?search=lampe%20ete").json
    product = on_each.get(f"/products/{found['data'][0]['id']}").json["data"]
    assert {name: product[name] for name in FULL} == FULL
    assert on_each.total("search=lampe%20ete", sandbox=True) == in_sandbox


@pytest.mark.parametrize("ending", ["ndjson", "csv"])
def test_what_was_exported_and_stored_again_changes_nothing(
    on_each: Running, tmp_path: Path, ending: str
) -> None:
    installation = on_each.installation
    installation.told("products", "import", written(tmp_path, "f.ndjson", FULL), "--sandbox")
    first, second = tmp_path / f"first.{ending}", tmp_path / f"second.{ending}"
    exported = installation.told("products", "export", str(first), "--sandbox")["exported"]
    events = installation.told("events", "list", "--sandbox")
    tagged = on_each.get_sandbox("/products?status=active").headers["etag"]

    told = installation.told("products", "import", str(first), "--update", "--sandbox")
    installation.told("products", "export", str(second), "--sandbox")

    assert exported > 0
    assert told == {"inserted": 0, "updated": 0, "faulty": 0, "rejected": []}
    assert second.read_bytes() == first.read_bytes()
    assert installation.told("events", "list", "--sandbox") == events
    assert on_each.get_sandbox("/products?status=active").headers["etag"] == tagged
    refused = installation.run("products", "import", str(first), "--sandbox", "--json")
    assert json.loads(refused.stdout)["faulty"] == exported


@pytest.mark.parametrize("strict", [[], ["--strict"]])
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


def test_a_row_that_was_copied_from_a_faulty_one_changes_nothing(
    on_each: Running, tmp_path: Path
) -> None:
    on_each.installation.told("products", "import", written(tmp_path, "f.ndjson", FULL))
    product = on_each.get("/products?search=lampe%20ete").json["data"][0]
    rows = [{"id": product["id"], "price": price} for price in (-1, 7)]

    done = on_each.installation.run(
        "products", "import", written(tmp_path, "a.ndjson", *rows), "--update"
    )

    assert done.stderr == (
        "line 1: price must not be negative\n"
        "line 2: id is also in an earlier row: remove one of the two\n"
    )
    assert on_each.get(f"/products/{product['id']}").json["data"]["price"] == product["price"]


def test_faulty_rows_are_told_by_line_and_the_rest_goes_in(
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

    assert done.returncode == 1
    assert done.stdout == "Inserted 2 products; 2 rows are faulty.\n"
    assert done.stderr == (
        "line 3: name is required; price must not be negative;"
        " stock_quantity must be an integer\n"
        "line 6: must have 4 cells like the header, not 2\n"
    )
    assert stored(installation) == 2


def test_json_tells_the_faulty_rows_too(installation: Installation, tmp_path: Path) -> None:
    path = written(tmp_path, "a.ndjson", GOOD, {**GOOD, "price": "1", "colour": "red"}, GOOD)

    done = installation.run("products", "import", path, "--json")

    assert done.returncode == 1
    faults = [
        {"field": "price", "message": "must be a number"},
        {"field": "colour", "message": "unknown field"},
    ]
    assert json.loads(done.stdout) == {
        "inserted": 2,
        "updated": 0,
        "faulty": 1,
        "rejected": [{"line": 2, "faults": faults}],
    }


def test_json_lists_no_more_than_a_hundred_faulty_rows(
    installation: Installation, tmp_path: Path
) -> None:
    done = installation.run(
        "products", "import", written(tmp_path, "a.ndjson", *[{}] * 150), "--json"
    )

    told = json.loads(done.stdout)
    assert (told["inserted"], told["faulty"], len(told["rejected"])) == (0, 150, 100)
    assert done.stderr.count("\n") == 150


def test_what_a_file_says_cannot_steer_the_terminal(
    installation: Installation, tmp_path: Path
) -> None:
    path = written(tmp_path, "a.ndjson", {**GOOD, "\x1b]0;owned\x07": 1})

    done = installation.run("products", "import", path)

    assert done.stderr == "line 1: \\x1b]0;owned\\x07 unknown field\n"


def test_strict_takes_all_or_nothing(on_each: Running, tmp_path: Path) -> None:
    row = {**GOOD, "name": "Strictly", "status": "active"}
    bad = written(tmp_path, "bad.ndjson", *[row] * 3, {**row, "price": -1})
    good = written(tmp_path, "good.ndjson", *[row] * 3)

    done = on_each.installation.run("products", "import", bad, "--strict")
    assert (done.returncode, done.stdout) == (1, "Nothing was inserted; 1 row is faulty.\n")
    assert done.stderr == "line 4: price must not be negative\n"
    assert on_each.total("search=strictly") == 0

    told = on_each.installation.told("products", "import", good, "--strict")
    assert told == {"inserted": 3, "updated": 0, "faulty": 0, "rejected": []}
    assert on_each.total("search=strictly") == 3


def test_standard_input_is_read_in_the_format_that_it_begins_in(installation: Installation) -> None:
    words = ["products", "import", "-", "--sandbox"]
    table = b"\xef\xbb\xbfname,category,price\r\nLamp,light,1\r\n"
    lines = b'\n  {"name":"Lamp","category":"light","price":1}'

    assert with_input(installation, table, *words) == (0, b"Inserted 1 product.\n", b"")
    assert with_input(installation, lines, *words) == (0, b"Inserted 1 product.\n", b"")
    assert with_input(installation, lines, *words, "--strict")[0] == 0
    assert with_input(installation, b"", *words, "--format", "ndjson")[0] == 0
    assert with_input(installation, lines, *words, "--format", "csv")[0] == 1
    assert stored(installation, "sandbox") == 3
    assert stored(installation) == 0


def test_a_file_that_is_no_catalog_is_one_clear_error(
    installation: Installation, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("Title,Cost\n")
    array = tmp_path / "array.ndjson"
    array.write_text("[]")
    packed = tmp_path / "products.csv.gz"
    packed.write_bytes(gzip.compress(b"name,category,price\n"))

    code, line = installation.refused("products", "import", str(bad))
    assert code == 1
    assert "'Title' is not a field, 'Cost' is not a field, name is missing" in line
    code, line = installation.refused("products", "import", str(array))
    assert code == 1
    assert "one product per line" in line
    code, line = installation.refused("products", "import", str(packed))
    assert code == 1
    assert "This is an archive (gzip)" in line
    assert stored(installation) == 0


def test_files_that_cannot_be_opened_are_misuse(installation: Installation, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere" / "a.csv")

    for verb in ("import", "export"):
        for name in (nowhere, str(tmp_path)):
            code, line = installation.refused("products", verb, name)
            assert code == 2
            assert "cannot be" in line
    assert installation.refused("products", "export", "-", "--json")[0] == 2


def test_standard_output_takes_an_export_and_nothing_else(
    installation: Installation, tmp_path: Path
) -> None:
    installation.told("products", "import", written(tmp_path, "a.ndjson", FULL, GOOD))
    before = set(tmp_path.iterdir())

    lines = installation.run("products", "export", "-")
    table = installation.run("products", "export", "-", "--format", "csv")

    assert lines.stderr == table.stderr == "Exported 2 products.\n"
    _, by_name, _ = with_input(installation, b"", "products", "export", "/dev/stdout")
    assert by_name.decode() == f"{lines.stdout}Exported 2 products.\n"
    full, plain = map(json.loads, lines.stdout.splitlines())
    assert full == {"id": 1, **FULL}
    assert plain.items() > GOOD.items()
    assert table.stdout.startswith("id,name,category,price,description,")
    assert set(tmp_path.iterdir()) == before


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


def test_an_export_that_finds_no_room_names_its_file(installation: Installation) -> None:
    told = "/dev/full cannot be written: the disk is full."
    assert installation.refused("products", "export", "/dev/full", "--format", "csv") == (1, told)


def test_an_export_into_a_loop_of_links_is_refused_in_a_line(
    installation: Installation, tmp_path: Path
) -> None:
    loop = tmp_path / "loop.csv"
    loop.symlink_to(loop)
    told = f"{loop} cannot be written: Too many levels of symbolic links"
    assert installation.refused("products", "export", str(loop)) == (2, told)
    assert loop.is_symlink()


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


def test_two_exports_to_one_name_at_once_each_leave_it_whole(
    installation: Installation, tmp_path: Path
) -> None:
    installation.told("products", "import", written(tmp_path, "a.ndjson", *[GOOD] * 5_000))
    whole = installation.run("products", "export", "-").stdout
    (tmp_path / "into").mkdir()
    target = tmp_path / "into" / "catalog.ndjson"

    def written_to() -> bool:  # by then it holds no lock of a database that it opens
        return bytes_in(target.parent) != b""

    with subprocess.Popen(
        [*COMMAND, "products", "export", str(target)],
        cwd=installation.directory,
        env=installation.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as first:
        until(written_to, "the first export's rows")
        first.send_signal(signal.SIGSTOP)
        try:
            second = installation.run("products", "export", str(target))
            between = target.read_text()
        finally:
            first.send_signal(signal.SIGCONT)
        _, complaint = first.communicate()

    assert (second.returncode, second.stderr, between == whole) == (0, "", True)
    assert (first.returncode, complaint, target.read_text() == whole) == (0, b"", True)
    assert list(target.parent.iterdir()) == [target]


def test_a_reader_that_has_had_enough_ends_an_export_quietly(
    installation: Installation, large_file: Path, tmp_path: Path
) -> None:
    more_than_a_pipe_holds = tmp_path / "first.ndjson"
    with large_file.open() as rows:
        more_than_a_pipe_holds.write_text("".join(islice(rows, 2_000)))
    installation.told("products", "import", str(more_than_a_pipe_holds))
    with subprocess.Popen(
        [*COMMAND, "products", "export", "-"],
        cwd=installation.directory,
        env=installation.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as export:
        assert export.stdout is not None
        assert export.stderr is not None
        first = json.loads(export.stdout.readline())
        export.stdout.close()
        complaint = export.stderr.read()

    assert first["name"] == "oak oak 0"
    assert (export.returncode, complaint) == (1, b"")


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
                    "/v1/products",
                    method="POST",
                    key=installation.key,
                    body=GOOD,
                    connection=connection,
                )
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

    assert json.loads(done.stdout)["inserted"] == 50_000
    assert int(done.stderr) * 1024 < 120 * MIB
    assert on_sqlite.total("status=active") == before + 50_000
    assert len(waits) > 25
    assert max(waits) < 3.0 + late.seconds


@pytest.mark.parametrize(("how", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)])
def test_a_strict_import_that_is_ended_has_stored_nothing(
    installation: Installation, large_file: Path, how: signal.Signals, code: int
) -> None:
    log = installation.data / "live.db-wal"
    with subprocess.Popen(
        [*COMMAND, "products", "import", str(large_file), "--strict"],
        cwd=installation.directory,
        env=installation.environment,
        stdout=subprocess.DEVNULL,
    ) as importing:
        # The transaction outgrows the cache and flows into the log before it is committed. All
        # rows are read before it begins, which takes a busy machine a minute.
        flows = 3 * PATIENCE_SECONDS
        until(lambda: log.exists() and log.stat().st_size > 4 * MIB, "the transaction", flows)
        importing.send_signal(how)

    assert importing.returncode == code
    assert stored(installation) == 0
    assert in_database(installation.data / "live.db", "PRAGMA integrity_check") == "ok"
    assert {path.name for path in installation.data.iterdir()} >= {"live.db", "sandbox.db", "tls"}


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
    assert told == "Inserted 4,000 products, up to line 4,000, before it ended.\n"
    assert stored(installation) == 4_000


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


@pytest.mark.parametrize("strict", [[], ["--strict"]])
def test_a_terminal_shows_progress_and_faults(
    installation: Installation, tmp_path: Path, strict: list[str]
) -> None:
    path = written(tmp_path, "a.ndjson", GOOD, {}, GOOD)

    code, said, seen = seen_on_a_terminal(installation, "products", "import", path, *strict)

    assert code == 1
    assert ("2 products" in said) == (not strict)
    assert "Reading: 100%" in seen
    assert "line 2: name is required; category is required; price is required\r\n" in seen
    assert "Reading" not in said


def test_progress_is_for_terminals_alone(installation: Installation, tmp_path: Path) -> None:
    path = written(tmp_path, "a.ndjson", GOOD)

    code, said, seen = seen_on_a_terminal(
        installation, "products", "import", path, "--strict", "--json"
    )
    assert (code, json.loads(said)["inserted"]) == (0, 1)
    assert "Storing: 100%" in seen
    done = installation.run("products", "import", path)
    assert (done.stdout, done.stderr) == ("Inserted 1 product.\n", "")
