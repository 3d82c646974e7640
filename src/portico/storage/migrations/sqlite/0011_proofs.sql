-- How a sign-in was proven, and when its owner last did so. Whoever consented before this was signed in
-- for a day at most.
ALTER TABLE sessions ADD COLUMN amr TEXT NOT NULL DEFAULT 'pwd';
ALTER TABLE sessions ADD COLUMN proved_at INTEGER NOT NULL DEFAULT 0;
UPDATE sessions SET proved_at = created_at;
ALTER TABLE grants ADD COLUMN amr TEXT NOT NULL DEFAULT 'pwd';
ALTER TABLE grants ADD COLUMN proved_at INTEGER NOT NULL DEFAULT 0;
UPDATE grants SET proved_at = CASE WHEN client_row_id IS NULL THEN created_at ELSE created_at - 86400000 END;
ALTER TABLE authorization_codes ADD COLUMN amr TEXT NOT NULL DEFAULT 'pwd';
