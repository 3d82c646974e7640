"""The SDK's `OTEL_` variables, as far as it does not judge or obey them itself."""

import logging
from collections.abc import Mapping

from opentelemetry.util.re import parse_env_headers

from portico.settings import SettingError

HEADERS = tuple(f"OTEL_EXPORTER_OTLP_{of}HEADERS" for of in ("", "TRACES_", "METRICS_"))


def require_headers(environ: Mapping[str, str]) -> None:
    """Raises `SettingError` where header fields for the collector cannot be sent; it does not show
    them, for they may be secrets."""
    logging.getLogger("opentelemetry.util.re").disabled = True  # it logs what it cannot read
    for variable in HEADERS:
        for field in filter(str.strip, environ.get(variable, "").split(",")):
            values = [*parse_env_headers(field, liberal=True).values()]
            if not values or not values[0].isascii() or not values[0].isprintable():
                raise SettingError(
                    f"{variable} must be name=value, comma-separated and percent-encoded, such as"
                    " authorization=Bearer%20…"
                )


def traces_wanted(environ: Mapping[str, str]) -> bool:
    """Whether spans are exported; they are made, and passed on, all the same."""
    return environ.get("OTEL_TRACES_EXPORTER") != "none"


def metrics_period(environ: Mapping[str, str]) -> float | None:
    """Seconds between two exports of metrics, None where they are not wanted: as the SDK's own
    reader of metrics would have it, which knows no histogram of another's."""
    disabled = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if disabled or environ.get("OTEL_METRICS_EXPORTER") == "none":
        return None
    given = environ.get("OTEL_METRIC_EXPORT_INTERVAL", "")
    return max(int(given), 1) / 1000 if given.isascii() and given.isdigit() else 60.0
