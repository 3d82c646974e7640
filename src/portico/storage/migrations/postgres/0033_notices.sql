-- compatible from: 28
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

DROP TRIGGER users_told ON users;
DROP TRIGGER api_keys_told ON api_keys;
DROP TRIGGER sessions_told ON sessions;
DROP TRIGGER grants_told ON grants;
DROP TRIGGER tokens_told ON tokens;
DROP TRIGGER oauth_clients_told ON oauth_clients;
DROP TRIGGER signing_keys_told ON signing_keys;

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
