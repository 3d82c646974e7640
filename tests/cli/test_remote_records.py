"""`portico products` and `portico records` on a machine without a data directory: over the API."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beside import Running
from operating import Installation

KIND = """
from decimal import Decimal

from portico.kinds import Kind, Record, boolean, integer, items, money, text, texts


class Line(Record):
    amount: Decimal = money()


class Order(Record):
    number: str = text(1, 40, unique=True)
    quantity: int = integer(1, 1000, default=1)
    total: Decimal = money()
    gift: bool = boolean(default=False)
    note: str = text(0, 200, optional=True, whole=False)
    tags: dict[str, str] = texts(5)
    lines: list[Line] = items(Line, 5)


Kind(Order, one="purchase-order", many="purchase-orders", readers=["viewer"], writers=["editor"])
"""
PLANS = "[plans.enterprise]\nper_minute = 100000\nper_day = 100000\n"
MANY = "purchase-orders"
ORDERS = ("records", MANY)
PRODUCTS = ("products",)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory: Path = tmp_path_factory.mktemp("far")
    (directory / "kinds").mkdir()
    (directory / "kinds/orders.py").write_text(KIND)
    (directory / "portico.toml").write_text(PLANS)
    installation = Installation(directory).prepared()
    with installation.serving() as service:
        yield Running(installation, service)


def order(number: str, **more: Any) -> dict[str, Any]:
    return {"number": number, "total": 24.5, "tags": {}, "lines": [], **more}


def product(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "category": "light", "price": 12.3456, **more}


def lines(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(path)


@pytest.mark.parametrize("form", ["ndjson", "csv"])
@pytest.mark.parametrize(
    ("words", "rows"),
    [
        (
            ORDERS,
            [
                order("A", total=999999999999.9999, note="=1+1", tags={"a": 'b"é'}),
                order("B", lines=[{"amount": 0.1}, {"amount": 7}], gift=True, quantity=7),
            ],
        ),
        (
            PRODUCTS,
            [
                product(
                    "Ünï", metadata={"a": "1"}, images=[{"url": "https://a.example/", "alt": ""}]
                ),
                product("-1", description="two\nlines", status="active", stock_quantity=3),
            ],
        ),
    ],
)
def test_what_is_exported_from_afar_imports_and_updates_as_where_the_data_is(
    running: Running,
    laptop: Installation,
    tmp_path: Path,
    words: tuple[str, ...],
    rows: list[dict[str, Any]],
    form: str,
) -> None:
    there = running.installation
    key = "number" if words == ORDERS else "name"
    rows = [row | {key: f"{row[key]} {form}"} for row in rows]
    made = laptop.told(*words, "import", lines(tmp_path / "rows.ndjson", *rows))
    assert made == {"inserted": 2, "updated": 0, "faulty": 0, "rejected": []}
    far, near = tmp_path / f"far.{form}", tmp_path / f"near.{form}"
    count = laptop.told(*words, "export", str(far))
    assert there.told(*words, "export", str(near)) == count
    assert as_sets(far) == as_sets(near)
    done = laptop.told(*words, "import", "--update", str(far))
    assert done["updated"] == count["exported"]
    again = tmp_path / f"again.{form}"
    laptop.told(*words, "export", str(again))
    assert again.read_bytes() == far.read_bytes()


def as_sets(file: Path) -> list[set[str]]:
    """The rows of a file, each without an order of its fields."""
    if file.suffix == ".csv":
        return [set(line.split(",")) for line in file.read_text().splitlines()]
    return [{*map(str, json.loads(line).items())} for line in file.read_text().splitlines()]


def test_faulty_rows_are_told_by_their_lines_and_the_others_are_stored(
    running: Running, laptop: Installation, tmp_path: Path
) -> None:
    rows = [
        order("F1"),
        order("F2", quantity=0),
        order("F1"),
        {"number": "F3", "total": 1},
        order("F4", what=1),
        order("F5", id=7),
        order("F6", total="1"),
    ]
    file = lines(tmp_path / "rows.ndjson", *rows)
    done = laptop.run(*ORDERS, "import", file)
    assert done.returncode == 1
    assert done.stdout.startswith("Inserted 1 purchase order; 6 rows are faulty.")
    told = done.stderr.splitlines()
    assert [line.split(":")[0] for line in told] == [f"line {number}" for number in range(2, 8)]
    near = running.installation.run(*ORDERS, "import", file)
    assert [*told[:1], *told[2:]] == [
        line for line in near.stderr.splitlines() if line[5] not in "13"
    ]


def test_strict_import_from_afar_stores_all_or_nothing(
    laptop: Installation, tmp_path: Path
) -> None:
    file = lines(tmp_path / "rows.ndjson", order("S1"), order("S2", quantity=0))
    done = laptop.run(*ORDERS, "import", "--strict", file)
    assert (done.returncode, "line 2: quantity" in done.stderr) == (1, True)
    numbers = {row["number"] for row in laptop.told(*ORDERS, "list")}
    assert not numbers & {"S1", "S2"}
    file = lines(tmp_path / "rows.ndjson", order("S1"), order("S2"))
    assert laptop.told(*ORDERS, "import", "--strict", file)["inserted"] == 2
    done = laptop.run(*ORDERS, "import", "--strict", file)
    assert (done.returncode, "line 1: number is taken" in done.stderr) == (1, True)


def test_list_shows_the_newest_as_where_the_data_is(
    running: Running, laptop: Installation, tmp_path: Path
) -> None:
    rows = (order(f"L{number}") for number in range(120))
    laptop.told(*ORDERS, "import", lines(tmp_path / "rows.ndjson", *rows))
    for words in ((), ("--limit", "110")):
        assert laptop.told(*ORDERS, "list", *words) == running.installation.told(
            *ORDERS, "list", *words
        )
    assert laptop.run(*ORDERS, "list").stdout == running.installation.run(*ORDERS, "list").stdout


@pytest.mark.parametrize(
    ("words", "variables", "code", "says"),
    [
        ((*ORDERS, "list"), {"api_key": "sk_live_x"}, 1, "AUTHENTICATION_REQUIRED"),
        (("records", "nothing", "list"), {}, 2, f"the kinds are {MANY}"),
        (("records", "products", "export", "x"), {}, 2, f"the kinds are {MANY}"),
        (("products", "export", "x", "--sandbox"), {}, 2, "name the sandbox's address"),
        (("products", "import", "-", "--api-key-stdin"), {}, 2, "both use standard input"),
    ],
)
def test_what_is_refused_is_told_in_one_line(
    laptop: Installation, words: tuple[str, ...], variables: dict[str, str], code: int, says: str
) -> None:
    found, said = laptop.having(**variables).refused(*words)
    assert (found, says in said) == (code, True), said
