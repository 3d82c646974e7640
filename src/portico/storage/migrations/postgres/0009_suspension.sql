-- Since when an account is suspended; without a value it is not.
ALTER TABLE users ADD COLUMN suspended_at BIGINT;
