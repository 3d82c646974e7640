-- What imports in batches have stored and not told yet.
CREATE TABLE untold_imports (
    name TEXT PRIMARY KEY,
    actor TEXT NOT NULL,
    at BIGINT NOT NULL,
    inserted BIGINT NOT NULL,
    first_id BIGINT NOT NULL,
    last_id BIGINT NOT NULL
);
