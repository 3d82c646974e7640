CREATE TABLE webhooks (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    url TEXT NOT NULL,
    description TEXT NOT NULL,
    types TEXT NOT NULL,
    disabled_reason TEXT,
    secret BYTEA NOT NULL,
    former_secret BYTEA,
    former_until BIGINT,
    told_up_to BIGINT NOT NULL,
    dropped_up_to BIGINT NOT NULL,
    failing_since BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE deliveries (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    webhook_id BIGINT NOT NULL,
    event_id BIGINT NOT NULL,
    type TEXT NOT NULL,
    status TEXT NOT NULL,
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

-- Tells every process that a webhook may be gone, disabled or lead elsewhere.
CREATE TRIGGER webhooks_told AFTER DELETE OR UPDATE OF url, disabled_reason ON webhooks
    FOR EACH STATEMENT EXECUTE FUNCTION tell_of_change();
