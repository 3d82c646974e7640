"""`portico products`: imports products from files and exports them to files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portico.cli.lazy import lazy_imports
from portico.cli.record_files import StoredRecords, add_arguments, export_file, import_file

if TYPE_CHECKING:
    from argparse import Namespace

    from portico.cli.arguments import Commands
    from portico.environment import Environment
    from portico.settings import Settings

with lazy_imports():
    from portico.features.catalogue import products

_IMPORT = """\
FILE is CSV (a header and one product a record) or NDJSON (one JSON object a line), with the fields
of POST /products and by its rules: name, category, price, description, currency, stock_quantity,
status, images, metadata. In CSV an empty cell leaves its field out, and cells of images and
metadata hold JSON; an apostrophe that an export puts before a text is taken off. The name's ending
tells the format, else the first character does.

With --update, a row with an id changes the product with that id, so that an exported file can be
edited and imported again. Fields that a row or the header leaves out stay as they are; an empty CSV
cell clears description, images and metadata. A row is faulty if no product has its id, or if it
makes a change of status that is not allowed. Rows without an id become new products. Without
--update, a row with an id is faulty: remove that column to create copies of exported products.

Faulty rows are reported on standard error, with their line and every fault. The other rows are
imported, and the exit code is 1. Rows are stored in small batches: a server keeps running as usual,
and rows that were stored stay if the import is interrupted.

With --strict, either all rows are imported or none, even if the import is killed. The whole file is
first checked, which takes room in the data directory, and then stored in one transaction. Other
changes wait for it and are refused (503) after 5 seconds, so keep strict files below about 50,000
rows, or import them while nobody makes changes. Reading works as usual."""

_EXPORT = """\
Writes every product with its id and without times, as portico products import --update reads it:
one JSON object per line, or CSV if the name ends in .csv. In CSV, a text that a spreadsheet would
run (one that begins with = + - @, a tab or a carriage return, or with apostrophes before one of
these) gets an apostrophe in front."""


def add_to(commands: Commands) -> None:
    """Declares `portico products …`."""
    noun = commands.noun("products", "import and export products")
    importing = noun.verb("import", run_import, "import products from a file", _IMPORT)
    exporting = noun.verb("export", run_export, "export all products to a file", _EXPORT)
    add_arguments(importing, exporting, "products")


async def _products(env: Environment) -> StoredRecords:
    return StoredRecords(env, products.PRODUCTS)


def run_import(settings: Settings, chosen: Namespace) -> int:
    return import_file(settings, chosen, "product", "products", _products)


def run_export(settings: Settings, chosen: Namespace) -> None:
    export_file(settings, chosen, "products", _products)
