-- compatible from: 28
-- For PostgreSQL alone. On SQLite the version of the file tells of what other processes commit.
SELECT 1;
