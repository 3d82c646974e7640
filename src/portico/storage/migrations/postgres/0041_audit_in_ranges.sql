-- The audit log in ranges: `audit_N` is the partition that ends before the id (N + 1) * 16,777,216. What fits none
-- stands in `audit_rest`. Triggers of statements are asked of the table alone that a statement names, so each
-- partition has them too.
-- compatible from: 28
LOCK TABLE audit IN ACCESS EXCLUSIVE MODE;
DO $$
DECLARE
    last BIGINT := pg_sequence_last_value(pg_get_serial_sequence('audit', 'id')::regclass);
    bound BIGINT := substring(pg_get_constraintdef(oid) FROM '[0-9]+') FROM pg_constraint
        WHERE conrelid = 'audit'::regclass AND conname = 'audit_bound';
    first TEXT := 'audit_' || bound / 16777216 - 1;
    index TEXT;
BEGIN
    FOR index IN SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 'audit'::regclass LOOP
        EXECUTE format('ALTER INDEX %s RENAME TO %I', index, replace(index, 'audit', first));
    END LOOP;
    ALTER TABLE audit ALTER COLUMN id DROP IDENTITY;
    EXECUTE format('ALTER TABLE audit RENAME TO %I', first);
    EXECUTE format('CREATE TABLE audit (LIKE %I INCLUDING DEFAULTS INCLUDING INDEXES) PARTITION BY RANGE (id)', first);
    EXECUTE format('ALTER TABLE audit ATTACH PARTITION %I FOR VALUES FROM (MINVALUE) TO (%s)', first, bound);
    EXECUTE format('ALTER TABLE %I DROP CONSTRAINT audit_bound', first);
    ALTER TABLE audit ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY;
    IF last IS NOT NULL THEN
        PERFORM setval(pg_get_serial_sequence('audit', 'id'), last);
    END IF;
END $$;
CREATE TABLE audit_rest PARTITION OF audit DEFAULT;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_is_not_removed AFTER DELETE ON audit REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_removal();
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR TRUNCATE ON audit_rest
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_is_not_removed AFTER DELETE ON audit_rest REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_removal();
