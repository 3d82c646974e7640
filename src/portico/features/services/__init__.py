"""The team's own services: who may do what there, and what it takes from their limits."""
