"""The states of a store or a replica, in the words of `/readyz`, the metrics and `doctor`."""

OK = "ok"
SILENT = "silent"
FAILING = "failing"
FULL = "full"

BEHIND = "behind"
"""A database that waits for migrations, or a replica that lacks data that must be shown."""

PRIMARY = "primary"
"""A host among the replicas that currently is the primary."""

FOREIGN = "foreign"
"""A replica of another database than the primary's."""
