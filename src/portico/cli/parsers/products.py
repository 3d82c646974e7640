"""What can be typed behind `portico products`."""

from portico.cli.arguments import Commands, take_sandbox
from portico.domain.words import FORMATS

_IMPORT = """\
FILE is CSV (a header and one product a record) or NDJSON (one JSON object a line), with the fields
of POST /products and by its rules: name, category, price, description, currency, stock_quantity,
status, images, metadata. In CSV an empty cell leaves its field out, and cells of images and
metadata hold JSON; one apostrophe before a text is taken off. The name's ending tells the format,
else the first character does.

With --update a row with an id changes the product that has it, so that what was exported, and
perhaps changed, can be stored again. What a row or the header does not name stays as it is, an
empty cell of CSV empties description, images and metadata, and what is as it was changes nothing.
An id of no product is faulty, and so is a change of status that the states do not allow. Rows
without an id are new products. Without --update a row with an id is faulty: nobody makes a second
product of what was exported unless the column is taken out.

A faulty row is told on standard error with its line and every fault, and the others go in; the
exit code is then 1. Rows are stored in small batches, so a server beside it goes on as usual, and
what was stored stays when the import is interrupted.

With --strict all rows go in or none, even when the import is killed. The whole file is checked
first, onto disk in the data directory; then one transaction takes it all. A server's own writes
wait for that transaction and are refused (503) after 5 seconds, so keep strict files small, about
50,000 rows, or import them while nobody writes. Reading goes on as usual."""

_EXPORT = """\
Writes what portico products import --update takes: every product with its id and without times,
one JSON object a line, or CSV for a name in .csv. A text of CSV that a spreadsheet would run (it
begins with = + - @, a tab, a carriage return or an apostrophe) gets an apostrophe before it."""


def add_to(commands: Commands) -> None:
    """Declares `portico products …`."""
    products = commands.noun("products", "import and export products")
    importing = products.verb(
        "import", "portico.cli.products:run_import", "store the products of a file", _IMPORT
    )
    importing.add_argument("file", metavar="FILE", help="the file, or - for standard input")
    importing.add_argument("--strict", action="store_true", help="store all rows or none")
    importing.add_argument(
        "--update", action="store_true", help="change the products that rows with an id name"
    )
    take_sandbox(importing)
    exporting = products.verb(
        "export", "portico.cli.products:run_export", "write every product to a file", _EXPORT
    )
    exporting.add_argument("file", metavar="FILE", help="the file, or - for standard output")
    take_sandbox(exporting)
    for command in (importing, exporting):
        command.add_argument("--format", choices=FORMATS, help="instead of what the name tells")
