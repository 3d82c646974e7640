-- The sums over all hours, and over all days, that are stored: a page of ninety days of everybody reads a
-- row for each kind of requests, not ninety. What is forgotten is taken from them here, what is counted
-- is added by whoever stores it; both in one order, so that they never wait for each other in a ring.
CREATE TABLE request_totals (
    unit TEXT NOT NULL,
    user_id BIGINT NOT NULL,
    route TEXT NOT NULL,
    status BIGINT NOT NULL,
    key_id BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    PRIMARY KEY (unit, user_id, route, status, key_id)
) WITH (fillfactor = 50);

CREATE FUNCTION requests_forgotten() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM request_totals AS t JOIN removed AS r USING (user_id, route, status, key_id)
    WHERE t.unit = TG_ARGV[0]
    ORDER BY t.user_id, t.route COLLATE "C", t.status, t.key_id FOR UPDATE OF t;
    UPDATE request_totals AS t SET requests = t.requests - r.requests
    FROM (
        SELECT user_id, route, status, key_id, sum(requests) AS requests
        FROM removed GROUP BY 1, 2, 3, 4
    ) AS r
    WHERE t.unit = TG_ARGV[0] AND t.user_id = r.user_id AND t.route = r.route
        AND t.status = r.status AND t.key_id = r.key_id;
    DELETE FROM request_totals AS t USING removed AS r
    WHERE t.unit = TG_ARGV[0] AND t.user_id = r.user_id AND t.route = r.route
        AND t.status = r.status AND t.key_id = r.key_id AND t.requests = 0;
    RETURN NULL;
END $$;
CREATE TRIGGER request_hours_forgotten AFTER DELETE ON request_hours
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION requests_forgotten('hour');
CREATE TRIGGER request_days_forgotten AFTER DELETE ON request_days
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION requests_forgotten('day');

-- Now that all that is forgotten is taken away, and nothing is under way.
INSERT INTO request_totals
SELECT 'hour', user_id, route, status, key_id, sum(requests) FROM request_hours GROUP BY 2, 3, 4, 5;
INSERT INTO request_totals
SELECT 'day', user_id, route, status, key_id, sum(requests) FROM request_days GROUP BY 2, 3, 4, 5;
