-- Apps that make codes. The secret is encrypted; codes up to `last_step` are used up.
CREATE TABLE authenticators (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id BIGINT NOT NULL UNIQUE REFERENCES users (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    secret BYTEA NOT NULL,
    last_step BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT
);

CREATE TABLE recovery_codes (
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    code_hash BYTEA NOT NULL,
    PRIMARY KEY (user_id, code_hash)
);

-- Sign-ins whose password was right, and that wait for the second factor.
CREATE TABLE pending_sign_ins (
    token_hash BYTEA PRIMARY KEY,
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    expires_at BIGINT NOT NULL
);
CREATE INDEX pending_sign_ins_by_user ON pending_sign_ins (user_id);
CREATE INDEX pending_sign_ins_by_expiry ON pending_sign_ins (expires_at);
