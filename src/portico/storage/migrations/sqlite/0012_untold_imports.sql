-- What imports in batches have stored and not told yet.
CREATE TABLE untold_imports (
    name TEXT PRIMARY KEY,
    actor TEXT NOT NULL,
    at INTEGER NOT NULL,
    inserted INTEGER NOT NULL,
    first_id INTEGER NOT NULL,
    last_id INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
