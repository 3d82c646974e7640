"""HTTP requests to other servers: deliveries of webhooks, and requests to identity providers."""
