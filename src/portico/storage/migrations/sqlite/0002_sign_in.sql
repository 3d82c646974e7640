ALTER TABLE users ADD COLUMN email_verified_at INTEGER;

-- A key is published when it is made, signs from `signs_at` on, and is published until `retires_at`.
CREATE TABLE signing_keys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kid TEXT NOT NULL UNIQUE,
    public_key TEXT NOT NULL,
    private_key BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    signs_at INTEGER NOT NULL,
    retires_at INTEGER
) STRICT;

CREATE TABLE oauth_clients (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    client_id TEXT NOT NULL UNIQUE,
    secret_hash BLOB,
    user_id INTEGER REFERENCES users (id) ON DELETE SET NULL,
    name TEXT NOT NULL,
    redirect_uris TEXT NOT NULL,
    scopes TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX oauth_clients_by_user ON oauth_clients (user_id, id);

-- What a user has granted: to an OAuth client, or, without one, to whoever signed in.
CREATE TABLE grants (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    client_id INTEGER REFERENCES oauth_clients (id) ON DELETE CASCADE,
    scopes TEXT NOT NULL,
    address TEXT NOT NULL,
    user_agent TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;
CREATE INDEX grants_by_user ON grants (user_id, id);
CREATE INDEX grants_by_client ON grants (client_id, id);
CREATE INDEX grants_by_expiry ON grants (expires_at);

CREATE TABLE authorization_codes (
    code_hash BLOB PRIMARY KEY,
    client_id INTEGER NOT NULL REFERENCES oauth_clients (id) ON DELETE CASCADE,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    redirect_uri TEXT NOT NULL,
    scopes TEXT NOT NULL,
    nonce TEXT,
    code_challenge TEXT,
    signed_in_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    grant_id INTEGER REFERENCES grants (id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX authorization_codes_by_client ON authorization_codes (client_id);
CREATE INDEX authorization_codes_by_user ON authorization_codes (user_id);
CREATE INDEX authorization_codes_by_grant ON authorization_codes (grant_id);
CREATE INDEX authorization_codes_by_expiry ON authorization_codes (expires_at);

-- One row for each pair that was issued. `used_at` is when the refresh token was rotated.
CREATE TABLE tokens (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    grant_id INTEGER NOT NULL REFERENCES grants (id) ON DELETE CASCADE,
    refresh_hash BLOB NOT NULL UNIQUE,
    access_hash BLOB NOT NULL UNIQUE,
    scopes TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    access_expires_at INTEGER NOT NULL,
    refresh_expires_at INTEGER NOT NULL,
    used_at INTEGER
) STRICT;
CREATE INDEX tokens_by_grant ON tokens (grant_id);
CREATE INDEX tokens_by_expiry ON tokens (refresh_expires_at);

CREATE TABLE sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    token_hash BLOB NOT NULL UNIQUE,
    address TEXT NOT NULL,
    user_agent TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_by_user ON sessions (user_id, id);
CREATE INDEX sessions_by_expiry ON sessions (expires_at);

-- Where each account has signed in from.
CREATE TABLE known_addresses (
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    address TEXT NOT NULL,
    last_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, address)
) STRICT, WITHOUT ROWID;

-- Single-use tokens that were sent by e-mail; `purpose` is 'reset' or 'verify'.
CREATE TABLE email_tokens (
    token_hash BLOB PRIMARY KEY,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    purpose TEXT NOT NULL,
    email TEXT NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX email_tokens_by_user ON email_tokens (user_id, purpose);
CREATE INDEX email_tokens_by_expiry ON email_tokens (expires_at);

-- Who did what. Accounts stand here by id and e-mail, without a reference: they may be gone.
CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    action TEXT NOT NULL,
    user_id INTEGER,
    email TEXT,
    credential TEXT NOT NULL,
    credential_id INTEGER,
    address TEXT,
    target TEXT,
    target_id TEXT,
    details TEXT NOT NULL,
    request_id TEXT
) STRICT;
CREATE INDEX audit_by_user ON audit (user_id, id);
CREATE INDEX audit_by_action ON audit (action, id);
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit BEGIN
    SELECT raise(ABORT, 'the audit log is append-only');
END;
CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit BEGIN
    SELECT raise(ABORT, 'the audit log is append-only');
END;
-- REPLACE deletes without asking the trigger above.
CREATE TRIGGER audit_is_not_replaced BEFORE INSERT ON audit
WHEN EXISTS (SELECT 1 FROM audit WHERE id = new.id) BEGIN
    SELECT raise(ABORT, 'the audit log is append-only');
END;

-- How many requests each account made on each UTC day, counted in days since the epoch.
CREATE TABLE daily_use (
    user_id INTEGER NOT NULL,
    day INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    PRIMARY KEY (user_id, day)
) STRICT, WITHOUT ROWID;
CREATE INDEX daily_use_by_day ON daily_use (day);
