-- What has happened, in the order in which it was committed: one writer gives the numbers.
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    type TEXT NOT NULL,
    at INTEGER NOT NULL,
    data TEXT NOT NULL,
    previous TEXT
) STRICT;
CREATE INDEX events_by_type ON events (type, id);

-- Up to which number events were removed by age; without a row none was.
CREATE TABLE events_removed (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    up_to INTEGER NOT NULL
) STRICT;
