-- Whether a mail has brought a token, and so verifies the address. Of one that an older release stored,
-- nobody knows that.
-- compatible from: 28
ALTER TABLE email_tokens ADD COLUMN mailed BIGINT NOT NULL DEFAULT 0;
