-- Times are milliseconds since the epoch, prices are 1/10000 of the currency's unit.

CREATE TABLE users (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    name TEXT NOT NULL,
    name_key TEXT COLLATE "C" NOT NULL,
    email TEXT NOT NULL,
    email_key TEXT COLLATE "C" NOT NULL UNIQUE,
    role TEXT NOT NULL,
    plan TEXT NOT NULL,
    avatar_url TEXT,
    theme TEXT NOT NULL,
    language TEXT NOT NULL,
    notifications BIGINT NOT NULL,
    account_id BIGINT UNIQUE,
    password_hash TEXT,
    last_login_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX users_by_name ON users (name_key, id);
CREATE INDEX users_by_created_at ON users (created_at, id);
CREATE INDEX users_by_role ON users (role, id);

CREATE TABLE products (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    category TEXT NOT NULL,
    price BIGINT NOT NULL,
    currency TEXT NOT NULL,
    stock_quantity BIGINT NOT NULL,
    status TEXT NOT NULL,
    images TEXT NOT NULL,
    metadata TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX products_by_status ON products (status, id);
CREATE INDEX products_by_category ON products (status, category, id);
CREATE INDEX products_by_price ON products (status, price, stock_quantity);

-- The words of a product, as `domain.search` spells them; a word of the name stands here twice,
-- once after '='.
CREATE TABLE product_words (
    id BIGINT PRIMARY KEY REFERENCES products (id) ON DELETE CASCADE,
    words TSVECTOR NOT NULL
);
CREATE INDEX product_words_by_word ON product_words USING gin (words);

CREATE TABLE api_keys (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    type TEXT NOT NULL,
    hint TEXT NOT NULL,
    key_hash BYTEA NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    last_used_at BIGINT,
    revoked_at BIGINT,
    rotated_at BIGINT
);
CREATE INDEX api_keys_by_user ON api_keys (user_id, id);

CREATE TABLE rate_counters (
    caller TEXT PRIMARY KEY,
    minute BIGINT NOT NULL,
    minute_count BIGINT NOT NULL,
    day BIGINT NOT NULL,
    day_count BIGINT NOT NULL
);

-- Exact totals, and a version that moves with every change of a list, spread over shards so that
-- concurrent writers seldom wait for one another. A sum over one snapshot is exact.
CREATE TABLE list_counts (
    list TEXT NOT NULL,
    key TEXT NOT NULL,
    shard BIGINT NOT NULL,
    total BIGINT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (list, key, shard)
) WITH (fillfactor = 50);

CREATE FUNCTION count_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(
        'INSERT INTO list_counts AS c
         SELECT %L, %I, pg_backend_pid() %% 16, count(*), 1 FROM added GROUP BY %I ORDER BY %I
         ON CONFLICT (list, key, shard)
         DO UPDATE SET total = c.total + excluded.total, version = c.version + 1',
        TG_TABLE_NAME, TG_ARGV[0], TG_ARGV[0], TG_ARGV[0]);
    RETURN NULL;
END $$;
CREATE FUNCTION count_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(
        'INSERT INTO list_counts AS c
         SELECT %L, %I, pg_backend_pid() %% 16, -count(*), 1 FROM removed GROUP BY %I ORDER BY %I
         ON CONFLICT (list, key, shard)
         DO UPDATE SET total = c.total + excluded.total, version = c.version + 1',
        TG_TABLE_NAME, TG_ARGV[0], TG_ARGV[0], TG_ARGV[0]);
    RETURN NULL;
END $$;
CREATE FUNCTION count_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(
        'INSERT INTO list_counts AS c
         SELECT %L, key, pg_backend_pid() %% 16, sum(n), 1 FROM (
             SELECT %I AS key, 1 AS n FROM added UNION ALL SELECT %I, -1 FROM removed
         ) AS moved GROUP BY key ORDER BY key
         ON CONFLICT (list, key, shard)
         DO UPDATE SET total = c.total + excluded.total, version = c.version + 1',
        TG_TABLE_NAME, TG_ARGV[0], TG_ARGV[0]);
    RETURN NULL;
END $$;

CREATE TRIGGER products_inserted AFTER INSERT ON products REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION count_added('status');
CREATE TRIGGER products_deleted AFTER DELETE ON products REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION count_removed('status');
CREATE TRIGGER products_updated AFTER UPDATE ON products
    REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION count_changed('status');
CREATE TRIGGER users_inserted AFTER INSERT ON users REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION count_added('role');
CREATE TRIGGER users_deleted AFTER DELETE ON users REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION count_removed('role');
CREATE TRIGGER users_updated AFTER UPDATE ON users
    REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION count_changed('role');

-- Tells every process that a credential may have changed; the channel bears the schema's name.
CREATE FUNCTION tell_of_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify(TG_TABLE_SCHEMA, TG_TABLE_NAME);
    RETURN NULL;
END $$;
CREATE TRIGGER users_told AFTER UPDATE OR DELETE ON users
    FOR EACH STATEMENT EXECUTE FUNCTION tell_of_change();
CREATE TRIGGER api_keys_told AFTER INSERT OR DELETE
    OR UPDATE OF expires_at, revoked_at ON api_keys
    FOR EACH STATEMENT EXECUTE FUNCTION tell_of_change();
