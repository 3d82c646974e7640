"""OpenTelemetry, the extra `portico[otel]`, which is loaded if the operator sets a collector. Only
this package imports the SDK."""
