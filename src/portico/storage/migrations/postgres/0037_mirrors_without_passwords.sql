-- What had set a password for a mirror user, who signs in with the live account, is refused: what was
-- set so, and all that it has opened, ends here. Few have one.
-- compatible from: 28
DELETE FROM sessions WHERE user_id IN (
    SELECT id FROM users WHERE account_id IS NOT NULL AND password_hash IS NOT NULL);
DELETE FROM grants WHERE user_id IN (
    SELECT id FROM users WHERE account_id IS NOT NULL AND password_hash IS NOT NULL);
UPDATE users SET password_hash = NULL WHERE account_id IS NOT NULL AND password_hash IS NOT NULL;
