-- The audit log in ranges: `audit_N` is the partition that ends before the id (N + 1) * 16,777,216. What fits none
-- stands in `audit_rest`. Triggers of statements are asked of the table alone that a statement names, so each
-- partition has them too.
-- compatible from: 28

-- Lets everybody do with a table, and with its columns, what they may with another. Whoever reads the log needs
-- no right to its partitions, but to copy it as pg_dump does.
CREATE FUNCTION copy_rights(source REGCLASS, target REGCLASS) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    granted RECORD;
BEGIN
    FOR granted IN
        SELECT a.privilege_type, a.is_grantable, rights.columns,
            CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS role
        FROM (
            SELECT relacl AS acl, '' AS columns FROM pg_class WHERE oid = source
            UNION ALL
            SELECT attacl, format('(%I)', attname) FROM pg_attribute WHERE attrelid = source AND NOT attisdropped
        ) AS rights, aclexplode(rights.acl) AS a
        WHERE a.grantee <> (SELECT relowner FROM pg_class WHERE oid = source)
    LOOP
        EXECUTE format('GRANT %s %s ON %s TO %s %s', granted.privilege_type, granted.columns, target, granted.role,
            CASE WHEN granted.is_grantable THEN 'WITH GRANT OPTION' END);
    END LOOP;
END $$;

LOCK TABLE audit IN ACCESS EXCLUSIVE MODE;
DO $$
DECLARE
    last BIGINT := pg_sequence_last_value(pg_get_serial_sequence('audit', 'id')::regclass);
    bound BIGINT := substring(pg_get_constraintdef(oid) FROM '[0-9]+') FROM pg_constraint
        WHERE conrelid = 'audit'::regclass AND conname = 'audit_bound';
    first TEXT := 'audit_' || bound / 16777216 - 1;
    index TEXT;
BEGIN
    FOR index IN SELECT relname FROM pg_index JOIN pg_class ON oid = indexrelid
        WHERE indrelid = 'audit'::regclass AND relname LIKE 'audit%'
    LOOP
        EXECUTE format('ALTER INDEX %I RENAME TO %I', index, first || substr(index, 6));
    END LOOP;
    ALTER TABLE audit ALTER COLUMN id DROP IDENTITY;
    EXECUTE format('ALTER TABLE audit RENAME TO %I', first);
    EXECUTE format('CREATE TABLE audit (LIKE %I) PARTITION BY RANGE (id)', first);
    ALTER TABLE audit ADD PRIMARY KEY (id);
    CREATE INDEX audit_by_time ON audit (at, id);
    CREATE INDEX audit_by_user ON audit (user_id, at, id);
    CREATE INDEX audit_by_user_action ON audit (user_id, action, at, id);
    CREATE INDEX audit_by_action ON audit (action, at, id);
    CREATE INDEX audit_by_target ON audit (target, target_id, at, id, action);
    EXECUTE format('ALTER TABLE audit ATTACH PARTITION %I FOR VALUES FROM (MINVALUE) TO (%s)', first, bound);
    EXECUTE format('ALTER TABLE %I DROP CONSTRAINT audit_bound', first);
    ALTER TABLE audit ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY;
    IF last IS NOT NULL THEN
        PERFORM setval(pg_get_serial_sequence('audit', 'id'), last);
    END IF;
    CREATE TABLE audit_rest PARTITION OF audit DEFAULT;
    PERFORM copy_rights(first, 'audit'), copy_rights(first, 'audit_rest');
END $$;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_is_not_removed AFTER DELETE ON audit REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_removal();
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR TRUNCATE ON audit_rest
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_is_not_removed AFTER DELETE ON audit_rest REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_removal();
