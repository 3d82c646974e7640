-- Times are milliseconds since the epoch, prices are 1/10000 of the currency's unit.

CREATE TABLE users (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    email TEXT NOT NULL,
    email_key TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL,
    plan TEXT NOT NULL,
    avatar_url TEXT,
    theme TEXT NOT NULL,
    language TEXT NOT NULL,
    notifications INTEGER NOT NULL,
    account_id INTEGER UNIQUE,
    password_hash TEXT,
    last_login_at INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX users_by_name ON users (name_key, id);
CREATE INDEX users_by_created_at ON users (created_at, id);
CREATE INDEX users_by_role ON users (role, id);

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
CREATE INDEX products_by_category ON products (status, category, id);
CREATE INDEX products_by_price ON products (status, price, stock_quantity);

-- The words of a product, as `domain.search` spells them; one row a product, by its id.
CREATE VIRTUAL TABLE product_words USING fts5 (
    name, description,
    content = '', contentless_delete = 1, detail = 'column',
    tokenize = "unicode61 remove_diacritics 0 tokenchars '_'"
);

CREATE TABLE api_keys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    type TEXT NOT NULL,
    hint TEXT NOT NULL,
    key_hash BLOB NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER,
    revoked_at INTEGER,
    rotated_at INTEGER
) STRICT;
CREATE INDEX api_keys_by_user ON api_keys (user_id, id);

CREATE TABLE rate_counters (
    caller TEXT PRIMARY KEY,
    minute INTEGER NOT NULL,
    minute_count INTEGER NOT NULL,
    day INTEGER NOT NULL,
    day_count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Exact totals, and a version that moves with every change of a list. PostgreSQL spreads them over
-- shards; one writer needs one.
CREATE TABLE list_counts (
    list TEXT NOT NULL,
    key TEXT NOT NULL,
    shard INTEGER NOT NULL,
    total INTEGER NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (list, key, shard)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER products_inserted AFTER INSERT ON products BEGIN
    INSERT INTO list_counts VALUES ('products', new.status, 0, 1, 1)
    ON CONFLICT DO UPDATE SET total = total + 1, version = version + 1;
END;
CREATE TRIGGER products_deleted AFTER DELETE ON products BEGIN
    UPDATE list_counts SET total = total - 1, version = version + 1
    WHERE list = 'products' AND key = old.status AND shard = 0;
END;
CREATE TRIGGER products_updated AFTER UPDATE ON products BEGIN
    UPDATE list_counts SET total = total - 1, version = version + 1
    WHERE list = 'products' AND key = old.status AND shard = 0;
    INSERT INTO list_counts VALUES ('products', new.status, 0, 1, 1)
    ON CONFLICT DO UPDATE SET total = total + 1, version = version + 1;
END;
CREATE TRIGGER users_inserted AFTER INSERT ON users BEGIN
    INSERT INTO list_counts VALUES ('users', new.role, 0, 1, 1)
    ON CONFLICT DO UPDATE SET total = total + 1, version = version + 1;
END;
CREATE TRIGGER users_deleted AFTER DELETE ON users BEGIN
    UPDATE list_counts SET total = total - 1, version = version + 1
    WHERE list = 'users' AND key = old.role AND shard = 0;
END;
CREATE TRIGGER users_updated AFTER UPDATE OF role ON users BEGIN
    UPDATE list_counts SET total = total - 1, version = version + 1
    WHERE list = 'users' AND key = old.role AND shard = 0;
    INSERT INTO list_counts VALUES ('users', new.role, 0, 1, 1)
    ON CONFLICT DO UPDATE SET total = total + 1, version = version + 1;
END;
