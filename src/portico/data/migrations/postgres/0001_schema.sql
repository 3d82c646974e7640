-- Times are milliseconds since the epoch, prices are 1/10000 of the currency's unit.
--
-- Every text in an index, or that a statement sorts by, is COLLATE "C", by its bytes: the order of every other
-- collation changes with a release of the operating system, and then an index finds, and refuses, the wrong rows.

-- Without `suspended_at` an account is not suspended. `muted` are the kinds of mails that it wants none
-- of, separated by spaces.
CREATE TABLE users (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    name TEXT NOT NULL,
    name_key TEXT COLLATE "C" NOT NULL,
    email TEXT NOT NULL,
    email_key TEXT COLLATE "C" NOT NULL UNIQUE,
    role TEXT COLLATE "C" NOT NULL,
    plan TEXT NOT NULL,
    avatar_url TEXT,
    theme TEXT NOT NULL,
    language TEXT NOT NULL,
    notifications BIGINT NOT NULL,
    account_id BIGINT UNIQUE,
    password_hash TEXT,
    last_login_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    email_verified_at BIGINT,
    suspended_at BIGINT,
    muted TEXT NOT NULL DEFAULT '',
    external_id TEXT COLLATE "C" UNIQUE,
    metadata TEXT NOT NULL DEFAULT '{}',
    quota_month BIGINT NOT NULL DEFAULT 0,
    quota_percent BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX users_by_name ON users (name_key, id);
CREATE INDEX users_by_created_at ON users (created_at, id);
CREATE INDEX users_by_role ON users (role, id);

CREATE TABLE products (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    category TEXT COLLATE "C" NOT NULL,
    price BIGINT NOT NULL,
    currency TEXT NOT NULL,
    stock_quantity BIGINT NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    images TEXT NOT NULL,
    metadata TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX products_by_status ON products (status, id);
CREATE INDEX products_by_category ON products (status, category, id);
CREATE INDEX products_by_price ON products (status, price, stock_quantity);
-- Else as many blocks are expected as there are products, and they are counted by one process alone.
CREATE STATISTICS products_by_block ON (id / 4096) FROM products;

-- The words of a product, as `domain.search` spells them; a word of the name stands here twice,
-- once after '='.
CREATE TABLE product_words (
    id BIGINT PRIMARY KEY REFERENCES products (id) ON DELETE CASCADE,
    words TSVECTOR NOT NULL
);
CREATE INDEX product_words_by_word ON product_words USING gin (words);

-- Exact totals, and a version that moves with every change of a list, spread over shards so that
-- concurrent writers seldom wait for one another. A sum over one snapshot is exact.
CREATE TABLE list_counts (
    list TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    shard BIGINT NOT NULL,
    total BIGINT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (list, key, shard)
) WITH (fillfactor = 50);

-- How many products of each status there are among every 4,096 ids, so that a page anywhere is found
-- without passing all that come before it; spread over shards as list_counts is.
CREATE TABLE list_blocks (
    list TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    block BIGINT NOT NULL,
    shard BIGINT NOT NULL,
    total BIGINT NOT NULL,
    PRIMARY KEY (list, key, block, shard)
) WITH (fillfactor = 50);

CREATE FUNCTION count_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(
        'INSERT INTO list_counts AS c
         SELECT %L, %I, pg_backend_pid() %% 16, count(*), 1 FROM added GROUP BY %I ORDER BY %I
         ON CONFLICT (list, key, shard)
         DO UPDATE SET total = c.total + excluded.total, version = c.version + 1',
        TG_TABLE_NAME, TG_ARGV[0], TG_ARGV[0], TG_ARGV[0]);
    RETURN NULL;
END $$;
CREATE FUNCTION count_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(
        'INSERT INTO list_counts AS c
         SELECT %L, %I, pg_backend_pid() %% 16, -count(*), 1 FROM removed GROUP BY %I ORDER BY %I
         ON CONFLICT (list, key, shard)
         DO UPDATE SET total = c.total + excluded.total, version = c.version + 1',
        TG_TABLE_NAME, TG_ARGV[0], TG_ARGV[0], TG_ARGV[0]);
    RETURN NULL;
END $$;
CREATE FUNCTION count_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(
        'INSERT INTO list_counts AS c
         SELECT %L, key, pg_backend_pid() %% 16, sum(n), 1 FROM (
             SELECT %I AS key, 1 AS n FROM added UNION ALL SELECT %I, -1 FROM removed
         ) AS moved GROUP BY key ORDER BY key
         ON CONFLICT (list, key, shard)
         DO UPDATE SET total = c.total + excluded.total, version = c.version + 1',
        TG_TABLE_NAME, TG_ARGV[0], TG_ARGV[0]);
    RETURN NULL;
END $$;
CREATE TRIGGER users_inserted AFTER INSERT ON users REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION count_added('role');
CREATE TRIGGER users_deleted AFTER DELETE ON users REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION count_removed('role');
CREATE TRIGGER users_updated AFTER UPDATE ON users
    REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION count_changed('role');

-- The sums of products by status and by block of ids, by statements that are planned once a connection.
CREATE FUNCTION products_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO list_counts AS c
    SELECT 'products', status, pg_backend_pid() % 16, count(*), 1
    FROM added GROUP BY status ORDER BY status
    ON CONFLICT (list, key, shard)
    DO UPDATE SET total = c.total + excluded.total, version = c.version + 1;
    INSERT INTO list_blocks AS b
    SELECT 'products', status, id / 4096, pg_backend_pid() % 16, count(*)
    FROM added GROUP BY status, id / 4096 ORDER BY status, id / 4096
    ON CONFLICT (list, key, block, shard) DO UPDATE SET total = b.total + excluded.total;
    RETURN NULL;
END $$;
-- Each change of a product touches the row of its block, whether it moves the sum or not: after a write,
-- what fits a filter is counted again only in the blocks whose rows say that they were touched.
CREATE FUNCTION products_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO list_counts AS c
    SELECT 'products', status, pg_backend_pid() % 16, sum(n), 1 FROM (
        SELECT status, 1 AS n FROM added UNION ALL SELECT status, -1 FROM removed
    ) AS moved GROUP BY status ORDER BY status
    ON CONFLICT (list, key, shard)
    DO UPDATE SET total = c.total + excluded.total, version = c.version + 1;
    INSERT INTO list_blocks AS b
    SELECT 'products', status, block, pg_backend_pid() % 16, sum(n) FROM (
        SELECT status, id / 4096 AS block, 1 AS n FROM added
        UNION ALL SELECT status, id / 4096, -1 FROM removed
    ) AS moved GROUP BY status, block ORDER BY status, block
    ON CONFLICT (list, key, block, shard) DO UPDATE SET total = b.total + excluded.total;
    RETURN NULL;
END $$;
CREATE FUNCTION block_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO list_blocks AS b
    SELECT TG_TABLE_NAME, status, id / 4096, pg_backend_pid() % 16, -count(*)
    FROM removed GROUP BY status, id / 4096 ORDER BY status, id / 4096
    ON CONFLICT (list, key, block, shard) DO UPDATE SET total = b.total + excluded.total;
    RETURN NULL;
END $$;
CREATE TRIGGER products_inserted AFTER INSERT ON products REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION products_added();
CREATE TRIGGER products_deleted AFTER DELETE ON products REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION count_removed('status');
CREATE TRIGGER product_blocks_deleted AFTER DELETE ON products REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION block_removed();
CREATE TRIGGER products_updated AFTER UPDATE ON products
    REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION products_changed();

-- `scopes` are what a key carries of its owner's, `networks` where it may be used; NULL: all, and anywhere.
-- `reminded_at` is when its owner was told that it ends soon.
CREATE TABLE api_keys (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    type TEXT NOT NULL,
    hint TEXT NOT NULL,
    key_hash BYTEA NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    last_used_at BIGINT,
    revoked_at BIGINT,
    rotated_at BIGINT,
    scopes TEXT,
    networks TEXT,
    -- Who created it for its owner, even after they were deleted.
    maker_id BIGINT,
    reminded_at BIGINT
);
CREATE INDEX api_keys_by_user ON api_keys (user_id, id);
CREATE INDEX api_keys_by_maker ON api_keys (maker_id) WHERE maker_id IS NOT NULL;
-- Nobody is told of keys that held no longer than seven days from the beginning.
CREATE INDEX api_keys_to_remind ON api_keys (expires_at)
WHERE reminded_at IS NULL AND revoked_at IS NULL AND rotated_at IS NULL
    AND expires_at - created_at > 604800000;

CREATE TABLE rate_counters (
    caller TEXT COLLATE "C" PRIMARY KEY,
    minute BIGINT NOT NULL,
    minute_count BIGINT NOT NULL,
    day BIGINT NOT NULL,
    day_count BIGINT NOT NULL
);
CREATE INDEX rate_counters_by_day ON rate_counters (day);

-- A key is published when it is made, signs from `signs_at` on, and is published until `retires_at`.
CREATE TABLE signing_keys (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    kid TEXT COLLATE "C" NOT NULL UNIQUE,
    public_key TEXT NOT NULL,
    private_key BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    signs_at BIGINT NOT NULL,
    retires_at BIGINT
);

-- `client_id` is what a client calls itself; what refers to its row has a `client_row_id`.
CREATE TABLE oauth_clients (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    client_id TEXT COLLATE "C" NOT NULL UNIQUE,
    secret_hash BYTEA,
    user_id BIGINT REFERENCES users (id) ON DELETE SET NULL,
    name TEXT NOT NULL,
    redirect_uris TEXT NOT NULL,
    scopes TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    first_party BIGINT NOT NULL DEFAULT 0,
    grants TEXT NOT NULL DEFAULT '',
    service TEXT,
    origin TEXT COLLATE "C" NOT NULL DEFAULT 'registered',
    post_logout_redirect_uris TEXT NOT NULL DEFAULT '[]',
    backchannel_logout_uri TEXT,
    jwks TEXT,
    jwks_uri TEXT
);
CREATE INDEX oauth_clients_by_user ON oauth_clients (user_id, id);
CREATE INDEX oauth_clients_by_themselves ON oauth_clients (id) WHERE origin <> 'registered';

-- What a user has granted: to an OAuth client, or, without one, to whoever signed in. `amr` is how the
-- sign-in was proven, `proved_at` when its owner last did so. `sid` is that of the session in which it
-- was granted.
CREATE TABLE grants (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    client_row_id BIGINT REFERENCES oauth_clients (id) ON DELETE CASCADE,
    scopes TEXT NOT NULL,
    address TEXT NOT NULL,
    user_agent TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    revoked_at BIGINT,
    amr TEXT NOT NULL DEFAULT 'pwd',
    proved_at BIGINT NOT NULL DEFAULT 0,
    resource TEXT,
    sid TEXT COLLATE "C"
);
CREATE INDEX grants_by_user ON grants (user_id, id);
CREATE INDEX grants_by_client ON grants (client_row_id, id);
CREATE INDEX grants_by_expiry ON grants (expires_at);
CREATE INDEX grants_by_session ON grants (sid) WHERE sid IS NOT NULL;

-- What a user has allowed a client, at this redirect URI and for this resource ('' for the API): asked
-- again only for more, or once the role differs.
CREATE TABLE consents (
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    client_row_id BIGINT NOT NULL REFERENCES oauth_clients (id) ON DELETE CASCADE,
    redirect_uri TEXT COLLATE "C" NOT NULL,
    resource TEXT COLLATE "C" NOT NULL,
    scopes TEXT NOT NULL,
    role TEXT NOT NULL,
    given_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, client_row_id, redirect_uri, resource)
);
CREATE INDEX consents_by_client ON consents (client_row_id);

CREATE TABLE authorization_codes (
    code_hash BYTEA PRIMARY KEY,
    client_row_id BIGINT NOT NULL REFERENCES oauth_clients (id) ON DELETE CASCADE,
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    redirect_uri TEXT NOT NULL,
    scopes TEXT NOT NULL,
    nonce TEXT,
    code_challenge TEXT,
    signed_in_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    grant_id BIGINT REFERENCES grants (id) ON DELETE CASCADE,
    amr TEXT NOT NULL DEFAULT 'pwd',
    resource TEXT,
    sid TEXT
);
CREATE INDEX authorization_codes_by_client ON authorization_codes (client_row_id);
CREATE INDEX authorization_codes_by_user ON authorization_codes (user_id);
CREATE INDEX authorization_codes_by_grant ON authorization_codes (grant_id);
CREATE INDEX authorization_codes_by_expiry ON authorization_codes (expires_at);

-- What a program may do for a user once they have said so on a page, where they type `user_code`
-- (RFC 8628). The row goes when the program gets its tokens.
CREATE TABLE device_codes (
    code_hash BYTEA PRIMARY KEY,
    user_code TEXT COLLATE "C" NOT NULL UNIQUE,
    client_row_id BIGINT NOT NULL REFERENCES oauth_clients (id) ON DELETE CASCADE,
    scopes TEXT NOT NULL,
    resource TEXT,
    expires_at BIGINT NOT NULL,
    wait_ms BIGINT NOT NULL,
    polled_at BIGINT NOT NULL DEFAULT 0,
    decision TEXT CHECK (decision IN ('allow', 'deny')),
    user_id BIGINT REFERENCES users (id) ON DELETE CASCADE,
    signed_in_at BIGINT NOT NULL DEFAULT 0,
    amr TEXT NOT NULL DEFAULT ''
);
CREATE INDEX device_codes_by_client ON device_codes (client_row_id);
CREATE INDEX device_codes_by_user ON device_codes (user_id);
CREATE INDEX device_codes_by_expiry ON device_codes (expires_at);

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

-- `sid` is what OAuth clients know a session by; the next one of the same user in the same browser keeps
-- it.
CREATE TABLE sessions (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    token_hash BYTEA NOT NULL UNIQUE,
    address TEXT NOT NULL,
    user_agent TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    last_seen_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    amr TEXT NOT NULL DEFAULT 'pwd',
    proved_at BIGINT NOT NULL DEFAULT 0,
    sid TEXT NOT NULL DEFAULT ''
);
CREATE INDEX sessions_by_user ON sessions (user_id, id);
CREATE INDEX sessions_by_expiry ON sessions (expires_at);

-- Random values that pages of a session give out, and that come back once.
CREATE TABLE challenges (
    token_hash BYTEA PRIMARY KEY,
    session_id BIGINT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    expires_at BIGINT NOT NULL
);
CREATE INDEX challenges_by_session ON challenges (session_id);
CREATE INDEX challenges_by_expiry ON challenges (expires_at);

-- Where each account has signed in from.
CREATE TABLE known_addresses (
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    address TEXT COLLATE "C" NOT NULL,
    last_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, address)
);
CREATE INDEX known_addresses_by_age ON known_addresses (last_at);

