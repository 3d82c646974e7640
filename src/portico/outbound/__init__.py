"""HTTP requests to others: deliveries of webhooks, and what other providers are asked."""
