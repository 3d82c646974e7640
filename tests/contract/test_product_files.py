"""Products in files: what is read from CSV and NDJSON, what is refused and how it is told, and that
what is written reads back."""

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import string
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from portico.core.errors import Unreadable
from portico.core.money import CURRENCIES, MAX_PRICE
from portico.core.rules import FORMATS, Format
from portico.features.catalogue.files import (
    MAX_ROW_BYTES,
    MAX_ROW_LINES,
    form_of,
    format_of,
    header,
    read_products,
    rows,
    sniff,
)
from portico.features.catalogue.rules import STATUSES, FileRow
from portico.features.catalogue.service import new_product
from portico.web.csv_cells import MOST_CELLS
from portico.web.reading import MOST_VALUES

PLAIN = {
    "name": "Lamp",
    "category": "light",
    "price": 10_000,
    "description": "",
    "currency": "USD",
    "stock_quantity": 0,
    "status": "draft",
    "images": [],
    "metadata": {},
}


def read(text: str | bytes, form: Format) -> list[FileRow]:
    """All rows of a file."""
    data = text.encode() if isinstance(text, str) else text
    return list(read_products(io.BytesIO(data), form))


def told(row: FileRow) -> dict[str, str]:
    """The faults of a row, which has no values then."""
    assert row.values == {}
    return {fault.field: fault.message for fault in row.faults}


def test_a_line_of_ndjson_is_read_like_the_body_of_a_post() -> None:
    (row,) = read('{"name": " Lamp ", "category": "light", "price": 1}\n', "ndjson")

    assert row.values == PLAIN
    assert (row.line, row.faults) == (1, [])


def test_an_empty_csv_cell_leaves_its_field_out() -> None:
    (row,) = read("name,category,price,currency,images,metadata\nLamp,light,1,,,\n", "csv")

    assert row.values == PLAIN


def test_csv_cells_of_images_and_metadata_hold_json() -> None:
    (row,) = read(
        "name,category,price,images,metadata\r\n"
        'Lamp,light,0.25,"[{""url"":""https://example.com/a.png""}]","{""sku"":""L-1""}"\r\n',
        "csv",
    )

    assert row.values["price"] == 2_500
    assert row.values["images"] == [{"url": "https://example.com/a.png"}]
    assert row.values["metadata"] == {"sku": "L-1"}


def test_csv_columns_may_come_in_any_order_and_with_capital_letters() -> None:
    for head in ("price, name ,category", "Price,Name,CATEGORY"):
        (row,) = read(f"{head}\n1,Lamp,light\n", "csv")

        assert row.values == PLAIN


@pytest.mark.parametrize("form", FORMATS)
def test_a_byte_order_mark_and_blank_lines_are_passed_over(form: Format) -> None:
    text = {
        "csv": "\ufeffname,category,price\r\n\r\nLamp,light,1\r\n\r\n",
        "ndjson": '\ufeff\n{"name":"Lamp","category":"light","price":1}\n\n',
    }[form]

    assert [row.values for row in read(text, form)] == [PLAIN]


def test_the_empty_rows_and_columns_around_a_spreadsheets_table_are_passed_over() -> None:
    table = read(
        "name,category,price,,\r\n"
        "Lamp,light,1,,\r\n"
        ",,,,\r\n"
        '"","",""\r\n'
        "Lamp,light,1\r\n"
        "Lamp,light,1,,dear\r\n"
        "Lamp,light,,,\r\n"
        ",,,,\r\n",
        "csv",
    )

    assert [row.line for row in table] == [2, 5, 6, 7]
    assert table[0].values == table[1].values == PLAIN
    assert told(table[2]) == {"row": "must have 3 cells like the header, not 5"}
    assert told(table[3]) == {"price": "is required"}


