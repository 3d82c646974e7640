-- compatible from: 28
-- For SQLite alone. PostgreSQL knows which is rarer, the category or the prices, and counts by blocks.
SELECT 1;
