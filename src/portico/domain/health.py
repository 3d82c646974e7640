"""How a store or one of its replicas is, in the words that `/readyz`, metrics and doctor use."""

OK = "ok"
SILENT = "silent"
FAILING = "failing"
FULL = "full"

BEHIND = "behind"
"""Of a database that waits for migrations, and of a replica that lacks what must be shown."""

PRIMARY = "primary"
"""Of a host among the replicas that takes the writes for now."""

FOREIGN = "foreign"
"""Of a replica that leads to another database than the one that takes the writes."""
