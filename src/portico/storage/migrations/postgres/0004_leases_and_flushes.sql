-- Which process may do what only one may do at a time.
CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    until BIGINT NOT NULL
);

-- The number of the last batch of counts that each process stored, so that none is added twice.
CREATE TABLE flushes (
    writer TEXT PRIMARY KEY,
    number BIGINT NOT NULL,
    at BIGINT NOT NULL
);
CREATE INDEX flushes_by_age ON flushes (at);

-- By which rows are found that may be forgotten.
CREATE INDEX rate_counters_by_day ON rate_counters (day);
CREATE INDEX known_addresses_by_age ON known_addresses (last_at);
