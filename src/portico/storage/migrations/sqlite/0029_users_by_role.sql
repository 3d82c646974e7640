-- compatible from: 28
-- Users of a role in every order that lists have: by the role alone, each page would sort all of them.
CREATE INDEX users_by_role_and_name ON users (role, name_key, id);
CREATE INDEX users_by_role_and_email ON users (role, email_key, id);
CREATE INDEX users_by_role_and_time ON users (role, created_at, id);
DROP INDEX users_by_role;
