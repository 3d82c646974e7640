-- How many requests there were of each kind, by hours and by days since the epoch. Account 0 has the
-- sums of all, without keys; account -1 is whoever has none. Nothing refers to users: what a deleted
-- one has made stays in the sums.
CREATE TABLE request_hours (
    user_id INTEGER NOT NULL,
    hour INTEGER NOT NULL,
    route TEXT NOT NULL,
    status INTEGER NOT NULL,
    key_id INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    PRIMARY KEY (user_id, hour, route, status, key_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX request_hours_by_hour ON request_hours (hour);
CREATE TABLE request_days (
    user_id INTEGER NOT NULL,
    day INTEGER NOT NULL,
    route TEXT NOT NULL,
    status INTEGER NOT NULL,
    key_id INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    PRIMARY KEY (user_id, day, route, status, key_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX request_days_by_day ON request_days (day);

-- What was counted until now, not told apart: with status 0. Servers of the release before still write
-- daily_use, so it goes with a later one.
INSERT INTO request_days SELECT user_id, day, '', 0, 0, requests FROM daily_use;
INSERT INTO request_days SELECT 0, day, '', 0, 0, sum(requests) FROM daily_use GROUP BY day;

-- The latest requests of each account that failed.
CREATE TABLE failed_requests (
    user_id INTEGER NOT NULL,
    at INTEGER NOT NULL,
    route TEXT NOT NULL,
    status INTEGER NOT NULL,
    code TEXT NOT NULL,
    key_id INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    PRIMARY KEY (user_id, at, request_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX failed_requests_by_age ON failed_requests (at);
