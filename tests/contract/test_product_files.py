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
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portico.core.errors import Unreadable
from portico.core.money import CURRENCIES, MAX_PRICE
from portico.core.words import FORMATS, Format
from portico.features.catalogue.products import PRODUCTS as KIND
from portico.features.catalogue.rules import STATUSES
from portico.resource.file_rows import (
    MAX_ROW_BYTES,
    MAX_ROW_LINES,
    FileRow,
    form_of,
    format_of,
    header,
    read_rows,
    sniff,
)
from portico.resource.files import columns_of, file_text
from portico.web.csv_cells import MOST_CELLS
from portico.web.reading import MOST_VALUES

PRODUCTS = columns_of(KIND)
PLAIN = {
    "name": "Lamp",
    "category": "light",
    "price": 10_000,
}


def read(text: str | bytes, form: Format) -> list[FileRow]:
    """All rows of a file."""
    data = text.encode() if isinstance(text, str) else text
    return list(read_rows(PRODUCTS, io.BytesIO(data), form))


def told(row: FileRow) -> dict[str, str]:
    """The faults of a row, which has no values then."""
    assert row.values == {}
    return {fault.field: fault.message for fault in row.faults}


@pytest.mark.parametrize(
    ("text", "form", "more"),
    [
        ('{"name": " Lamp ", "category": "light", "price": 1}\n', "ndjson", {}),
        ('\ufeff\n{"name":"Lamp","category":"light","price":1}\n\n', "ndjson", {}),
        ("\ufeffname,category,price\r\n\r\nLamp,light,1\r\n\r\n", "csv", {}),
        ("name,category,price,currency,images,metadata\nLamp,light,1,,,\n", "csv", {}),
        ("price, Name ,CATEGORY\n1,Lamp,light\n", "csv", {}),
        ("name,category,price\nLamp,light,12.5\n", "csv", {"price": 125_000}),
        ("name,category,price\nLamp,light, 1e2 \n", "csv", {"price": 1_000_000}),
        ('name,category,price,images\nLamp,light,1,"[{""url"":""https://x.de""}]"\n', "csv",
         {"images": '[{"url":"https://x.de","alt":""}]'}),
        ('name,category,price,metadata\nLamp,light,1,"{""sku"":""L-1""}"\n', "csv",
         {"metadata": '{"sku":"L-1"}'}),
        ("sep=;\r\nname;category;price\nLamp;light;1\n", "csv", {}),
        ('\ufeff"sep=\t"\nname\tcategory\tprice\nLamp\tlight\t1\n', "csv", {}),
        ("name,category,price\n" + "\n" * (MAX_ROW_LINES - 1) + "Lamp,light,1\n", "csv", {}),
    ],
)  # fmt: skip
def test_a_row_is_read_like_the_body_of_a_post(
    text: str, form: Format, more: dict[str, Any]
) -> None:
    (row,) = read(text, form)
    assert (row.values, row.faults) == (PLAIN | more, [])


def test_empty_rows_and_columns_around_a_table_are_passed_over() -> None:
    table = read(
        "name,category,price,,\nLamp,light,1,,\n,,,,\nLamp,light,1\nLamp,light,1,,dear\n,,,,\n",
        "csv",
    )
    assert [row.line for row in table] == [2, 4, 5]
    assert table[0].values == table[1].values == PLAIN
    assert told(table[2]) == {"row": "must have 3 cells like the header, not 5"}


def test_every_fault_of_a_row_is_told_and_the_other_rows_are_read() -> None:
    first, second, third = read(
        '{"name": "", "price": -1, "colour": "red"}\n'
        '{"name": "Lamp", "category": "light", "price": 1}\n'
        '{"name": 5, "category": "light", "price": "1"}',
        "ndjson",
    )
    assert told(first) == {
        "name": "must be 1 to 200 characters long",
        "category": "is required",
        "price": "must not be negative",
        "colour": "unknown field",
    }
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
        table = [*read_rows(PRODUCTS, io.BytesIO(HEAD + GOOD + cell + GOOD), "csv")]
        assert [row.values for row in table if not row.faults] == [PLAIN, PLAIN]
        assert table[1].line == 3
        assert table[1].faults
        assert table[-1].end == len(HEAD + GOOD + cell + GOOD)
        lines = [row.line for row in table]
        assert lines == sorted(set(lines)), "whoever goes on knows where by its line"


