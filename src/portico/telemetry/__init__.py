"""OpenTelemetry, where the operator names a collector: the extra `portico[otel]`. Nothing else
imports its SDK."""

INSTALLING = (
    "install the wheel with its extra [otel], or in a checkout requirements/otel.txt"
    " (docs/operations.md)"
)
"""What to do where it is not there. By a name alone, an index may have another package."""
