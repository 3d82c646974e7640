-- Mails that wait to be sent, or to be written; what they hold is encrypted.
CREATE TABLE mails (
    id INTEGER PRIMARY KEY,
    content BLOB NOT NULL,
    attempts INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    next_attempt_at INTEGER NOT NULL
) STRICT;
CREATE INDEX mails_by_attempt ON mails (next_attempt_at);
