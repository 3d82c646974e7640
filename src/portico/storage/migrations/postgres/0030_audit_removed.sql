-- Up to which entry the audit log may be removed by age; without a row none. What is above it can be
-- neither changed nor removed.
-- compatible from: 28
CREATE TABLE audit_removed (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    up_to BIGINT NOT NULL
);
CREATE FUNCTION refuse_removal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT 1 FROM removed WHERE id > coalesce((SELECT up_to FROM audit_removed), 0)
    ) THEN
        RAISE EXCEPTION 'the audit log is append-only';
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER audit_is_append_only ON audit;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_is_not_removed AFTER DELETE ON audit REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_removal();