def test_a_quote_that_is_never_closed_is_told_and_hides_the_rest_of_the_file() -> None:
    rest = b"Phantom,light,1,inside\n" * (2 * MAX_ROW_LINES)
    table = [*read_rows(PRODUCTS, io.BytesIO(HEAD + b'Lamp,light,1,"' + rest), "csv")]
    assert all(row.faults for row in table)
    row = read('name,category,price\n"Lamp' + ("x" * 1000 + "\n") * 2_000, "csv")[0]
    assert told(row)["row"].endswith("bytes; is a closing quote missing?")


def test_a_crowded_row_is_told_without_being_read() -> None:
    crowd = b"[" + b"0," * 100_000 + b"0]"
    (row,) = read(b'{"images":' + crowd + b"}", "ndjson")
    assert told(row) == {"row": f"The JSON has more than {MOST_VALUES} values."}
    (row,) = read(b'name,category,price,images\nLamp,light,1,"' + crowd + b'"', "csv")
    assert told(row)["images"].endswith(f"The JSON has more than {MOST_VALUES} values.")
    (row,) = read(b"name,category,price\nLamp,light,1" + b"," * MOST_CELLS, "csv")
    assert told(row) == {"row": f"must have 3 cells like the header, not {MOST_CELLS + 3}"}


def test_a_cell_that_is_no_json_is_told_by_its_field() -> None:
    (row,) = read("name,category,price,metadata,images\nLamp,light,1,{sku},[5]\n", "csv")
    faults = told(row)
    assert faults["metadata"].startswith("must be JSON. Malformed JSON at column 2")
    assert faults["images.0"] == "must be an object"


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        *dict.fromkeys(("$5", "٣", "0x10", "1_0", "NaN", "1e999999999999999999999", "1,234", "'1"),
                       "must be a number").items(),
        ("1.23456", "must have at most 4 decimals"),
        ("9" * 5_000, "must be less than 1000000000000"),
        ("24,50", "must be a plain number: write 24.5"),
        ("1.234,50", "must be a plain number: write 1234.5"),
        ("-1", "must not be negative"),
    ],
)  # fmt: skip
def test_cells_that_are_no_price_are_told(cell: str, message: str) -> None:
    (row,) = read(f'name,category,price\nLamp,light,"{cell}"\n', "csv")
    assert told(row) == {"price": message}


SEMICOLONS = "separated by semicolons: save it with commas instead"
BAD_HEADERS = {
    b"": "The first line must be a CSV header",
    b",,\n": "The first line must be a CSV header",
    b"sep=;\n": "The first line must be a CSV header",
    b"name,,category,price,\n": "is not valid: '' is not a field.",
    b"id,name\n": "category is missing, price is missing",
    b"name,category,price,Id number\n": "'Id number' is not a field",
    b"Name,category,price,NAME\n": "name appears twice",
    b"id,id,name,category,price\n": "id appears twice",
    b'"name";"category";"price"\r\n': SEMICOLONS,
    b"name;category;" * 50_000 + b"\n": SEMICOLONS,
    b"name\tcategory\tprice\r\n": "separated by tabs: save it with commas instead",
    b"sep=|\nname;category;price\n": "separated by semicolons: save it with pipes instead",
    b"sep=;\nname;category;cost\n": "'cost' is not a field, price is missing",
    b"nom;prix\n": "'nom;prix' is not a field",
    b"n\xe4me,category,price\n": "The CSV header must be UTF-8: save the file as UTF-8.",
    b"name,category,price\rLamp,light,1\r": "must end with LF or CR LF, not with only CR",
    b"x," * 100_000 + b"\n": "The CSV header has 100001 cells",
    "\ufeff\ufeffname,category,price\n".encode(): "begins with two byte order marks",
}


@pytest.mark.parametrize(("first", "message"), BAD_HEADERS.items())
def test_a_bad_csv_header_is_one_short_error_for_the_file(first: bytes, message: str) -> None:
    with pytest.raises(Unreadable) as refusal:
        read(first, "csv")
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 2_000


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_utf16_is_one_error(form: Format, encoding: str, mark: str) -> None:
    text = {"csv": "name,category,price\n", "ndjson": '{"name":"Lamp"}\n'}[form]
    with pytest.raises(Unreadable, match="This file is UTF-16: save it as UTF-8"):
        read((mark + text).encode(encoding), form)


