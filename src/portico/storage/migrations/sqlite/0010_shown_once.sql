-- Pages that hold a secret, encrypted, until their owner has seen them.
CREATE TABLE shown_once (
    token_hash BLOB PRIMARY KEY,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    page BLOB NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX shown_once_by_user ON shown_once (user_id);
CREATE INDEX shown_once_by_expiry ON shown_once (expires_at);
