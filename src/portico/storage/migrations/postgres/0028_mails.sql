-- Mails that wait to be sent, or to be written; what they hold is encrypted.
CREATE TABLE mails (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    content BYTEA NOT NULL,
    attempts BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    next_attempt_at BIGINT NOT NULL
);
CREATE INDEX mails_by_attempt ON mails (next_attempt_at);
