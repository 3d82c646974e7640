CREATE TABLE passkeys (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    credential_id BYTEA NOT NULL UNIQUE,
    public_key BYTEA NOT NULL,
    sign_count BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT
);
CREATE INDEX passkeys_by_user ON passkeys (user_id, id);

-- Challenges that a passkey has answered: none is believed twice.
CREATE TABLE used_challenges (
    challenge_hash BYTEA PRIMARY KEY,
    expires_at BIGINT NOT NULL
);
CREATE INDEX used_challenges_by_expiry ON used_challenges (expires_at);
