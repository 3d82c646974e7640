-- compatible from: 28
-- For SQLite alone. PostgreSQL knows how many have a role: it sorts few, and passes others of many.
SELECT 1;
