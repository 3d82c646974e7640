-- Pages that hold a secret, encrypted, until their owner has seen them.
CREATE TABLE shown_once (
    token_hash BYTEA PRIMARY KEY,
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    page BYTEA NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX shown_once_by_user ON shown_once (user_id);
CREATE INDEX shown_once_by_expiry ON shown_once (expires_at);
