-- Up to which entry the audit log may be removed by age; without a row none. What is above it can be
-- neither changed nor removed.
-- compatible from: 28
CREATE TABLE audit_removed (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    up_to INTEGER NOT NULL
) STRICT;
DROP TRIGGER audit_is_not_deleted;
CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
WHEN old.id > coalesce((SELECT up_to FROM audit_removed), 0) BEGIN
    SELECT raise(ABORT, 'the audit log is append-only');
END;
