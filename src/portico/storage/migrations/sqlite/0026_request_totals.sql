-- The sums over all hours, and over all days, that are stored: a page of ninety days of everybody reads a
-- row for each kind of requests, not ninety. What is forgotten is taken from them here, what is counted
-- is added by whoever stores it.
CREATE TABLE request_totals (
    unit TEXT NOT NULL,
    user_id INTEGER NOT NULL,
    route TEXT NOT NULL,
    status INTEGER NOT NULL,
    key_id INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    PRIMARY KEY (unit, user_id, route, status, key_id)
) STRICT, WITHOUT ROWID;
INSERT INTO request_totals
SELECT 'hour', user_id, route, status, key_id, sum(requests) FROM request_hours GROUP BY 2, 3, 4, 5;
INSERT INTO request_totals
SELECT 'day', user_id, route, status, key_id, sum(requests) FROM request_days GROUP BY 2, 3, 4, 5;

CREATE TRIGGER request_hours_forgotten AFTER DELETE ON request_hours BEGIN
    UPDATE request_totals SET requests = requests - old.requests
    WHERE unit = 'hour' AND user_id = old.user_id AND route = old.route AND status = old.status
        AND key_id = old.key_id;
    DELETE FROM request_totals
    WHERE unit = 'hour' AND user_id = old.user_id AND route = old.route AND status = old.status
        AND key_id = old.key_id AND requests = 0;
END;
CREATE TRIGGER request_days_forgotten AFTER DELETE ON request_days BEGIN
    UPDATE request_totals SET requests = requests - old.requests
    WHERE unit = 'day' AND user_id = old.user_id AND route = old.route AND status = old.status
        AND key_id = old.key_id;
    DELETE FROM request_totals
    WHERE unit = 'day' AND user_id = old.user_id AND route = old.route AND status = old.status
        AND key_id = old.key_id AND requests = 0;
END;
