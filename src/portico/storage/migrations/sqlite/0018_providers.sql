-- Who signs in as whom at other providers (OpenID Connect).
CREATE TABLE provider_links (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    email TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (issuer, subject)
) STRICT;
CREATE INDEX provider_links_by_user ON provider_links (user_id);

-- Browsers that are away at a provider, or wait to be linked by the next sign-in.
CREATE TABLE provider_visits (
    token_hash BLOB PRIMARY KEY,
    provider TEXT NOT NULL,
    target TEXT NOT NULL,
    user_id INTEGER REFERENCES users (id) ON DELETE CASCADE,
    subject TEXT,
    email TEXT NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX provider_visits_by_user ON provider_visits (user_id);
CREATE INDEX provider_visits_by_expiry ON provider_visits (expires_at);

-- By which provider a sign-in that waits began; none: by the password.
ALTER TABLE pending_sign_ins ADD COLUMN provider TEXT;
