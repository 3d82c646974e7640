"""What the tests of services declare in `portico.toml`."""

DECLARED = """
[services.invoices]
path = "/invoices"
upstream = "http://127.0.0.1:9"
sandbox_upstream = "http://127.0.0.1:19"

[services.invoices.scopes]
"read:invoices" = { about = "See invoices", roles = ["viewer", "support"] }
"write:invoices" = { about = "Create and change invoices", roles = ["editor"] }

[[services.invoices.rules]]
path = "/status"
scope = "public"

[[services.invoices.rules]]
path = "/alive"
scope = "public"
cost = 0

[[services.invoices.rules]]
methods = ["GET", "HEAD"]
path = "/heavy/*"
scope = "read:invoices"
limit = "heavy"

[[services.invoices.rules]]
methods = ["GET", "HEAD"]
path = "/**"
scope = "read:invoices"

[[services.invoices.rules]]
methods = ["POST"]
path = "/bulk"
scope = "write:invoices"
cost = 7

[services.mail]
audience = "urn:mail"

[services.mail.scopes]
"send:mail" = { about = "Send mail", roles = ["editor"] }

[[services.mail.rules]]
path = "/**"
scope = "any"

[limits.heavy]
per_minute = 2

[roles.support]
scopes = ["read:users", "read:invoices"]

[plans.monthly]
per_minute = 1000
per_day = 1000
per_month = 20
"""
