-- Who may make themselves an account: invited by an admin, or signed up and not verified yet.
CREATE TABLE invitations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    token_hash BLOB NOT NULL UNIQUE,
    email TEXT NOT NULL,
    email_key TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    plan TEXT NOT NULL,
    signed_up INTEGER NOT NULL,
    mailed INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX invitations_by_expiry ON invitations (expires_at);
