"""The process's own log: one JSON object a line on standard error, secrets redacted."""

import logging
import sys
from typing import Any

import msgspec

from portico.contract.envelope import timestamp
from portico.http.redact import redact
from portico.storage.database import traceparent


class JsonLines(logging.Formatter):
    """Formats a record as a JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter.format`."""
        line: dict[str, Any] = {
            "time": timestamp(int(record.created * 1000)),
            "level": record.levelname.lower(),
            "event": redact(record.getMessage()),
            "logger": record.name,
        }
        if request_id := getattr(record, "request_id", None):
            line["request_id"] = request_id
        if parent := traceparent.get():
            line["trace_id"] = parent.split("-")[1]
        if record.exc_info:
            line["exception"] = redact(self.formatException(record.exc_info))
        return msgspec.json.encode(line).decode()


def configure(level: str) -> None:
    """Sends every logger's records of `level` and above to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
