-- Times are milliseconds since the epoch, prices are 1/10000 of the currency's unit.

-- Without `suspended_at` an account is not suspended. `muted` are the kinds of mails that it wants none
-- of, separated by spaces.
CREATE TABLE users (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    email TEXT NOT NULL,
    email_key TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL,
    plan TEXT NOT NULL,
    avatar_url TEXT,
    theme TEXT NOT NULL,
    language TEXT NOT NULL,
    notifications INTEGER NOT NULL,
    account_id INTEGER UNIQUE,
    password_hash TEXT,
    last_login_at INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    email_verified_at INTEGER,
    suspended_at INTEGER,
    muted TEXT NOT NULL DEFAULT '',
    external_id TEXT UNIQUE,
    metadata TEXT NOT NULL DEFAULT '{}',
    quota_month INTEGER NOT NULL DEFAULT 0,
    quota_percent INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX users_by_name ON users (name_key, id);
CREATE INDEX users_by_created_at ON users (created_at, id);
-- Users of a role in every order that lists have: by the role alone, each page would sort all of them.
CREATE INDEX users_by_role_and_name ON users (role, name_key, id);
CREATE INDEX users_by_role_and_email ON users (role, email_key, id);
CREATE INDEX users_by_role_and_time ON users (role, created_at, id);

CREATE TABLE products (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    category TEXT NOT NULL,
    price INTEGER NOT NULL,
    currency TEXT NOT NULL,
    stock_quantity INTEGER NOT NULL,
    status TEXT NOT NULL,
    images TEXT NOT NULL,
    metadata TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX products_by_status ON products (status, id);
CREATE INDEX products_by_category ON products (status, category, id);
CREATE INDEX products_by_price ON products (status, price, stock_quantity);
-- A category in a price range, or in stock: by the prices alone, each page would look at the products of all
-- categories in that range.
CREATE INDEX products_by_category_and_price ON products (status, category, price, stock_quantity);

-- The words of a product, as `domain.search` spells them; one row a product, by its id.
CREATE VIRTUAL TABLE product_words USING fts5 (
    name, description,
    content = '', contentless_delete = 1, detail = 'column',
    tokenize = "unicode61 remove_diacritics 0 tokenchars '_'"
);

-- Exact totals, and a version that moves with every change of a list. PostgreSQL spreads them over
-- shards; one writer needs one.
CREATE TABLE list_counts (
    list TEXT NOT NULL,
    key TEXT NOT NULL,
    shard INTEGER NOT NULL,
    total INTEGER NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (list, key, shard)
) STRICT, WITHOUT ROWID;

-- How many products of each status there are among every 4,096 ids, so that a page anywhere is found
-- without passing all that come before it.
CREATE TABLE list_blocks (
    list TEXT NOT NULL,
    key TEXT NOT NULL,
    block INTEGER NOT NULL,
    shard INTEGER NOT NULL,
    total INTEGER NOT NULL,
    PRIMARY KEY (list, key, block, shard)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER products_inserted AFTER INSERT ON products BEGIN
    INSERT INTO list_counts VALUES ('products', new.status, 0, 1, 1)
    ON CONFLICT DO UPDATE SET total = total + 1, version = version + 1;
END;
CREATE TRIGGER products_deleted AFTER DELETE ON products BEGIN
    UPDATE list_counts SET total = total - 1, version = version + 1
    WHERE list = 'products' AND key = old.status AND shard = 0;
END;
CREATE TRIGGER products_updated AFTER UPDATE ON products BEGIN
    UPDATE list_counts SET total = total - 1, version = version + 1
    WHERE list = 'products' AND key = old.status AND shard = 0;
    INSERT INTO list_counts VALUES ('products', new.status, 0, 1, 1)
    ON CONFLICT DO UPDATE SET total = total + 1, version = version + 1;
END;
CREATE TRIGGER product_blocks_inserted AFTER INSERT ON products BEGIN
    INSERT INTO list_blocks VALUES ('products', new.status, new.id / 4096, 0, 1)
    ON CONFLICT DO UPDATE SET total = total + 1;
END;
CREATE TRIGGER product_blocks_deleted AFTER DELETE ON products BEGIN
    UPDATE list_blocks SET total = total - 1
    WHERE list = 'products' AND key = old.status AND block = old.id / 4096 AND shard = 0;
    DELETE FROM list_blocks
    WHERE list = 'products' AND key = old.status AND block = old.id / 4096 AND shard = 0 AND total = 0;
END;
CREATE TRIGGER product_blocks_updated AFTER UPDATE ON products WHEN old.status <> new.status BEGIN
    UPDATE list_blocks SET total = total - 1
    WHERE list = 'products' AND key = old.status AND block = old.id / 4096 AND shard = 0;
    INSERT INTO list_blocks VALUES ('products', new.status, new.id / 4096, 0, 1)
    ON CONFLICT DO UPDATE SET total = total + 1;
END;
CREATE TRIGGER users_inserted AFTER INSERT ON users BEGIN
    INSERT INTO list_counts VALUES ('users', new.role, 0, 1, 1)
    ON CONFLICT DO UPDATE SET total = total + 1, version = version + 1;
END;
CREATE TRIGGER users_deleted AFTER DELETE ON users BEGIN
    UPDATE list_counts SET total = total - 1, version = version + 1
    WHERE list = 'users' AND key = old.role AND shard = 0;
END;
CREATE TRIGGER users_updated AFTER UPDATE OF role ON users BEGIN
    UPDATE list_counts SET total = total - 1, version = version + 1
    WHERE list = 'users' AND key = old.role AND shard = 0;
    INSERT INTO list_counts VALUES ('users', new.role, 0, 1, 1)
    ON CONFLICT DO UPDATE SET total = total + 1, version = version + 1;
END;

-- `scopes` are what a key carries of its owner's, `networks` where it may be used; NULL: all, and anywhere.
-- `reminded_at` is when its owner was told that it ends soon.
CREATE TABLE api_keys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    type TEXT NOT NULL,
    hint TEXT NOT NULL,
    key_hash BLOB NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER,
    revoked_at INTEGER,
    rotated_at INTEGER,
    scopes TEXT,
    networks TEXT,
    -- Who created it for its owner, even after they were deleted.
    maker_id INTEGER,
    reminded_at INTEGER
) STRICT;
CREATE INDEX api_keys_by_user ON api_keys (user_id, id);
CREATE INDEX api_keys_by_maker ON api_keys (maker_id) WHERE maker_id IS NOT NULL;
-- Nobody is told of keys that held no longer than seven days from the beginning.
CREATE INDEX api_keys_to_remind ON api_keys (expires_at)
WHERE reminded_at IS NULL AND revoked_at IS NULL AND rotated_at IS NULL
    AND expires_at - created_at > 604800000;

CREATE TABLE rate_counters (
    caller TEXT PRIMARY KEY,
    minute INTEGER NOT NULL,
    minute_count INTEGER NOT NULL,
    day INTEGER NOT NULL,
    day_count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX rate_counters_by_day ON rate_counters (day);

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

-- `client_id` is what a client calls itself; what refers to its row has a `client_row_id`.
CREATE TABLE oauth_clients (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    client_id TEXT NOT NULL UNIQUE,
    secret_hash BLOB,
    user_id INTEGER REFERENCES users (id) ON DELETE SET NULL,
    name TEXT NOT NULL,
    redirect_uris TEXT NOT NULL,
    scopes TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    first_party INTEGER NOT NULL DEFAULT 0,
    grants TEXT NOT NULL DEFAULT '',
    service TEXT,
    origin TEXT NOT NULL DEFAULT 'registered',
    post_logout_redirect_uris TEXT NOT NULL DEFAULT '[]',
    backchannel_logout_uri TEXT,
    jwks TEXT,
    jwks_uri TEXT
) STRICT;
CREATE INDEX oauth_clients_by_user ON oauth_clients (user_id, id);
CREATE INDEX oauth_clients_by_themselves ON oauth_clients (id) WHERE origin <> 'registered';

-- What a user has granted: to an OAuth client, or, without one, to whoever signed in. `amr` is how the
-- sign-in was proven, `proved_at` when its owner last did so. `sid` is that of the session in which it
-- was granted.
CREATE TABLE grants (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    client_row_id INTEGER REFERENCES oauth_clients (id) ON DELETE CASCADE,
    scopes TEXT NOT NULL,
    address TEXT NOT NULL,
    user_agent TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER,
    amr TEXT NOT NULL DEFAULT 'pwd',
    proved_at INTEGER NOT NULL DEFAULT 0,
    resource TEXT,
    sid TEXT
) STRICT;
CREATE INDEX grants_by_user ON grants (user_id, id);
CREATE INDEX grants_by_client ON grants (client_row_id, id);
CREATE INDEX grants_by_expiry ON grants (expires_at);
CREATE INDEX grants_by_session ON grants (sid) WHERE sid IS NOT NULL;

-- What a user has allowed a client, at this redirect URI and for this resource ('' for the API): asked
-- again only for more, or once the role differs.
CREATE TABLE consents (
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    client_row_id INTEGER NOT NULL REFERENCES oauth_clients (id) ON DELETE CASCADE,
    redirect_uri TEXT NOT NULL,
    resource TEXT NOT NULL,
    scopes TEXT NOT NULL,
    role TEXT NOT NULL,
    given_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, client_row_id, redirect_uri, resource)
) STRICT, WITHOUT ROWID;
CREATE INDEX consents_by_client ON consents (client_row_id);

CREATE TABLE authorization_codes (
    code_hash BLOB PRIMARY KEY,
    client_row_id INTEGER NOT NULL REFERENCES oauth_clients (id) ON DELETE CASCADE,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    redirect_uri TEXT NOT NULL,
    scopes TEXT NOT NULL,
    nonce TEXT,
    code_challenge TEXT,
    signed_in_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    grant_id INTEGER REFERENCES grants (id) ON DELETE CASCADE,
    amr TEXT NOT NULL DEFAULT 'pwd',
    resource TEXT,
    sid TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX authorization_codes_by_client ON authorization_codes (client_row_id);
CREATE INDEX authorization_codes_by_user ON authorization_codes (user_id);
CREATE INDEX authorization_codes_by_grant ON authorization_codes (grant_id);
CREATE INDEX authorization_codes_by_expiry ON authorization_codes (expires_at);

-- What a program may do for a user once they have said so on a page, where they type `user_code`
-- (RFC 8628). The row goes when the program gets its tokens.
CREATE TABLE device_codes (
    code_hash BLOB PRIMARY KEY,
    user_code TEXT NOT NULL UNIQUE,
    client_row_id INTEGER NOT NULL REFERENCES oauth_clients (id) ON DELETE CASCADE,
    scopes TEXT NOT NULL,
    resource TEXT,
    expires_at INTEGER NOT NULL,
    wait_ms INTEGER NOT NULL,
    polled_at INTEGER NOT NULL DEFAULT 0,
    decision TEXT CHECK (decision IN ('allow', 'deny')),
    user_id INTEGER REFERENCES users (id) ON DELETE CASCADE,
    signed_in_at INTEGER NOT NULL DEFAULT 0,
    amr TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE INDEX device_codes_by_client ON device_codes (client_row_id);
CREATE INDEX device_codes_by_user ON device_codes (user_id);
CREATE INDEX device_codes_by_expiry ON device_codes (expires_at);

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

-- `sid` is what OAuth clients know a session by; the next one of the same user in the same browser keeps
-- it.
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    token_hash BLOB NOT NULL UNIQUE,
    address TEXT NOT NULL,
    user_agent TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    amr TEXT NOT NULL DEFAULT 'pwd',
    proved_at INTEGER NOT NULL DEFAULT 0,
    sid TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX sessions_by_user ON sessions (user_id, id);
CREATE INDEX sessions_by_expiry ON sessions (expires_at);

-- Random values that pages of a session give out, and that come back once.
CREATE TABLE challenges (
    token_hash BLOB PRIMARY KEY,
    session_id INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX challenges_by_session ON challenges (session_id);
CREATE INDEX challenges_by_expiry ON challenges (expires_at);

-- Where each account has signed in from.
CREATE TABLE known_addresses (
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    address TEXT NOT NULL,
    last_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, address)
) STRICT, WITHOUT ROWID;
CREATE INDEX known_addresses_by_age ON known_addresses (last_at);

-- Browsers that each account has signed in with, by the digests of their cookies.
CREATE TABLE known_devices (
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    token_hash BLOB NOT NULL,
    last_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, token_hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX known_devices_by_age ON known_devices (last_at);

-- Single-use tokens; `purpose` is 'reset' or 'verify'. One that a mail has brought verifies the address.
CREATE TABLE email_tokens (
    token_hash BLOB PRIMARY KEY,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    purpose TEXT NOT NULL,
    email TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    mailed INTEGER NOT NULL DEFAULT 0,
    giver_id INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX email_tokens_by_user ON email_tokens (user_id, purpose);
CREATE INDEX email_tokens_by_giver ON email_tokens (giver_id) WHERE giver_id IS NOT NULL;
CREATE INDEX email_tokens_by_expiry ON email_tokens (expires_at);

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
    expires_at INTEGER NOT NULL,
    inviter_id INTEGER
) STRICT;
CREATE INDEX invitations_by_expiry ON invitations (expires_at);
CREATE INDEX invitations_by_inviter ON invitations (inviter_id) WHERE inviter_id IS NOT NULL;

-- Pages that hold a secret, encrypted, until their owner has seen them.
CREATE TABLE shown_once (
    token_hash BLOB PRIMARY KEY,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    page BLOB NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX shown_once_by_user ON shown_once (user_id);
CREATE INDEX shown_once_by_expiry ON shown_once (expires_at);

-- Apps that make codes. The secret is encrypted; codes up to `last_step` are used up.
CREATE TABLE authenticators (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL UNIQUE REFERENCES users (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    secret BLOB NOT NULL,
    last_step INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER
) STRICT;

CREATE TABLE recovery_codes (
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    code_hash BLOB NOT NULL,
    PRIMARY KEY (user_id, code_hash)
) STRICT, WITHOUT ROWID;

-- How many codes of an account were wrong in a row, and when the last one was.
CREATE TABLE wrong_codes (
    user_id INTEGER PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    in_a_row INTEGER NOT NULL,
    last_at INTEGER NOT NULL
) STRICT;

-- Sign-ins that wait for the second factor: whose password was right, or that began at a `provider`.
CREATE TABLE pending_sign_ins (
    token_hash BLOB PRIMARY KEY,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    expires_at INTEGER NOT NULL,
    provider TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX pending_sign_ins_by_user ON pending_sign_ins (user_id);
CREATE INDEX pending_sign_ins_by_expiry ON pending_sign_ins (expires_at);

CREATE TABLE passkeys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    credential_id BLOB NOT NULL UNIQUE,
    public_key BLOB NOT NULL,
    sign_count INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER
) STRICT;
CREATE INDEX passkeys_by_user ON passkeys (user_id, id);

-- Challenges that a passkey has answered, and assertions of OAuth clients: none is believed twice.
CREATE TABLE used_challenges (
    challenge_hash BLOB PRIMARY KEY,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX used_challenges_by_expiry ON used_challenges (expires_at);

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

-- What a POST with an Idempotency-Key was answered, kept with its effect.
CREATE TABLE idempotency_keys (
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    route TEXT NOT NULL,
    key_hash BLOB NOT NULL,
    body_hash BLOB NOT NULL,
    status INTEGER NOT NULL,
    headers TEXT NOT NULL,
    body BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, route, key_hash)
) STRICT;
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

-- Who did what. Accounts and clients stand here by id and name, without a reference: they may be gone.
CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    action TEXT NOT NULL,
    user_id INTEGER,
    email TEXT,
    credential TEXT NOT NULL,
    credential_id INTEGER,
    client_id TEXT,
    client_name TEXT,
    address TEXT,
    target TEXT,
    target_id TEXT,
    details TEXT NOT NULL,
    request_id TEXT
) STRICT;
-- Entries in the order of their times, so that days bound what is read; and by what they tell of. A
-- rare action is found without the rows of whoever did much else, and of what much else was done to.
CREATE INDEX audit_by_time ON audit (at, id);
CREATE INDEX audit_by_user ON audit (user_id, at, id);
CREATE INDEX audit_by_user_action ON audit (user_id, action, at, id);
CREATE INDEX audit_by_action ON audit (action, at, id);
CREATE INDEX audit_by_target ON audit (target, target_id, at, id, action);

-- Up to which entry the audit log may be removed by age; without a row none. What is above it can be
-- neither changed nor removed.
CREATE TABLE audit_removed (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    up_to INTEGER NOT NULL
) STRICT;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit BEGIN
    SELECT raise(ABORT, 'the audit log is append-only');
END;
CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
WHEN old.id > coalesce((SELECT up_to FROM audit_removed), 0) BEGIN
    SELECT raise(ABORT, 'the audit log is append-only');
END;
-- REPLACE deletes without asking the trigger above.
CREATE TRIGGER audit_is_not_replaced BEFORE INSERT ON audit
WHEN EXISTS (SELECT 1 FROM audit WHERE id = new.id) BEGIN
    SELECT raise(ABORT, 'the audit log is append-only');
END;

-- How many requests there were of each kind, by hours and by days since the epoch. Account 0 has the
-- sums of all, without keys; account -1 is whoever has none. Nothing refers to users: what a deleted
-- one has made stays in the sums.
CREATE TABLE request_hours (
    user_id INTEGER NOT NULL,
    hour INTEGER NOT NULL,
    route TEXT NOT NULL,
    status INTEGER NOT NULL,
    key_id INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    PRIMARY KEY (user_id, hour, route, status, key_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX request_hours_by_hour ON request_hours (hour);
CREATE TABLE request_days (
    user_id INTEGER NOT NULL,
    day INTEGER NOT NULL,
    route TEXT NOT NULL,
    status INTEGER NOT NULL,
    key_id INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    PRIMARY KEY (user_id, day, route, status, key_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX request_days_by_day ON request_days (day);

-- The sums over all hours, and over all days, that are stored: a page of ninety days of everybody reads a
-- row for each kind of requests, not ninety. What is forgotten is taken from them here, what is counted
-- is added by whoever stores it.
CREATE TABLE request_totals (
    unit TEXT NOT NULL,
    user_id INTEGER NOT NULL,
    route TEXT NOT NULL,
    status INTEGER NOT NULL,
    key_id INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    PRIMARY KEY (unit, user_id, route, status, key_id)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER request_hours_forgotten AFTER DELETE ON request_hours BEGIN
    UPDATE request_totals SET requests = requests - old.requests
    WHERE unit = 'hour' AND user_id = old.user_id AND route = old.route AND status = old.status
        AND key_id = old.key_id;
    DELETE FROM request_totals
    WHERE unit = 'hour' AND user_id = old.user_id AND route = old.route AND status = old.status
        AND key_id = old.key_id AND requests = 0;
END;
CREATE TRIGGER request_days_forgotten AFTER DELETE ON request_days BEGIN
    UPDATE request_totals SET requests = requests - old.requests
    WHERE unit = 'day' AND user_id = old.user_id AND route = old.route AND status = old.status
        AND key_id = old.key_id;
    DELETE FROM request_totals
    WHERE unit = 'day' AND user_id = old.user_id AND route = old.route AND status = old.status
        AND key_id = old.key_id AND requests = 0;
END;

-- The latest requests of each account that failed.
CREATE TABLE failed_requests (
    user_id INTEGER NOT NULL,
    at INTEGER NOT NULL,
    route TEXT NOT NULL,
    status INTEGER NOT NULL,
    code TEXT NOT NULL,
    key_id INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    PRIMARY KEY (user_id, at, request_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX failed_requests_by_age ON failed_requests (at);

-- What has happened, in the order in which it was committed: one writer gives the numbers. `traceparent`
-- is the span of the change, as W3C Trace Context has it, for the event's deliveries.
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    type TEXT NOT NULL,
    at INTEGER NOT NULL,
    data TEXT NOT NULL,
    previous TEXT,
    traceparent TEXT
) STRICT;
CREATE INDEX events_by_type ON events (type, id);

-- Up to which number events were removed by age; without a row none was.
CREATE TABLE events_removed (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    up_to INTEGER NOT NULL
) STRICT;

CREATE TABLE webhooks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    url TEXT NOT NULL,
    description TEXT NOT NULL,
    types TEXT NOT NULL,
    disabled_reason TEXT,
    secret BLOB NOT NULL,
    former_secret BLOB,
    former_until INTEGER,
    queued_up_to INTEGER NOT NULL,
    dropped_up_to INTEGER NOT NULL,
    failing_since INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE deliveries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    webhook_id INTEGER NOT NULL,
    event_id INTEGER NOT NULL,
    type TEXT NOT NULL,
    status TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    next_attempt_at INTEGER,
    last_status INTEGER,
    last_error TEXT,
    last_milliseconds INTEGER,
    answer TEXT,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX deliveries_by_webhook ON deliveries (webhook_id, id);
CREATE INDEX deliveries_due ON deliveries (webhook_id, next_attempt_at) WHERE status = 'pending';

-- Mails that wait to be sent, or to be written; what they hold is encrypted.
CREATE TABLE mails (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    content BLOB NOT NULL,
    attempts INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    next_attempt_at INTEGER NOT NULL
) STRICT;
CREATE INDEX mails_by_attempt ON mails (next_attempt_at);

-- OAuth clients that are yet to be told that a session of a user, or all of theirs, has ended.
CREATE TABLE logouts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    client_row_id INTEGER NOT NULL,
    user_id INTEGER NOT NULL,
    sid TEXT,
    attempts INTEGER NOT NULL,
    next_attempt_at INTEGER NOT NULL
) STRICT;
CREATE INDEX logouts_by_client ON logouts (client_row_id, next_attempt_at);
CREATE INDEX logouts_by_attempt ON logouts (next_attempt_at);

-- What imports in batches have stored and not told yet; `stored` is JSON.
CREATE TABLE untold_imports (
    name TEXT PRIMARY KEY,
    actor TEXT NOT NULL,
    at INTEGER NOT NULL,
    stored TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Files of records that were sent to pages, on their way in; `rejected` are rows that do not go in.
CREATE TABLE uploads (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    token TEXT NOT NULL,
    kind TEXT NOT NULL,
    account_id INTEGER NOT NULL,
    actor TEXT NOT NULL,
    name TEXT NOT NULL,
    updates INTEGER NOT NULL,
    size INTEGER NOT NULL,
    state TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    line INTEGER NOT NULL,
    done INTEGER NOT NULL,
    inserted INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    unchanged INTEGER NOT NULL,
    faulty INTEGER NOT NULL,
    problem TEXT NOT NULL,
    rejected TEXT NOT NULL DEFAULT '[]'
) STRICT;
CREATE INDEX uploads_by_account ON uploads (account_id, id);
CREATE INDEX uploads_by_age ON uploads (created_at);

-- Which process may do what only one may do at a time.
CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX leases_by_end ON leases (until);

-- The number of the last batch of counts that each process stored, so that none is added twice.
CREATE TABLE flushes (
    writer TEXT PRIMARY KEY,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX flushes_by_age ON flushes (at);
