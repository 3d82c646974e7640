-- compatible from: 28
-- For PostgreSQL alone. SQLite numbers events as it stores them.
SELECT 1;
