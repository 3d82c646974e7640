"""Lists as files that a browser saves."""

from collections.abc import AsyncGenerator

from portico.contract.envelope import timestamp
from portico.domain.errors import Unreadable
from portico.domain.words import Format
from portico.http.content import BY_CODING, GZIP, gzipped_parts, takes_gzip
from portico.http.messages import Stream
from portico.pages.site import Visit

_TYPES: dict[str, tuple[Format, str]] = {
    "csv": ("csv", "text/csv; charset=utf-8; header=present"),
    "ndjson": ("ndjson", "application/x-ndjson"),
}


def format_asked(visit: Visit) -> Format:
    """The format that the address asks for. Raises `Unreadable` for none."""
    if visit.sent("format") not in _TYPES:
        raise Unreadable("This file cannot be made: choose CSV or NDJSON beside the list.")
    return _TYPES[visit.sent("format")][0]


def as_file(visit: Visit, noun: str, form: Format, chunks: AsyncGenerator[bytes, None]) -> Stream:
    """A file of this day, sent as `chunks` give it, compressed for those who take that."""
    coded = takes_gzip(visit.request)
    name = f"{noun}-{visit.env.name}-{timestamp(visit.request.now)[:10]}.{form}"
    return Stream(
        200,
        gzipped_parts(chunks) if coded else chunks,
        lambda: None,
        [
            ("content-type", _TYPES[form][1]),
            ("content-disposition", f'attachment; filename="{name}"'),
            ("cache-control", "no-store"),
            BY_CODING,
            *([GZIP] if coded else []),
        ],
        finite=True,
    )
