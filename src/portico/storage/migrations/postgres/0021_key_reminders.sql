-- When the owner of a key was told that it ends soon. Nobody is told of keys that held no longer than
-- seven days from the beginning: the index has none of them.
ALTER TABLE api_keys ADD COLUMN reminded_at BIGINT;
CREATE INDEX api_keys_to_remind ON api_keys (expires_at)
WHERE reminded_at IS NULL AND revoked_at IS NULL AND rotated_at IS NULL
    AND expires_at - created_at > 604800000;
