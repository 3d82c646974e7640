-- The kinds of mails that each account wants none of, separated by spaces.
ALTER TABLE users ADD COLUMN muted TEXT NOT NULL DEFAULT '';
