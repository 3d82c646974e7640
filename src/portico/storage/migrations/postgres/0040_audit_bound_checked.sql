-- Reads the whole log, beside those who write it. A partition whose rows were never checked is read while
-- nobody may write.
-- compatible from: 28
ALTER TABLE audit VALIDATE CONSTRAINT audit_bound;
