"""The columns that a new secret must encrypt anew."""

from portico.data.database import Database
from portico.features.access.sealing import COLUMNS

BYTES = {
    "sqlite": "SELECT m.name, p.name FROM sqlite_master AS m, pragma_table_info(m.name) AS p"
    " WHERE m.type = 'table' AND m.name NOT LIKE 'product_words%' AND p.type = 'BLOB'",
    "postgres": "SELECT table_name, column_name FROM information_schema.columns"
    " WHERE table_schema = current_schema() AND data_type = 'bytea'",
}

OTHERS = {
    ("idempotency_keys", "body"),
    ("passkeys", "credential_id"),
    ("passkeys", "public_key"),
    ("shown_once", "page"),  # encrypted under a token that is not stored
}


async def test_all_bytes_are_sealed_digests_or_known_to_be_neither(database: Database) -> None:
    found = {(row[0], row[1]) for row in await database.all(BYTES[database.engine])}
    sealed = {(one.table, one.column) for one in COLUMNS}
    assert {one for one in found if not one[1].endswith("_hash")} == sealed | OTHERS
