-- The audit log becomes a table in ranges of 16,777,216 ids, each a partition, of which what it is today will be
-- the first (0041). It ends where the range after the present one does: nobody reaches that before.
-- compatible from: 28
DO $$
DECLARE
    last BIGINT := coalesce(pg_sequence_last_value(pg_get_serial_sequence('audit', 'id')::regclass), 0);
BEGIN
    EXECUTE format(
        'ALTER TABLE audit ADD CONSTRAINT audit_bound CHECK (id < %s) NOT VALID',
        (last / 16777216 + 2) * 16777216);
END $$;
