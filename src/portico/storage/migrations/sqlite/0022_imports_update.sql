-- How many products an import has changed that were there.
ALTER TABLE untold_imports ADD COLUMN updated INTEGER NOT NULL DEFAULT 0;
