-- How many products an import has changed that were there.
ALTER TABLE untold_imports ADD COLUMN updated BIGINT NOT NULL DEFAULT 0;
