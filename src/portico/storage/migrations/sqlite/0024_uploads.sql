-- Files of products that were sent to pages, on their way in; `rejected` are rows that do not go in.
CREATE TABLE uploads (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    token TEXT NOT NULL,
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
