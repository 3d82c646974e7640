"""Exports: lists as files to download."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from portico.core.errors import AuthenticationRequired, Unreadable
from portico.core.words import Format
from portico.features.access.credentials import ENDED
from portico.features.access.live_credentials import LiveCredentials, parts
from portico.web.content import BY_CODING, GZIP, gzipped_parts, takes_gzip
from portico.web.envelope import timestamp
from portico.web.messages import Stream
from portico.web.pages.site import Visit

_TYPES: dict[str, tuple[Format, str]] = {
    "csv": ("csv", "text/csv; charset=utf-8; header=present"),
    "ndjson": ("ndjson", "application/x-ndjson"),
}


def format_asked(visit: Visit) -> Format:
    """The format that the query asks for. Raises `Unreadable` for any other."""
    if visit.sent("format") not in _TYPES:
        raise Unreadable("The file cannot be created. Select CSV or NDJSON as its format.")
    return _TYPES[visit.sent("format")][0]


def as_file(visit: Visit, noun: str, form: Format, chunks: AsyncGenerator[bytes, None]) -> Stream:
    """A file named after today, streamed from `chunks` and compressed if the browser accepts gzip.
    It breaks off between two chunks if the session has ended or the account's role has changed."""
    chunks = _held(visit, chunks)
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


async def _held(visit: Visit, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The chunks while the session is valid. Raises `AuthenticationRequired` after that."""
    caller, accounts = visit.request.caller, visit.site.accounts.environment
    its_parts, known = parts(caller), None
    async with aclosing(chunks):
        async for chunk in chunks:
            now, version = accounts.clock(), accounts.db.version(*its_parts)
            is_over = caller.expires_at is not None and now >= caller.expires_at
            if version != known or is_over:
                if not await accounts[LiveCredentials].holds(caller, now):
                    raise AuthenticationRequired(ENDED)
                known = version
            yield chunk
