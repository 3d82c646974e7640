-- How many products of each status there are among every 4,096 ids, so that a page anywhere is found
-- without passing all that come before it; spread over shards as list_counts is.
CREATE TABLE list_blocks (
    list TEXT NOT NULL,
    key TEXT NOT NULL,
    block BIGINT NOT NULL,
    shard BIGINT NOT NULL,
    total BIGINT NOT NULL,
    PRIMARY KEY (list, key, block, shard)
) WITH (fillfactor = 50);

CREATE FUNCTION block_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO list_blocks AS b
    SELECT TG_TABLE_NAME, status, id / 4096, pg_backend_pid() % 16, count(*)
    FROM added GROUP BY status, id / 4096 ORDER BY status, id / 4096
    ON CONFLICT (list, key, block, shard) DO UPDATE SET total = b.total + excluded.total;
    RETURN NULL;
END $$;
CREATE FUNCTION block_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO list_blocks AS b
    SELECT TG_TABLE_NAME, status, id / 4096, pg_backend_pid() % 16, -count(*)
    FROM removed GROUP BY status, id / 4096 ORDER BY status, id / 4096
    ON CONFLICT (list, key, block, shard) DO UPDATE SET total = b.total + excluded.total;
    RETURN NULL;
END $$;
CREATE FUNCTION block_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO list_blocks AS b
    SELECT TG_TABLE_NAME, status, block, pg_backend_pid() % 16, sum(n) FROM (
        SELECT status, id / 4096 AS block, 1 AS n FROM added
        UNION ALL SELECT status, id / 4096, -1 FROM removed
    ) AS moved GROUP BY status, block HAVING sum(n) <> 0 ORDER BY status, block
    ON CONFLICT (list, key, block, shard) DO UPDATE SET total = b.total + excluded.total;
    RETURN NULL;
END $$;

CREATE TRIGGER product_blocks_inserted AFTER INSERT ON products REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION block_added();
CREATE TRIGGER product_blocks_deleted AFTER DELETE ON products REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION block_removed();
CREATE TRIGGER product_blocks_updated AFTER UPDATE ON products
    REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION block_changed();

-- Now that every change is counted, and none is under way.
INSERT INTO list_blocks
SELECT 'products', status, id / 4096, 0, count(*) FROM products GROUP BY status, id / 4096;
