"""The pages of any OpenAPI document, 3.0 or 3.1. What they show comes from the document."""
