-- Entries in the order of their times, so that days bound what is read; and by what they tell of. A
-- rare action is found without the rows of whoever did much else, and of what much else was done to.
DROP INDEX audit_by_user;
DROP INDEX audit_by_action;
CREATE INDEX audit_by_time ON audit (at, id);
CREATE INDEX audit_by_user ON audit (user_id, at, id);
CREATE INDEX audit_by_user_action ON audit (user_id, action, at, id);
CREATE INDEX audit_by_action ON audit (action, at, id);
CREATE INDEX audit_by_target ON audit (target, target_id, at, id, action);
