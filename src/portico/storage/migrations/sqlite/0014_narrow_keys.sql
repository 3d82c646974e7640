-- What a key carries of its owner's scopes, and where it may be used; NULL: all, and anywhere.
ALTER TABLE api_keys ADD COLUMN scopes TEXT;
ALTER TABLE api_keys ADD COLUMN networks TEXT;
