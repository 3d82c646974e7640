-- Browsers that each account has signed in with, by the digests of their cookies.
CREATE TABLE known_devices (
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    token_hash BLOB NOT NULL,
    last_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, token_hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX known_devices_by_age ON known_devices (last_at);
