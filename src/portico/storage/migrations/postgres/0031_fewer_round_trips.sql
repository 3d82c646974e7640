-- What used to take several statements of a client's, each with a way there and back.
-- compatible from: 28

-- Ends the statement, and with it all that it did, where `is_met` is false: the message is the place of
-- the condition among those of the statement.
CREATE FUNCTION demand(place INTEGER, is_met BOOLEAN) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF NOT is_met THEN
        RAISE EXCEPTION USING ERRCODE = 'PO001', MESSAGE = place;
    END IF;
END $$;

-- Gives all committed events their numbers that have none, and tells every process. What is committed
-- meanwhile waits for the next time: where many write, this would never end.
CREATE FUNCTION settle_events() RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    up_to BIGINT;
    last BIGINT;
    numbered BIGINT;
BEGIN
    PERFORM pg_advisory_xact_lock(7041779, hashtext(current_schema()));
    -- Only now: what was numbered by whoever had the lock before is seen.
    SELECT max(seq) INTO up_to FROM events WHERE id IS NULL;
    IF up_to IS NULL THEN
        RETURN;
    END IF;
    SELECT coalesce((SELECT max(id) FROM events), (SELECT r.up_to FROM events_removed AS r), 0) INTO last;
    LOOP
        -- Materialized: where few are expected, they would be chosen and numbered again for each.
        WITH given AS MATERIALIZED (
            SELECT seq, last + row_number() OVER (ORDER BY seq) AS id FROM (
                SELECT seq FROM events WHERE id IS NULL AND seq <= up_to ORDER BY seq LIMIT 1000
            ) AS waiting
        )
        UPDATE events AS e SET id = given.id FROM given WHERE e.seq = given.seq;
        GET DIAGNOSTICS numbered = ROW_COUNT;
        last := last + numbered;
        EXIT WHEN numbered < 1000;
    END LOOP;
    PERFORM pg_notify(current_schema(), 'events');
END $$;

-- The sums of products by status and by block of ids, by statements that are planned once a connection.
CREATE FUNCTION products_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO list_counts AS c
    SELECT 'products', status, pg_backend_pid() % 16, count(*), 1
    FROM added GROUP BY status ORDER BY status
    ON CONFLICT (list, key, shard)
    DO UPDATE SET total = c.total + excluded.total, version = c.version + 1;
    INSERT INTO list_blocks AS b
    SELECT 'products', status, id / 4096, pg_backend_pid() % 16, count(*)
    FROM added GROUP BY status, id / 4096 ORDER BY status, id / 4096
    ON CONFLICT (list, key, block, shard) DO UPDATE SET total = b.total + excluded.total;
    RETURN NULL;
END $$;
CREATE FUNCTION products_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO list_counts AS c
    SELECT 'products', status, pg_backend_pid() % 16, sum(n), 1 FROM (
        SELECT status, 1 AS n FROM added UNION ALL SELECT status, -1 FROM removed
    ) AS moved GROUP BY status ORDER BY status
    ON CONFLICT (list, key, shard)
    DO UPDATE SET total = c.total + excluded.total, version = c.version + 1;
    INSERT INTO list_blocks AS b
    SELECT 'products', status, block, pg_backend_pid() % 16, sum(n) FROM (
        SELECT status, id / 4096 AS block, 1 AS n FROM added
        UNION ALL SELECT status, id / 4096, -1 FROM removed
    ) AS moved GROUP BY status, block HAVING sum(n) <> 0 ORDER BY status, block
    ON CONFLICT (list, key, block, shard) DO UPDATE SET total = b.total + excluded.total;
    RETURN NULL;
END $$;
DROP TRIGGER products_inserted ON products;
DROP TRIGGER product_blocks_inserted ON products;
CREATE TRIGGER products_inserted AFTER INSERT ON products REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION products_added();
DROP TRIGGER products_updated ON products;
DROP TRIGGER product_blocks_updated ON products;
CREATE TRIGGER products_updated AFTER UPDATE ON products
    REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION products_changed();
DROP FUNCTION block_added;
DROP FUNCTION block_changed;
