-- Browsers that each account has signed in with, by the digests of their cookies.
CREATE TABLE known_devices (
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    token_hash BYTEA NOT NULL,
    last_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, token_hash)
);
CREATE INDEX known_devices_by_age ON known_devices (last_at);
