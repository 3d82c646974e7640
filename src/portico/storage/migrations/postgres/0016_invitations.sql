-- Who may make themselves an account: invited by an admin, or signed up and not verified yet.
CREATE TABLE invitations (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    token_hash BYTEA NOT NULL UNIQUE,
    email TEXT NOT NULL,
    email_key TEXT COLLATE "C" NOT NULL UNIQUE,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    plan TEXT NOT NULL,
    signed_up BIGINT NOT NULL,
    mailed BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX invitations_by_expiry ON invitations (expires_at);
