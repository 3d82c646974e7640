"""How deliveries of webhooks leave."""
