-- What a POST with an Idempotency-Key was answered, kept with its effect.
CREATE TABLE idempotency_keys (
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    route TEXT NOT NULL,
    key_hash BYTEA NOT NULL,
    body_hash BYTEA NOT NULL,
    status BIGINT NOT NULL,
    headers TEXT NOT NULL,
    body BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, route, key_hash)
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);
