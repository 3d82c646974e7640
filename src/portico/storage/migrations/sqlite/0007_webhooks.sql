CREATE TABLE webhooks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    url TEXT NOT NULL,
    description TEXT NOT NULL,
    types TEXT NOT NULL,
    disabled_reason TEXT,
    secret BLOB NOT NULL,
    former_secret BLOB,
    former_until INTEGER,
    told_up_to INTEGER NOT NULL,
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
