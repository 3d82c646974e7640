"""OpenTelemetry, where the operator names a collector: the extra `portico[otel]`. Nothing else
imports its SDK."""