-- Browsers that each account has signed in with, by the digests of their cookies.
CREATE TABLE known_devices (
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    token_hash BYTEA NOT NULL,
    last_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, token_hash)
);
CREATE INDEX known_devices_by_age ON known_devices (last_at);

-- Single-use tokens; `purpose` is 'reset' or 'verify'. One that a mail has brought verifies the address.
CREATE TABLE email_tokens (
    token_hash BYTEA PRIMARY KEY,
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    purpose TEXT COLLATE "C" NOT NULL,
    email TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    mailed BIGINT NOT NULL DEFAULT 0,
    giver_id BIGINT
);
CREATE INDEX email_tokens_by_user ON email_tokens (user_id, purpose);
CREATE INDEX email_tokens_by_giver ON email_tokens (giver_id) WHERE giver_id IS NOT NULL;
CREATE INDEX email_tokens_by_expiry ON email_tokens (expires_at);

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
    expires_at BIGINT NOT NULL,
    inviter_id BIGINT
);
CREATE INDEX invitations_by_expiry ON invitations (expires_at);
CREATE INDEX invitations_by_inviter ON invitations (inviter_id) WHERE inviter_id IS NOT NULL;

-- Pages that hold a secret, encrypted, until their owner has seen them.
CREATE TABLE shown_once (
    token_hash BYTEA PRIMARY KEY,
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    page BYTEA NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX shown_once_by_user ON shown_once (user_id);
CREATE INDEX shown_once_by_expiry ON shown_once (expires_at);

-- Apps that make codes. The secret is encrypted; codes up to `last_step` are used up.
CREATE TABLE authenticators (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
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

-- How many codes of an account were wrong in a row, and when the last one was.
CREATE TABLE wrong_codes (
    user_id BIGINT PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    in_a_row BIGINT NOT NULL,
    last_at BIGINT NOT NULL
);

-- Sign-ins that wait for the second factor: whose password was right, or that began at a `provider`.
CREATE TABLE pending_sign_ins (
    token_hash BYTEA PRIMARY KEY,
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    expires_at BIGINT NOT NULL,
    provider TEXT
);
CREATE INDEX pending_sign_ins_by_user ON pending_sign_ins (user_id);
CREATE INDEX pending_sign_ins_by_expiry ON pending_sign_ins (expires_at);

CREATE TABLE passkeys (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    credential_id BYTEA NOT NULL UNIQUE,
    public_key BYTEA NOT NULL,
    sign_count BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT
);
CREATE INDEX passkeys_by_user ON passkeys (user_id, id);

-- Challenges that a passkey has answered, and assertions of OAuth clients: none is believed twice.
CREATE TABLE used_challenges (
    challenge_hash BYTEA PRIMARY KEY,
    expires_at BIGINT NOT NULL
);
CREATE INDEX used_challenges_by_expiry ON used_challenges (expires_at);

-- Who signs in as whom at other providers (OpenID Connect).
CREATE TABLE provider_links (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    issuer TEXT COLLATE "C" NOT NULL,
    subject TEXT COLLATE "C" NOT NULL,
    email TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (issuer, subject)
);
CREATE INDEX provider_links_by_user ON provider_links (user_id);

-- Browsers that are away at a provider, or wait to be linked by the next sign-in.
CREATE TABLE provider_visits (
    token_hash BYTEA PRIMARY KEY,
    provider TEXT NOT NULL,
    target TEXT NOT NULL,
    user_id BIGINT REFERENCES users (id) ON DELETE CASCADE,
    subject TEXT,
    email TEXT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX provider_visits_by_user ON provider_visits (user_id);
CREATE INDEX provider_visits_by_expiry ON provider_visits (expires_at);

-- What a POST with an Idempotency-Key was answered, kept with its effect.
CREATE TABLE idempotency_keys (
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    route TEXT COLLATE "C" NOT NULL,
    key_hash BYTEA NOT NULL,
    body_hash BYTEA NOT NULL,
    status BIGINT NOT NULL,
    headers TEXT NOT NULL,
    body BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, route, key_hash)
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

-- Who did what. Accounts and clients stand here by id and name, without a reference: they may be gone. `audit_N` is the
-- partition that ends before the id (N + 1) * 16,777,216; the first one also has all lower ids. What fits none
-- stands in `audit_rest`.
CREATE TABLE audit (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    at BIGINT NOT NULL,
    action TEXT COLLATE "C" NOT NULL,
    user_id BIGINT,
    email TEXT,
    credential TEXT NOT NULL,
    credential_id BIGINT,
    client_id TEXT,
    client_name TEXT,
    address TEXT,
    target TEXT COLLATE "C",
    target_id TEXT COLLATE "C",
    details TEXT NOT NULL,
    request_id TEXT
) PARTITION BY RANGE (id);
-- Entries in the order of their times, so that days bound what is read; and by what they tell of. A
-- rare action is found without the rows of whoever did much else, and of what much else was done to.
CREATE INDEX audit_by_time ON audit (at, id);
CREATE INDEX audit_by_user ON audit (user_id, at, id);
CREATE INDEX audit_by_user_action ON audit (user_id, action, at, id);
CREATE INDEX audit_by_action ON audit (action, at, id);
CREATE INDEX audit_by_target ON audit (target, target_id, at, id, action);
CREATE TABLE audit_1 PARTITION OF audit FOR VALUES FROM (MINVALUE) TO (33554432);
CREATE TABLE audit_rest PARTITION OF audit DEFAULT;

-- Up to which entry the audit log may be removed by age; without a row none. What is above it can be
-- neither changed nor removed.
CREATE TABLE audit_removed (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    up_to BIGINT NOT NULL
);
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only';
END $$;
CREATE FUNCTION refuse_removal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT 1 FROM removed WHERE id > coalesce((SELECT up_to FROM audit_removed), 0)
    ) THEN
        RAISE EXCEPTION 'the audit log is append-only';
    END IF;
    RETURN NULL;
END $$;
-- Triggers of statements are asked of the table alone that a statement names, so each partition has them too.
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_is_not_removed AFTER DELETE ON audit REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_removal();
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR TRUNCATE ON audit_1
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_is_not_removed AFTER DELETE ON audit_1 REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_removal();
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR TRUNCATE ON audit_rest
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_is_not_removed AFTER DELETE ON audit_rest REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_removal();

-- Lets everybody do with a table, and with its columns, what they may with another. Whoever reads the log needs
-- no right to its partitions, but to copy it as pg_dump does.
CREATE FUNCTION copy_rights(source REGCLASS, target REGCLASS) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
    granted RECORD;
BEGIN
    FOR granted IN
        SELECT a.privilege_type, a.is_grantable, rights.columns,
            CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS role
        FROM (
            SELECT relacl AS acl, '' AS columns FROM pg_class WHERE oid = source
            UNION ALL
            SELECT attacl, format('(%I)', attname) FROM pg_attribute WHERE attrelid = source AND NOT attisdropped
        ) AS rights, aclexplode(rights.acl) AS a
        WHERE a.grantee <> (SELECT relowner FROM pg_class WHERE oid = source)
    LOOP
        EXECUTE format('GRANT %s %s ON %s TO %s %s', granted.privilege_type, granted.columns, target, granted.role,
            CASE WHEN granted.is_grantable THEN 'WITH GRANT OPTION' END);
    END LOOP;
END $$;

-- How many requests there were of each kind, by hours and by days since the epoch. Account 0 has the
-- sums of all, without keys; account -1 is whoever has none. Nothing refers to users: what a deleted
-- one has made stays in the sums.
CREATE TABLE request_hours (
    user_id BIGINT NOT NULL,
    hour BIGINT NOT NULL,
    route TEXT COLLATE "C" NOT NULL,
    status BIGINT NOT NULL,
    key_id BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    PRIMARY KEY (user_id, hour, route, status, key_id)
);
CREATE INDEX request_hours_by_hour ON request_hours (hour);
CREATE TABLE request_days (
    user_id BIGINT NOT NULL,
    day BIGINT NOT NULL,
    route TEXT COLLATE "C" NOT NULL,
    status BIGINT NOT NULL,
    key_id BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    PRIMARY KEY (user_id, day, route, status, key_id)
);
CREATE INDEX request_days_by_day ON request_days (day);

-- The sums over all hours, and over all days, that are stored: a page of ninety days of everybody reads a
-- row for each kind of requests, not ninety. What is forgotten is taken from them here, what is counted
-- is added by whoever stores it; both in one order, so that they never wait for each other in a ring.
CREATE TABLE request_totals (
    unit TEXT COLLATE "C" NOT NULL,
    user_id BIGINT NOT NULL,
    route TEXT COLLATE "C" NOT NULL,
    status BIGINT NOT NULL,
    key_id BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    PRIMARY KEY (unit, user_id, route, status, key_id)
) WITH (fillfactor = 50);
CREATE FUNCTION requests_forgotten() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM request_totals AS t JOIN removed AS r USING (user_id, route, status, key_id)
    WHERE t.unit = TG_ARGV[0]
    ORDER BY t.user_id, t.route, t.status, t.key_id FOR UPDATE OF t;
    UPDATE request_totals AS t SET requests = t.requests - r.requests
    FROM (
        SELECT user_id, route, status, key_id, sum(requests) AS requests
        FROM removed GROUP BY 1, 2, 3, 4
    ) AS r
    WHERE t.unit = TG_ARGV[0] AND t.user_id = r.user_id AND t.route = r.route
        AND t.status = r.status AND t.key_id = r.key_id;
    DELETE FROM request_totals AS t USING removed AS r
    WHERE t.unit = TG_ARGV[0] AND t.user_id = r.user_id AND t.route = r.route
        AND t.status = r.status AND t.key_id = r.key_id AND t.requests = 0;
    RETURN NULL;
END $$;
CREATE TRIGGER request_hours_forgotten AFTER DELETE ON request_hours
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION requests_forgotten('hour');
CREATE TRIGGER request_days_forgotten AFTER DELETE ON request_days
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION requests_forgotten('day');

-- The latest requests of each account that failed.
CREATE TABLE failed_requests (
    user_id BIGINT NOT NULL,
    at BIGINT NOT NULL,
    route TEXT NOT NULL,
    status BIGINT NOT NULL,
    code TEXT NOT NULL,
    key_id BIGINT NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (user_id, at, request_id)
);
CREATE INDEX failed_requests_by_age ON failed_requests (at);

-- What has happened. Transactions commit in another order than they took a number from a sequence,
-- so an event has none until it is committed and numbered under a lock: then none comes before it
-- any more. `traceparent` is the span of the change, as W3C Trace Context has it, for the event's deliveries.
CREATE TABLE events (
    seq BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    id BIGINT,
    type TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    data TEXT NOT NULL,
    previous TEXT,
    traceparent TEXT
);
CREATE UNIQUE INDEX events_by_id ON events (id) WHERE id IS NOT NULL;
CREATE INDEX events_by_type ON events (type, id) WHERE id IS NOT NULL;
CREATE INDEX events_unnumbered ON events (seq) WHERE id IS NULL;

-- Up to which number events were removed by age; without a row none was.
CREATE TABLE events_removed (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    up_to BIGINT NOT NULL
);

-- Gives committed events that have none their numbers, and tells every process: no more than 20,000 at one
-- time, since all of a long backlog would take longer than a statement may. Returns whether more are left. What
-- is committed meanwhile waits for the next time: where many write, this would never end.
CREATE FUNCTION settle_events() RETURNS BOOLEAN LANGUAGE plpgsql AS $$
DECLARE
    up_to BIGINT;
    last BIGINT;
    numbered BIGINT;
BEGIN
    PERFORM pg_advisory_xact_lock(7041779, hashtext(current_schema()));
    -- Only now: what was numbered by whoever had the lock before is seen.
    SELECT max(seq) INTO up_to FROM (
        SELECT seq FROM events WHERE id IS NULL ORDER BY seq LIMIT 20000
    ) AS waiting;
    IF up_to IS NULL THEN
        RETURN false;
    END IF;
    SELECT coalesce((SELECT max(id) FROM events), (SELECT r.up_to FROM events_removed AS r), 0) INTO last;
    LOOP
        -- Materialized: where few are expected, they would be chosen and numbered again for each.
        WITH given AS MATERIALIZED (
            SELECT seq, last + row_number() OVER (ORDER BY seq) AS id FROM (
                SELECT seq FROM events WHERE id IS NULL AND seq <= up_to ORDER BY seq LIMIT 1000
            ) AS waiting
        )
        UPDATE events AS e SET id = given.id FROM given WHERE e.seq = given.seq;
        GET DIAGNOSTICS numbered = ROW_COUNT;
        last := last + numbered;
        EXIT WHEN numbered < 1000;
    END LOOP;
    PERFORM pg_notify(current_schema(), 'events');
    RETURN EXISTS (SELECT FROM events WHERE id IS NULL AND seq > up_to);
END $$;

CREATE TABLE webhooks (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    url TEXT NOT NULL,
    description TEXT NOT NULL,
    types TEXT NOT NULL,
    disabled_reason TEXT,
    secret BYTEA NOT NULL,
    former_secret BYTEA,
    former_until BIGINT,
    queued_up_to BIGINT NOT NULL,
    dropped_up_to BIGINT NOT NULL,
    failing_since BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE deliveries (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    webhook_id BIGINT NOT NULL,
    event_id BIGINT NOT NULL,
    type TEXT NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    attempts BIGINT NOT NULL,
    next_attempt_at BIGINT,
    last_status BIGINT,
    last_error TEXT,
    last_milliseconds BIGINT,
    answer TEXT,
    created_at BIGINT NOT NULL
);
CREATE INDEX deliveries_by_webhook ON deliveries (webhook_id, id);
CREATE INDEX deliveries_due ON deliveries (webhook_id, next_attempt_at) WHERE status = 'pending';

-- Mails that wait to be sent, or to be written; what they hold is encrypted.
CREATE TABLE mails (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    content BYTEA NOT NULL,
    attempts BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    next_attempt_at BIGINT NOT NULL
);
CREATE INDEX mails_by_attempt ON mails (next_attempt_at);

-- OAuth clients that are yet to be told that a session of a user, or all of theirs, has ended.
CREATE TABLE logouts (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    client_row_id BIGINT NOT NULL,
    user_id BIGINT NOT NULL,
    sid TEXT,
    attempts BIGINT NOT NULL,
    next_attempt_at BIGINT NOT NULL
);
CREATE INDEX logouts_by_client ON logouts (client_row_id, next_attempt_at);
CREATE INDEX logouts_by_attempt ON logouts (next_attempt_at);

-- What imports in batches have stored and not told yet; `stored` is JSON.
CREATE TABLE untold_imports (
    name TEXT COLLATE "C" PRIMARY KEY,
    actor TEXT NOT NULL,
    at BIGINT NOT NULL,
    stored TEXT NOT NULL
);

-- Files of records that were sent to pages, on their way in; `rejected` are rows that do not go in.
CREATE TABLE uploads (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    token TEXT NOT NULL,
    kind TEXT NOT NULL,
    account_id BIGINT NOT NULL,
    actor TEXT NOT NULL,
    name TEXT NOT NULL,
    updates BIGINT NOT NULL,
    size BIGINT NOT NULL,
    state TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    line BIGINT NOT NULL,
    done BIGINT NOT NULL,
    inserted BIGINT NOT NULL,
    updated BIGINT NOT NULL,
    unchanged BIGINT NOT NULL,
    faulty BIGINT NOT NULL,
    problem TEXT NOT NULL,
    rejected TEXT NOT NULL DEFAULT '[]'
);
CREATE INDEX uploads_by_account ON uploads (account_id, id);
CREATE INDEX uploads_by_age ON uploads (created_at);

-- Which process may do what only one may do at a time.
CREATE TABLE leases (
    name TEXT COLLATE "C" PRIMARY KEY,
    holder TEXT NOT NULL,
    until BIGINT NOT NULL
);
CREATE INDEX leases_by_end ON leases (until);

-- The number of the last batch of counts that each process stored, so that none is added twice.
CREATE TABLE flushes (
    writer TEXT COLLATE "C" PRIMARY KEY,
    number BIGINT NOT NULL,
    at BIGINT NOT NULL
);
CREATE INDEX flushes_by_age ON flushes (at);

-- Ends the statement, and with it all that it did, where `is_met` is false: the message is the place of
-- the condition among those of the statement.
CREATE FUNCTION demand(place INTEGER, is_met BOOLEAN) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF NOT is_met THEN
        RAISE EXCEPTION USING ERRCODE = 'PO001', MESSAGE = place;
    END IF;
END $$;

-- Tells every process that a webhook may be gone, disabled or lead elsewhere; the channel bears the
-- schema's name.
CREATE FUNCTION tell_of_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify(TG_TABLE_SCHEMA, TG_TABLE_NAME);
    RETURN NULL;
END $$;
CREATE TRIGGER webhooks_told AFTER DELETE OR UPDATE OF url, disabled_reason ON webhooks
    FOR EACH STATEMENT EXECUTE FUNCTION tell_of_change();

-- How many transactions have told of what ends or changes credentials, clients or signing keys.
CREATE TABLE notices (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    number BIGINT NOT NULL
);
INSERT INTO notices (one, number) VALUES (1, 0);

-- Tells of a row: the number of the transaction, the table, and which column says which row of it.
-- The triggers below are deferred, so the number is taken last: in the order of the commits, and
-- held for no longer than a commit takes. A transaction takes one, whatever it tells.
CREATE FUNCTION tell_of_row() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    mine TEXT := 'portico.' || TG_TABLE_SCHEMA;
    told TEXT := nullif(current_setting(mine, true), '');
    changed JSONB := CASE TG_OP WHEN 'INSERT' THEN to_jsonb(NEW) ELSE to_jsonb(OLD) END;
BEGIN
    IF told IS NULL THEN
        INSERT INTO notices AS n (one, number) VALUES (1, 1)
            ON CONFLICT (one) DO UPDATE SET number = n.number + 1 RETURNING n.number INTO told;
        PERFORM set_config(mine, told, true);
    END IF;
    PERFORM pg_notify(
        TG_TABLE_SCHEMA, concat_ws(' ', told, TG_ARGV[0], changed ->> TG_ARGV[1]));
    RETURN NULL;
END $$;

-- What goes with a row that is told is not told again: keys and sessions go with their user, tokens
-- with their grant. Grants go with their client too, which is told without them.
CREATE CONSTRAINT TRIGGER users_changed AFTER UPDATE ON users
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN ((OLD.email, OLD.name, OLD.role, OLD.plan, OLD.suspended_at)
        IS DISTINCT FROM (NEW.email, NEW.name, NEW.role, NEW.plan, NEW.suspended_at))
    EXECUTE FUNCTION tell_of_row('users', 'id');
CREATE CONSTRAINT TRIGGER users_ended AFTER DELETE ON users
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tell_of_row('users', 'id');
CREATE CONSTRAINT TRIGGER api_keys_changed
    AFTER UPDATE OF user_id, type, key_hash, expires_at, revoked_at, scopes, networks ON api_keys
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tell_of_row('api_keys', 'id');
CREATE CONSTRAINT TRIGGER api_keys_ended AFTER DELETE ON api_keys
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION tell_of_row('api_keys', 'id');
CREATE CONSTRAINT TRIGGER sessions_changed
    AFTER UPDATE OF user_id, token_hash, expires_at ON sessions
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tell_of_row('sessions', 'id');
CREATE CONSTRAINT TRIGGER sessions_ended AFTER DELETE ON sessions
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION tell_of_row('sessions', 'id');
CREATE CONSTRAINT TRIGGER grants_changed
    AFTER UPDATE OF user_id, client_row_id, revoked_at ON grants
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tell_of_row('grants', 'id');
CREATE CONSTRAINT TRIGGER grants_ended AFTER DELETE ON grants
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tell_of_row('grants', 'id');
CREATE CONSTRAINT TRIGGER tokens_changed
    AFTER UPDATE OF grant_id, access_hash, scopes, access_expires_at ON tokens
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tell_of_row('grants', 'grant_id');
CREATE CONSTRAINT TRIGGER tokens_ended AFTER DELETE ON tokens
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION tell_of_row('grants', 'grant_id');
CREATE CONSTRAINT TRIGGER oauth_clients_told AFTER INSERT OR UPDATE OR DELETE ON oauth_clients
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tell_of_row('oauth_clients');
CREATE CONSTRAINT TRIGGER signing_keys_told AFTER INSERT OR UPDATE OR DELETE ON signing_keys
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tell_of_row('signing_keys');
