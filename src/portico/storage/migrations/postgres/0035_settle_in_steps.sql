-- compatible from: 28
-- As before, but for no more than 20,000 events at one time: all of a long backlog took longer than a
-- statement may, and so none of it was ever numbered. Returns whether more are left.
DROP FUNCTION settle_events();
CREATE FUNCTION settle_events() RETURNS BOOLEAN LANGUAGE plpgsql AS $$
DECLARE
    up_to BIGINT;
    last BIGINT;
    numbered BIGINT;
BEGIN
    PERFORM pg_advisory_xact_lock(7041779, hashtext(current_schema()));
    -- Only now: what was numbered by whoever had the lock before is seen.
    SELECT max(seq) INTO up_to FROM (
        SELECT seq FROM events WHERE id IS NULL ORDER BY seq LIMIT 20000
    ) AS waiting;
    IF up_to IS NULL THEN
        RETURN false;
    END IF;
    SELECT coalesce((SELECT max(id) FROM events), (SELECT r.up_to FROM events_removed AS r), 0) INTO last;
    LOOP
        -- Materialized: where few are expected, they would be chosen and numbered again for each.
        WITH given AS MATERIALIZED (
            SELECT seq, last + row_number() OVER (ORDER BY seq) AS id FROM (
                SELECT seq FROM events WHERE id IS NULL AND seq <= up_to ORDER BY seq LIMIT 1000
            ) AS waiting
        )
        UPDATE events AS e SET id = given.id FROM given WHERE e.seq = given.seq;
        GET DIAGNOSTICS numbered = ROW_COUNT;
        last := last + numbered;
        EXIT WHEN numbered < 1000;
    END LOOP;
    PERFORM pg_notify(current_schema(), 'events');
    RETURN EXISTS (SELECT FROM events WHERE id IS NULL AND seq > up_to);
END $$;
