-- A client's id is what it calls itself; what refers to its row says so.
ALTER TABLE grants RENAME COLUMN client_id TO client_row_id;
ALTER TABLE authorization_codes RENAME COLUMN client_id TO client_row_id;