def test_every_fault_of_a_row_is_told_and_the_other_rows_are_read() -> None:
    first, second, third = read(
        '{"name": "", "price": -1, "colour": "red"}\n'
        '{"name": "Lamp", "category": "light", "price": 1}\n'
        '{"name": 5, "category": "light", "price": "1"}',
        "ndjson",
    )

    assert first.line == 1
    assert list(told(first).items()) == [
        ("name", "must be 1 to 200 characters long"),
        ("category", "is required"),
        ("price", "must not be negative"),
        ("colour", "unknown field"),
    ]
    assert second.values == PLAIN
    assert third.line == 3
    assert told(third) == {"name": "must be a string", "price": "must be a number"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"name": "Lamp" "x"}', "Malformed JSON at column 17"),
        (b'{"name": "La\tmp"}', "Malformed JSON at column 13: Invalid control character."),
        (b'{"name": "Lamp', "Malformed JSON at column 10: Unterminated string."),
        (b'{"name": "Lamp", "name": "Lump"}', "The name 'name' appears twice in one object."),
        (b'{"price": NaN}', "NaN is not a JSON value."),
        # From Python 3.14 on, the stack decides whether so many are too deep.
        (b"[" * 60_000, ("The JSON is nested too deeply.", "Malformed JSON at column 60001")),
        (b'{"name": "\xff"}', "must be UTF-8"),
        (b"\xef\xbb\xbf{}", "The JSON begins with a byte order mark: send it without."),
        (b"[]", "must be a JSON object"),
        (b"12", "must be a JSON object"),
        (b'"' + b"x" * MAX_ROW_BYTES, f"must be shorter than {MAX_ROW_BYTES} bytes"),
    ],
)
def test_a_line_that_is_no_product_is_told_and_the_next_one_is_read(
    line: bytes, message: str | tuple[str, ...]
) -> None:
    good = b'{"name":"Lamp","category":"light","price":1}'
    before, bad, after = read(good + b"\n" + line + b"\n" + good, "ndjson")

    assert before.values == after.values == PLAIN
    assert (bad.line, after.line) == (2, 3)
    assert told(bad)["row"].startswith(message)


def test_rows_of_csv_are_told_by_the_line_they_begin_on() -> None:
    table = read(
        "name,category,price,description\n"
        'Lamp,light,1,"two\nlines"\n'
        "Lamp,light,x,\n"
        "Lamp,light\n"
        'La"mp,"li"ght,1,\n'
        "Lamp,light,1,\n",
        "csv",
    )

    assert [row.line for row in table] == [2, 4, 5, 6, 7]
    assert table[0].values["description"] == "two\nlines"
    assert told(table[1]) == {"price": "must be a number"}
    assert told(table[2]) == {"row": "must have 4 cells like the header, not 2"}
    assert told(table[3])["row"].startswith("is not well-formed CSV: ")
    assert table[4].values == PLAIN


def test_a_quote_that_is_never_closed_is_told_without_holding_the_file() -> None:
    line = "x" * 1000 + "\n"
    table = read('name,category,price\n"Lamp' + line * 2_000, "csv")

    assert table[0].line == 2
    assert told(table[0])["row"].endswith("bytes; is a closing quote missing?")


HEAD = b"name,category,price,description\n"
GOOD = b"Lamp,light,1,\n"


def test_what_a_faulty_cell_holds_is_never_read_as_rows() -> None:
    inner = b"Phantom,light,1,inside\n"
    latin = b'Lamp,light,1,"caf\xe9\n' + inner + b'"\n'
    for cell in (
        latin,
        latin.replace(inner, b'the ""end""\n' + inner),
        b'Lamp,light,1,"' + inner * (MAX_ROW_LINES + 9) + b'"\n',
        b'Lamp,light,1,"' + inner * (3 * MAX_ROW_LINES) + b'the end", and more\n',
        b'Lamp,light,1,"' + b"x" * 2 * MAX_ROW_BYTES + b"\n" + inner + b'"\n',
        b"Lamp,light,1," + b"x" * 2 * MAX_ROW_BYTES + b"\n",
    ):
        table = [*read_products(io.BytesIO(HEAD + GOOD + cell + GOOD), "csv")]
        assert [row.values for row in table if not row.faults] == [PLAIN, PLAIN]
        assert table[1].line == 3
        assert table[1].faults
        assert table[-1].end == len(HEAD + GOOD + cell + GOOD)
        lines = [row.line for row in table]
        assert lines == sorted(set(lines)), "whoever goes on knows where by its line"


def test_the_rest_of_a_file_is_within_a_quote_that_is_never_closed() -> None:
    rest = b"Phantom,light,1,inside\n" * (2 * MAX_ROW_LINES)
    table = [*read_products(io.BytesIO(HEAD + b'Lamp,light,1,"' + rest), "csv")]
    assert all(row.faults for row in table)


