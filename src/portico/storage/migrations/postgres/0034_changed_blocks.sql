-- compatible from: 28
-- Each change of a product touches the row of its block, whether it moves the sum or not: after a write,
-- what fits a filter is counted again only in the blocks whose rows say that they were touched.
CREATE OR REPLACE FUNCTION products_changed() RETURNS trigger LANGUAGE plpgsql AS $$
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
    ) AS moved GROUP BY status, block ORDER BY status, block
    ON CONFLICT (list, key, block, shard) DO UPDATE SET total = b.total + excluded.total;
    RETURN NULL;
END $$;

-- Else as many blocks are expected as there are products, and they are counted by one process alone.
CREATE STATISTICS products_by_block ON (id / 4096) FROM products;
