-- What has happened. Transactions commit in another order than they took a number from a sequence,
-- so an event has none until it is committed and numbered under a lock: then none comes before it
-- any more.
CREATE TABLE events (
    seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id BIGINT,
    type TEXT NOT NULL,
    at BIGINT NOT NULL,
    data TEXT NOT NULL,
    previous TEXT
);
CREATE UNIQUE INDEX events_by_id ON events (id) WHERE id IS NOT NULL;
CREATE INDEX events_by_type ON events (type, id) WHERE id IS NOT NULL;
CREATE INDEX events_unnumbered ON events (seq) WHERE id IS NULL;

-- Up to which number events were removed by age; without a row none was.
CREATE TABLE events_removed (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    up_to BIGINT NOT NULL
);