class Counted(io.BytesIO):
    """A file that counts the lines that were read of it."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.lines = 0

    def readline(self, size: int | None = -1, /) -> bytes:
        self.lines += 1
        return super().readline(size)


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (b"\n" * 3 * MAX_ROW_LINES, "ndjson"),
        (b"name,category,price\n" + b"\n" * 3 * MAX_ROW_LINES, "csv"),
        (b"name,category,price\n" + b",,\n" * 3 * MAX_ROW_LINES, "csv"),
        (b'name,category,price\n"' + b"\n" * 3 * MAX_ROW_LINES, "csv"),
    ],
    ids=["empty lines", "empty lines of CSV", "empty rows of CSV", "a quote that is never closed"],
)
def test_the_next_row_or_fault_comes_within_so_many_lines(data: bytes, form: Format) -> None:
    file = Counted(data)
    before = 0
    for row in read_products(file, form):
        assert file.lines - before <= MAX_ROW_LINES + 2
        before = file.lines
        assert told(row)["row"].startswith(f"must have at most {MAX_ROW_LINES} lines")
    assert before > 2 * MAX_ROW_LINES


def test_cells_over_many_lines_hold_no_more_than_a_row_may() -> None:
    line = b'"' + b"x" * 999 + b'\n",'
    first = next(read_products(io.BytesIO(b"name,category,price\n" + line * 2_000), "csv"))
    assert told(first)["row"].startswith(f"must be shorter than {MAX_ROW_BYTES} bytes")


@pytest.mark.parametrize("line", [b"Lamp,light,1", b"name,category,price"])
def test_a_crowd_of_empty_cells_is_not_passed_over_one_by_one(line: bytes) -> None:
    text = b"name,category,price\n" + line + b"," * MOST_CELLS + b"\n"
    (row,) = read(text, "csv")
    assert told(row) == {"row": f"must have 3 cells like the header, not {MOST_CELLS + 3}"}
    with pytest.raises(Unreadable, match=f"has {MOST_CELLS + 3} cells"):
        read(text.partition(b"\n")[2], "csv")


@pytest.mark.parametrize("form", FORMATS)
def test_a_row_after_many_empty_lines_is_read(form: Format) -> None:
    row = {"csv": b"name,category,price\n", "ndjson": b""}[form] + b"\n" * (MAX_ROW_LINES - 1)
    row += {"csv": b"Lamp,light,1\n", "ndjson": b'{"name":"Lamp","category":"light","price":1}'}[
        form
    ]
    assert [each.values for each in read(row, form)] == [PLAIN]


def test_a_crowded_row_is_told_without_being_read() -> None:
    crowd = b"[" + b"0," * 100_000 + b"0]"
    (row,) = read(b'{"images":' + crowd + b"}", "ndjson")
    assert told(row) == {"row": f"The JSON has more than {MOST_VALUES} values."}
    (row,) = read(b'name,category,price,images\nLamp,light,1,"' + crowd + b'"', "csv")
    assert told(row)["images"].endswith(f"The JSON has more than {MOST_VALUES} values.")


def test_a_cell_that_is_no_json_is_told_by_its_field() -> None:
    (row,) = read("name,category,price,metadata,images\nLamp,light,1,{sku},[5]\n", "csv")

    faults = told(row)
    assert faults["metadata"].startswith("must be JSON. Malformed JSON at column 2")
    assert faults["images.0"] == "must be an object"


@pytest.mark.parametrize(
    ("cell", "units"), [("12.5", 125_000), ("007", 70_000), ("1e2", 1_000_000), (" 3 ", 30_000)]
)
def test_numbers_in_cells_are_read_exactly(cell: str, units: int) -> None:
    (row,) = read(f"name,category,price\nLamp,light,{cell}\n", "csv")

    assert row.values["price"] == units


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("$5", "must be a number"),
        ("٣", "must be a number"),
        ("0x10", "must be a number"),
        ("1_000", "must be a number"),
        ("NaN", "must be a number"),
        ("1.23456", "must have at most 4 decimals"),
        ("9" * 5_000, "must be less than 1000000000000"),
        ("1e999999999999999999999", "must be a number"),
        ("24,50", "must be a plain number: write 24.5"),
        ("1.234,50", "must be a plain number: write 1234.5"),
        ("1,234", "must be a number"),
    ],
)
def test_cells_that_are_no_price_are_told(cell: str, message: str) -> None:
    (row,) = read(f'name,category,price\nLamp,light,"{cell}"\n', "csv")

    assert told(row) == {"price": message}
    assert row.given["price"].startswith(cell[:50])


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (b"", "The first line must be a CSV header"),
        (b"\n\n", "The first line must be a CSV header"),
        (b",,\n", "The first line must be a CSV header"),
        (b"name,,category,price,\n", "is not valid: '' is not a field."),
        (b"name,price\n", "category is missing"),
        (b"name,category,price,Id number\n", "'Id number' is not a field"),
        (b"Name,category,price,NAME\n", "name appears twice"),
        (b"id,id,name,category,price\n", "id appears twice"),
        (b"id,name\n", "category is missing, price is missing"),
        (b"name,name,category,price\n", "name appears twice"),
        (b"name;category;price\n", "separated by semicolons: save it with commas instead"),
        (b'"name";"category";"price"\r\n', "separated by semicolons: save it with commas instead"),
        (b"name\tcategory\tprice\r\n", "separated by tabs: save it with commas instead"),
        (b"name|category|price\r\n", "separated by pipes: save it with commas instead"),
        (b"sep=|\nname;category;price\n", "separated by semicolons: save it with pipes instead"),
        (b"sep=;\nname;category;cost\n", "'cost' is not a field, price is missing"),
        (b"sep=;\n", "The first line must be a CSV header"),
        (b"nom;prix\n", "'nom;prix' is not a field"),
        (b"Lamp,light,1\n", "'Lamp' is not a field, 'light' is not a field, '1' is not a field"),
        (b"n\xe4me,category,price\n", "The CSV header must be UTF-8: save the file as UTF-8."),
        (b"name,category,price\rLamp,light,1\r", "must end with LF or CR LF, not with only CR"),
        (b"x," * 1_000 + b"\n", "'x' is not a field"),
        (b"x," * 100_000 + b"\n", "The CSV header has 100001 cells"),
        (
            b"name;category;" * 50_000 + b"\n",
            "separated by semicolons: save it with commas instead",
        ),
    ],
)
def test_a_bad_csv_header_is_one_error_for_the_file(first: bytes, message: str) -> None:
    with pytest.raises(Unreadable) as refusal:
        read(first, "csv")

    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 2_000


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_file_that_says_it_is_utf16_is_one_error(form: Format, encoding: str) -> None:
    text = {"csv": "name,category,price\n", "ndjson": '{"name":"Lamp"}\n'}[form]
    with pytest.raises(Unreadable, match="This file is UTF-16: save it as UTF-8"):
        read(f"\ufeff{text}".encode(encoding), form)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_byte_order_mark_is_one_error(form: Format, encoding: str) -> None:
    text = {"csv": "name,category,price\n", "ndjson": '{"name":"Lamp"}\n'}[form]
    with pytest.raises(Unreadable, match="This file is UTF-16: save it as UTF-8"):
        read(text.encode(encoding), form)


@pytest.mark.parametrize("form", FORMATS)
def test_a_second_byte_order_mark_is_one_error(form: Format) -> None:
    with pytest.raises(Unreadable, match="begins with two byte order marks"):
        read("\ufeff\ufeffname,category,price\n", form)


def zipped(*files: tuple[str, str], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A ZIP file of these names and texts."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, text in files:
            archive.writestr(name, text)
    return file.getvalue()


def tarred(text: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("products.csv")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    return file.getvalue()


TABLE = "name,category,price\nLamp,light,1\n"
XLSX = zipped(("[Content_Types].xml", "<Types/>"), ("xl/workbook.xml", "<workbook/>"))
ODS = zipped(
    ("mimetype", "application/vnd.oasis.opendocument.spreadsheet"), ("content.xml", ""),
    method=zipfile.ZIP_STORED,
)  # fmt: skip


PACKED = {
    "a workbook (.xlsx)": XLSX,
    "a workbook (.ods)": ODS,
    "a workbook (.xls)": bytes.fromhex("d0cf11e0a1b11ae1") + b"\0" * 500,
    "an archive (ZIP)": zipped(("products.csv", TABLE)),
    "an archive (gzip)": gzip.compress(TABLE.encode()),
    "an archive (bzip2)": bz2.compress(TABLE.encode()),
    "an archive (xz)": lzma.compress(TABLE.encode()),
    "an archive (zstd)": bytes.fromhex("28b52ffd") + b"\0" * 20,
    "an archive (7z)": bytes.fromhex("377abcaf271c") + b"\0" * 20,
    "an archive (RAR)": b"Rar!\x1a\x07\0" + b"\0" * 20,
    "an archive (tar)": tarred(TABLE.encode()),
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", PACKED)
def test_a_workbook_or_an_archive_is_called_what_it_is(kind: str, form: Format) -> None:
    with pytest.raises(Unreadable, match=f"This is {re.escape(kind)}: "):
        read(PACKED[kind], form)


@pytest.mark.parametrize(
    "first", ["sep=;\r\n", "\ufeffSEP=;\n", '"sep=;"\n', "sep=\t\n", "sep=,\n"]
)
def test_a_first_line_that_names_the_separator_is_obeyed(first: str) -> None:
    by = first.strip('\r\n"')[-1]
    (row,) = read(first + TABLE.replace(",", by), "csv")

    assert (row.line, row.values) == (3, PLAIN)


def test_a_json_array_is_one_error_whatever_the_file_is_called(tmp_path: Path) -> None:
    for name in ("a.ndjson", "a.json", "a.csv"):
        path = tmp_path / name
        path.write_text('\ufeff [{"name": "Lamp"}]')
        with path.open("rb") as file, pytest.raises(Unreadable, match="write one product per line"):
            form_of(file, name)


def test_the_format_follows_from_the_name_else_from_the_first_character() -> None:
    assert format_of("a/Products.CSV") == "csv"
    assert format_of("p.ndjson") == format_of("p.jsonl") == "ndjson"
    assert format_of("-") is format_of("products.txt") is format_of("csv.d/p") is None
    assert sniff(b'\xef\xbb\xbf \n {"name"') == "ndjson"
    assert sniff(b"name,category") == sniff(b"") == "csv"
    with pytest.raises(Unreadable, match="one product per line"):
        sniff(b"[\n{")


def update(text: str, form: Format) -> list[FileRow]:
    """All rows of a file whose rows with ids change products."""
    return list(read_products(io.BytesIO(text.encode()), form, update=True))


def test_a_row_with_an_id_changes_what_it_names_alone() -> None:
    first, second = update("id,price\n17,2.5\n18,\n", "csv")
    (third,) = update('{"id": 17, "description": ""}\n', "ndjson")

    assert (first.id, first.values) == (17, {"price": 25_000})
    assert (third.id, third.values) == (17, {"description": ""})
    assert told(second) == {"price": "must be a number"}


def test_an_empty_cell_empties_what_may_be_empty_in_a_product_that_is_changed() -> None:
    head = "id,description,images,metadata,currency,stock_quantity,name,status\n"
    (row,) = update(f"{head}17,,,,EUR,1,Lamp,draft\n", "csv")
    (other,) = update(f"{head}17,,,,,,,\n", "csv")

    assert {name: row.values[name] for name in ("description", "images", "metadata")} == {
        "description": "",
        "images": [],
        "metadata": {},
    }
    assert told(other).keys() == {"name", "currency", "stock_quantity", "status"}


def test_a_row_without_an_id_is_a_new_product_beside_those_that_are_changed() -> None:
    first, second = update("id,name,category,price\n,Lamp,light,1\n,Lamp,,1\n", "csv")

    assert (first.id, first.values) == (0, PLAIN)
    assert told(second) == {"category": "is required"}


@pytest.mark.parametrize(
    "cell", ["0", "-1", "x", "1.5", "9223372036854775808", "1e3", "017", "+17"]
)
def test_what_is_no_id_is_told(cell: str) -> None:
    (row,) = update(f"id,price\n{cell},1\n", "csv")

    assert told(row) == {"id": "must be the id of a product"}
    (line,) = update(json.dumps({"id": cell}), "ndjson")
    assert told(line) == {"id": "must be the id of a product"}


def test_an_id_is_faulty_where_products_are_not_updated() -> None:
    first, second = read("id,name,category,price\n17,Lamp,light,1\n,Lamp,light,1\n", "csv")
    (line,) = read('{"id":17,"name":"Lamp","category":"light","price":1}', "ndjson")

    fault = {"id": "must be omitted unless the import updates existing products"}
    assert told(first) == told(line) == fault
    assert second.values == PLAIN


FORMULAS = ["=1+1", "+1", "-1", "@A1", "\t=1", "\r=1", "'=1", "''-1", "'\t"]
NAMES = ["Lamp", "1-2", "a=b", "", " =1", "'t Veer", "'90s", "'s-Hertogenbosch", "'", "''", "' =1"]


def written(text: str) -> tuple[str, list[str]]:
    """A description as CSV: the line, and its cells as a spreadsheet reads them."""
    product = new_product({**PLAIN, "description": text}, 0)
    line = rows("csv", [product]).decode()
    (record,) = csv.reader(io.StringIO(line, newline=""))
    return line, record


@pytest.mark.parametrize("text", FORMULAS)
def test_what_a_spreadsheet_would_run_is_written_with_an_apostrophe(text: str) -> None:
    product = new_product({**PLAIN, "name": text, "category": text, "description": text}, 0)

    (record,) = csv.reader(io.StringIO(rows("csv", [product]).decode(), newline=""))
    assert record[1] == record[2] == record[4] == f"'{text}"
    assert json.loads(rows("ndjson", [product]))["name"] == text


@pytest.mark.parametrize("text", NAMES)
def test_other_cells_are_written_as_they_are(text: str) -> None:
    assert written(text)[1][4] == text


@pytest.mark.parametrize("text", ["a,b", "a;b", "a\tb", 'a"b', "a\nb", "a\rb"])
def test_cells_with_a_separator_a_quote_or_a_line_end_are_quoted(text: str) -> None:
    line, record = written(text)

    doubled = text.replace('"', '""')
    assert f',"{doubled}",' in line
    assert record[4] == text


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        *((f"'{text}", text) for text in FORMULAS),
        *((text, text) for text in ("=1+1", *NAMES) if text == text.strip()),
    ],
)
def test_an_apostrophe_is_taken_off_exactly_where_an_export_puts_one(cell: str, text: str) -> None:
    head = "name,category,price,description\n"
    (row,) = read(f'{head}Lamp,light,1,"{cell}"\n', "csv")

    assert row.values["description"] == text


def test_no_apostrophe_is_taken_off_a_number() -> None:
    (row,) = read("name,category,price\nLamp,light,'1\n", "csv")

    assert told(row) == {"price": "must be a number"}


def test_numbers_are_never_taken_for_formulas() -> None:
    (row,) = read("name,category,price\nLamp,light,-1\n", "csv")

    assert told(row) == {"price": "must not be negative"}


plain = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
texts = st.builds(str.__add__, st.sampled_from([*FORMULAS, *NAMES]), plain)
names = texts.map(str.strip).filter(bool)
urls = st.text(string.ascii_letters, min_size=1, max_size=9).map("https://example.com/{}".format)
products = st.fixed_dictionaries(
    {
        "name": names,
        "category": names,
        "price": st.integers(0, MAX_PRICE),
        "description": texts,
        "currency": st.sampled_from(sorted(CURRENCIES)),
        "stock_quantity": st.integers(0, 2**31 - 1),
        "status": st.sampled_from(STATUSES),
        "images": st.lists(st.fixed_dictionaries({"url": urls, "alt": texts}), max_size=3),
        "metadata": st.dictionaries(texts.filter(bool), texts, max_size=3),
    }
)


@given(st.lists(products, max_size=5), st.sampled_from(FORMATS))
def test_what_is_written_reads_back_the_same(catalog: list[dict[str, Any]], form: Format) -> None:
    made = [new_product(values, 0) for values in catalog]
    numbered = [msgspec.structs.replace(product, id=n) for n, product in enumerate(made, 1)]
    written = header(form) + rows(form, numbered)

    found = list(read_products(io.BytesIO(written), form, update=True))
    assert [(row.id, row.values, row.faults) for row in found] == [
        (n, values, []) for n, values in enumerate(catalog, 1)
    ]


@given(st.binary(max_size=200), st.sampled_from(FORMATS))
def test_any_bytes_are_rows_or_faults(data: bytes, form: Format) -> None:
    head = header(form) or b"\n"  # no mark of UTF-16, which refuses the file

    for row in read(head + data, form):
        assert bool(row.values) != bool(row.faults)
        assert 1 <= row.line <= data.count(b"\n") + 2
        assert row.end <= len(head + data)


def test_prices_are_written_as_plain_exact_numbers() -> None:
    product = new_product({**PLAIN, "price": MAX_PRICE}, 0)

    (line,) = rows("ndjson", [product]).splitlines()
    assert b'"price":999999999999.9999,' in line
    assert b",999999999999.9999," in rows("csv", [product])
