"""The `OTEL_` variables that the SDK does not check or apply itself."""

import logging
from collections.abc import Mapping

from opentelemetry.util.re import parse_env_headers

from portico.settings import SettingError

HEADERS = tuple(f"OTEL_EXPORTER_OTLP_{of}HEADERS" for of in ("", "TRACES_", "METRICS_"))


def require_headers(environ: Mapping[str, str]) -> None:
    """Raises `SettingError` if header fields for the collector cannot be sent. The message does not
    contain them, since they may be secrets."""
    logging.getLogger("opentelemetry.util.re").disabled = True  # it logs fields it cannot read
    for variable in HEADERS:
        for field in filter(str.strip, environ.get(variable, "").split(",")):
            values = [*parse_env_headers(field, liberal=True).values()]
            if not values or not values[0].isascii() or not values[0].isprintable():
                raise SettingError(
                    f"{variable} must be name=value, comma-separated and percent-encoded, such as"
                    " authorization=Bearer%20…"
                )


def traces_wanted(environ: Mapping[str, str]) -> bool:
    """Whether spans are exported. They are created and propagated in any case."""
    return environ.get("OTEL_TRACES_EXPORTER") != "none"


def metrics_period(environ: Mapping[str, str]) -> float | None:
    """Seconds between two exports of metrics, None if they are not exported. The variables are read
    as by the SDK's own metric reader, which cannot be used: it takes no histograms from others."""
    disabled = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if disabled or environ.get("OTEL_METRICS_EXPORTER") == "none":
        return None
    given = environ.get("OTEL_METRIC_EXPORT_INTERVAL", "")
    return max(int(given), 1) / 1000 if given.isascii() and given.isdigit() else 60.0
