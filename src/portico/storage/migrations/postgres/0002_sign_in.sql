ALTER TABLE users ADD COLUMN email_verified_at BIGINT;

-- A key is published when it is made, signs from `signs_at` on, and is published until `retires_at`.
CREATE TABLE signing_keys (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    kid TEXT NOT NULL UNIQUE,
    public_key TEXT NOT NULL,
    private_key BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    signs_at BIGINT NOT NULL,
    retires_at BIGINT
);

CREATE TABLE oauth_clients (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    client_id TEXT NOT NULL UNIQUE,
    secret_hash BYTEA,
    user_id BIGINT REFERENCES users (id) ON DELETE SET NULL,
    name TEXT NOT NULL,
    redirect_uris TEXT NOT NULL,
    scopes TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX oauth_clients_by_user ON oauth_clients (user_id, id);

-- What a user has granted: to an OAuth client, or, without one, to whoever signed in.
CREATE TABLE grants (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    client_id BIGINT REFERENCES oauth_clients (id) ON DELETE CASCADE,
    scopes TEXT NOT NULL,
    address TEXT NOT NULL,
    user_agent TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    revoked_at BIGINT
);
CREATE INDEX grants_by_user ON grants (user_id, id);
CREATE INDEX grants_by_client ON grants (client_id, id);
CREATE INDEX grants_by_expiry ON grants (expires_at);

CREATE TABLE authorization_codes (
    code_hash BYTEA PRIMARY KEY,
    client_id BIGINT NOT NULL REFERENCES oauth_clients (id) ON DELETE CASCADE,
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    redirect_uri TEXT NOT NULL,
    scopes TEXT NOT NULL,
    nonce TEXT,
    code_challenge TEXT,
    signed_in_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    grant_id BIGINT REFERENCES grants (id) ON DELETE CASCADE
);
CREATE INDEX authorization_codes_by_client ON authorization_codes (client_id);
CREATE INDEX authorization_codes_by_user ON authorization_codes (user_id);
CREATE INDEX authorization_codes_by_grant ON authorization_codes (grant_id);
CREATE INDEX authorization_codes_by_expiry ON authorization_codes (expires_at);

-- One row for each pair that was issued. `used_at` is when the refresh token was rotated.
CREATE TABLE tokens (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    grant_id BIGINT NOT NULL REFERENCES grants (id) ON DELETE CASCADE,
    refresh_hash BYTEA NOT NULL UNIQUE,
    access_hash BYTEA NOT NULL UNIQUE,
    scopes TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    access_expires_at BIGINT NOT NULL,
    refresh_expires_at BIGINT NOT NULL,
    used_at BIGINT
);
CREATE INDEX tokens_by_grant ON tokens (grant_id);
CREATE INDEX tokens_by_expiry ON tokens (refresh_expires_at);

CREATE TABLE sessions (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    token_hash BYTEA NOT NULL UNIQUE,
    address TEXT NOT NULL,
    user_agent TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    last_seen_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX sessions_by_user ON sessions (user_id, id);
CREATE INDEX sessions_by_expiry ON sessions (expires_at);

-- Where each account has signed in from.
CREATE TABLE known_addresses (
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    address TEXT NOT NULL,
    last_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, address)
);

-- Single-use tokens that were sent by e-mail; `purpose` is 'reset' or 'verify'.
CREATE TABLE email_tokens (
    token_hash BYTEA PRIMARY KEY,
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    purpose TEXT NOT NULL,
    email TEXT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX email_tokens_by_user ON email_tokens (user_id, purpose);
CREATE INDEX email_tokens_by_expiry ON email_tokens (expires_at);

-- Who did what. Accounts stand here by id and e-mail, without a reference: they may be gone.
CREATE TABLE audit (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    at BIGINT NOT NULL,
    action TEXT NOT NULL,
    user_id BIGINT,
    email TEXT,
    credential TEXT NOT NULL,
    credential_id BIGINT,
    address TEXT,
    target TEXT,
    target_id TEXT,
    details TEXT NOT NULL,
    request_id TEXT
);
CREATE INDEX audit_by_user ON audit (user_id, id);
CREATE INDEX audit_by_action ON audit (action, id);
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only';
END $$;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- How many requests each account made on each UTC day, counted in days since the epoch.
CREATE TABLE daily_use (
    user_id BIGINT NOT NULL,
    day BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    PRIMARY KEY (user_id, day)
);
CREATE INDEX daily_use_by_day ON daily_use (day);

CREATE TRIGGER signing_keys_told AFTER INSERT OR UPDATE OR DELETE ON signing_keys
    FOR EACH STATEMENT EXECUTE FUNCTION tell_of_change();
CREATE TRIGGER oauth_clients_told AFTER UPDATE OR DELETE ON oauth_clients
    FOR EACH STATEMENT EXECUTE FUNCTION tell_of_change();
CREATE TRIGGER grants_told AFTER DELETE OR UPDATE OF revoked_at ON grants
    FOR EACH STATEMENT EXECUTE FUNCTION tell_of_change();
CREATE TRIGGER tokens_told AFTER DELETE OR UPDATE OF access_expires_at ON tokens
    FOR EACH STATEMENT EXECUTE FUNCTION tell_of_change();
CREATE TRIGGER sessions_told AFTER DELETE ON sessions
    FOR EACH STATEMENT EXECUTE FUNCTION tell_of_change();
