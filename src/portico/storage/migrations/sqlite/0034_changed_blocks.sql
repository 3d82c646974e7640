-- compatible from: 28
-- For PostgreSQL alone. SQLite counts in its index, and is not asked while nothing was written.
SELECT 1;
