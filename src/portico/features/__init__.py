"""What Portico does for its users, each in one package: rules, use cases and endpoints."""
