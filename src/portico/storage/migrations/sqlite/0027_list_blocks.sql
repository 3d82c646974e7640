-- How many products of each status there are among every 4,096 ids, so that a page anywhere is found
-- without passing all that come before it.
CREATE TABLE list_blocks (
    list TEXT NOT NULL,
    key TEXT NOT NULL,
    block INTEGER NOT NULL,
    shard INTEGER NOT NULL,
    total INTEGER NOT NULL,
    PRIMARY KEY (list, key, block, shard)
) STRICT, WITHOUT ROWID;
INSERT INTO list_blocks
SELECT 'products', status, id / 4096, 0, count(*) FROM products GROUP BY status, id / 4096;

CREATE TRIGGER product_blocks_inserted AFTER INSERT ON products BEGIN
    INSERT INTO list_blocks VALUES ('products', new.status, new.id / 4096, 0, 1)
    ON CONFLICT DO UPDATE SET total = total + 1;
END;
CREATE TRIGGER product_blocks_deleted AFTER DELETE ON products BEGIN
    UPDATE list_blocks SET total = total - 1
    WHERE list = 'products' AND key = old.status AND block = old.id / 4096 AND shard = 0;
    DELETE FROM list_blocks
    WHERE list = 'products' AND key = old.status AND block = old.id / 4096 AND shard = 0 AND total = 0;
END;
CREATE TRIGGER product_blocks_updated AFTER UPDATE ON products WHEN old.status <> new.status BEGIN
    UPDATE list_blocks SET total = total - 1
    WHERE list = 'products' AND key = old.status AND block = old.id / 4096 AND shard = 0;
    INSERT INTO list_blocks VALUES ('products', new.status, new.id / 4096, 0, 1)
    ON CONFLICT DO UPDATE SET total = total + 1;
END;