def zipped(*files: tuple[str, str]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, text in files:
            archive.writestr(name, text)
    return file.getvalue()


XLSX = zipped(("[Content_Types].xml", "<Types/>"), ("xl/workbook.xml", "<workbook/>"))
TAR = tarfile.TarInfo("products.csv").tobuf() + b"\0" * 1024


PACKED = {
    "a workbook (.xlsx)": XLSX,
    "a workbook (.ods)": zipped(("mimetype", "application/vnd.oasis.opendocument.spreadsheet")),
    "a workbook (.xls)": bytes.fromhex("d0cf11e0a1b11ae1") + b"\0" * 500,
    "an archive (ZIP)": zipped(("products.csv", "name")),
    "an archive (gzip)": gzip.compress(b"name"),
    "an archive (bzip2)": bz2.compress(b"name"),
    "an archive (xz)": lzma.compress(b"name"),
    "an archive (zstd)": bytes.fromhex("28b52ffd") + b"\0" * 20,
    "an archive (7z)": bytes.fromhex("377abcaf271c") + b"\0" * 20,
    "an archive (RAR)": b"Rar!\x1a\x07\0" + b"\0" * 20,
    "an archive (tar)": TAR,
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", PACKED)
def test_a_workbook_or_an_archive_is_called_what_it_is(kind: str, form: Format) -> None:
    with pytest.raises(Unreadable, match=f"This is {re.escape(kind)}: "):
        read(PACKED[kind], form)


def test_the_format_follows_from_the_name_else_from_the_first_character() -> None:
    assert format_of("a/Products.CSV") == "csv"
    assert format_of("p.ndjson") == format_of("p.jsonl") == "ndjson"
    assert format_of("-") is format_of("products.txt") is format_of("csv.d/p") is None
    assert sniff(b'\xef\xbb\xbf \n {"name"', "product") == "ndjson"
    assert sniff(b"name,category", "product") == sniff(b"", "product") == "csv"
    for name in ("a.ndjson", "a.json", "a.csv"):
        array = io.BytesIO(b'\xef\xbb\xbf [{"name": "Lamp"}]')
        with pytest.raises(Unreadable, match="write one product per line"):
            form_of(io.BufferedReader(array), name, "product")


def update(text: str, form: Format) -> list[FileRow]:
    """All rows of a file whose rows with ids change products."""
    return list(read_rows(PRODUCTS, io.BytesIO(text.encode()), form, update=True))


def test_a_row_with_an_id_changes_what_it_names_alone_and_one_without_is_new() -> None:
    first, second = update("id,price\n17,2.5\n18,\n", "csv")
    (third,) = update('{"id": 17, "description": ""}\n', "ndjson")
    assert (first.id, first.values) == (17, {"price": 25_000})
    assert (third.id, third.values) == (17, {"description": ""})
    assert told(second) == {"price": "must be a number"}
    new, bad = update("id,name,category,price\n,Lamp,light,1\n,Lamp,,1\n", "csv")
    assert (new.id, new.values) == (0, PLAIN)
    assert told(bad) == {"category": "is required"}


def test_an_empty_cell_empties_what_may_be_empty_in_a_changed_product() -> None:
    head = "id,description,images,metadata,currency,stock_quantity,name,status\n"
    (row,) = update(f"{head}17,,,,EUR,1,Lamp,draft\n", "csv")
    (other,) = update(f"{head}17,,,,,,,\n", "csv")
    assert row.values.items() >= {"description": "", "images": "[]", "metadata": "{}"}.items()
    assert told(other).keys() == {"name", "currency", "stock_quantity", "status"}


@pytest.mark.parametrize("cell", ["0", "-1", "x", "1.5", "9223372036854775808", "017"])
def test_what_is_no_id_is_told(cell: str) -> None:
    for row in (*update(f"id,price\n{cell},1\n", "csv"), *update(f'{{"id": "{cell}"}}', "ndjson")):
        assert told(row) == {"id": "must be the id of a product"}


def test_an_id_is_faulty_where_products_are_not_updated() -> None:
    first, second = read("id,name,category,price\n17,Lamp,light,1\n,Lamp,light,1\n", "csv")
    (line,) = read('{"id":17,"name":"Lamp","category":"light","price":1}', "ndjson")
    fault = {"id": "must be omitted unless the import updates existing products"}
    assert told(first) == told(line) == fault
    assert second.values == PLAIN


FORMULAS = ["=1+1", "+1", "-1", "@A1", "\t=1", "\r=1", "'=1", "''-1", "'\t"]
NAMES = ["Lamp", "1-2", "a=b", "", " =1", "'t Veer", "'90s", "'s-Hertogenbosch", "'", "''", "' =1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_what_a_spreadsheet_would_run_is_written_with_an_apostrophe(text: str) -> None:
    product = KIND.new({**PLAIN, "name": text, "category": text, "description": text}, 0)
    (record,) = csv.reader(io.StringIO(file_text(KIND, "csv", [product]).decode(), newline=""))
    assert record[1] == record[2] == record[4] == f"'{text}"
    assert json.loads(file_text(KIND, "ndjson", [product]))["name"] == text


@pytest.mark.parametrize("text", [*NAMES, "a,b", "a;b", "a\tb", 'a"b', "a\nb", "a\rb"])
def test_other_cells_are_written_as_they_are_quoted_where_they_must_be(text: str) -> None:
    line = file_text(KIND, "csv", [KIND.new({**PLAIN, "description": text}, 0)]).decode()
    (record,) = csv.reader(io.StringIO(line, newline=""))
    assert record[4] == text
    doubled = text.replace('"', '""')
    assert (f',"{doubled}",' in line) == (text[:2] in {"a,", "a;", "a\t", 'a"', "a\n", "a\r"})


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
    assert row.values.get("description", "") == text


plain = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
texts = st.builds(str.__add__, st.sampled_from([*FORMULAS, *NAMES]), plain)
names = texts.map(str.strip).filter(bool)
urls = st.text(string.ascii_letters, min_size=1, max_size=9).map("https://example.com/{}".format)


def encoded(value: Any) -> str:
    """A value as it is stored."""
    return msgspec.json.encode(value).decode()


products = st.fixed_dictionaries(
    {
        "name": names,
        "category": names,
        "price": st.integers(0, MAX_PRICE),
        "description": texts,
        "currency": st.sampled_from(sorted(CURRENCIES)),
        "stock_quantity": st.integers(0, 2**31 - 1),
        "status": st.sampled_from(STATUSES),
        "images": st.lists(st.builds(dict, url=urls, alt=texts), max_size=3).map(encoded),
        "metadata": st.dictionaries(texts.filter(bool), texts, max_size=3).map(encoded),
    }
)


@settings(max_examples=40)
@given(st.lists(products, max_size=5), st.sampled_from(FORMATS))
def test_what_is_written_reads_back_the_same(catalog: list[dict[str, Any]], form: Format) -> None:
    made = [KIND.new(values, 0) for values in catalog]
    numbered = [msgspec.structs.replace(product, id=n) for n, product in enumerate(made, 1)]
    written = header(form, PRODUCTS) + file_text(KIND, form, numbered)
    found = list(read_rows(PRODUCTS, io.BytesIO(written), form, update=True))
    assert [(row.id, row.values, row.faults) for row in found] == [
        (n, values, []) for n, values in enumerate(catalog, 1)
    ]


@given(st.binary(max_size=200), st.sampled_from(FORMATS))
def test_any_bytes_are_rows_or_faults(data: bytes, form: Format) -> None:
    head = header(form, PRODUCTS) or b"\n"  # no mark of UTF-16, which refuses the file
    for row in read(head + data, form):
        assert bool(row.values) != bool(row.faults)
        assert 1 <= row.line <= data.count(b"\n") + 2
        assert row.end <= len(head + data)


def test_prices_are_written_as_plain_exact_numbers() -> None:
    product = KIND.new({**PLAIN, "price": MAX_PRICE}, 0)
    (line,) = file_text(KIND, "ndjson", [product]).splitlines()
    assert b'"price":999999999999.9999,' in line
    assert b",999999999999.9999," in file_text(KIND, "csv", [product])
