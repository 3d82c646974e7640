-- The same columns and indexes as Portico has for these queries, without a search index, since
-- there is no search here. Prices are 1/10000 of the currency's unit, times milliseconds.
PRAGMA journal_mode = WAL;

CREATE TABLE products (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    category TEXT NOT NULL,
    price INTEGER NOT NULL,
    currency TEXT NOT NULL,
    stock_quantity INTEGER NOT NULL,
    status TEXT NOT NULL,
    images TEXT NOT NULL,
    metadata TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX products_by_status ON products (status, id);

CREATE TABLE api_keys (
    key_hash BLOB PRIMARY KEY,
    account_id INTEGER NOT NULL,
    scopes TEXT NOT NULL,
    per_minute INTEGER NOT NULL,
    per_day INTEGER NOT NULL,
    expires_at INTEGER
) STRICT, WITHOUT ROWID;
