-- Files of products that were sent to pages, on their way in; `rejected` are rows that do not go in.
CREATE TABLE uploads (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    token TEXT NOT NULL,
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
