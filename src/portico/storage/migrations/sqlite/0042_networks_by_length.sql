-- Known networks of 48 bits, which had the name of the first one of 64 bits in them, get their length.
-- compatible from: 28
INSERT INTO known_addresses (user_id, address, last_at)
SELECT user_id, address || '/48', last_at FROM known_addresses
WHERE address LIKE '%::' AND address NOT LIKE '%:%:%:%::'
ON CONFLICT DO NOTHING;
DELETE FROM known_addresses WHERE address LIKE '%::' AND address NOT LIKE '%:%:%:%::';
