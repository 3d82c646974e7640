-- The audit log becomes a table in ranges of 16,777,216 ids, each a partition, of which what it is today will be
-- the first (0041). It ends a thousand million ids further on, since nothing can be written beyond its end before
-- the others are there: also where an older release restores a backup of this moment, which leaves as many out.
-- compatible from: 28
DO $$
DECLARE
    last BIGINT := pg_sequence_last_value(pg_get_serial_sequence('audit', 'id')::regclass);
    ahead BIGINT := CASE WHEN last IS NULL THEN 2 ELSE 66 END;
BEGIN
    EXECUTE format(
        'ALTER TABLE audit ADD CONSTRAINT audit_bound CHECK (id < %s) NOT VALID',
        (coalesce(last, 0) / 16777216 + ahead) * 16777216);
END $$;
