-- Random values that pages of a session give out, and that come back once.
CREATE TABLE challenges (
    token_hash BLOB PRIMARY KEY,
    session_id INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX challenges_by_session ON challenges (session_id);
CREATE INDEX challenges_by_expiry ON challenges (expires_at);
