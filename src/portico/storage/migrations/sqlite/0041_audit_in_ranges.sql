-- compatible from: 28
-- For PostgreSQL alone. SQLite has no partitions, and removes old entries in batches.
SELECT 1;
