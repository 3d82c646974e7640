-- What a POST with an Idempotency-Key was answered, kept with its effect.
CREATE TABLE idempotency_keys (
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    route TEXT NOT NULL,
    key_hash BLOB NOT NULL,
    body_hash BLOB NOT NULL,
    status INTEGER NOT NULL,
    headers TEXT NOT NULL,
    body BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, route, key_hash)
) STRICT;
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);
