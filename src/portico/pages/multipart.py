"""Forms with a file (RFC 7578): the fields first, then the file as a stream."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from multipart import (
    MultipartError,
    MultipartSegment,
    PushMultipartParser,
    parse_options_header,
)

from portico.domain.errors import Unreadable, UnsupportedMediaType
from portico.domain.text import text_fault
from portico.pages.forms import Form

CONTENT_TYPE = "multipart/form-data"
AROUND_BYTES = 65_536
"""The most bytes of a form beside its file, fields included."""

_MAX_PARTS = 20
_MAX_NAME = 200
_BROKEN = "The file was not received completely. Upload it again."


async def read_file_form(content_type: str | None, body: AsyncGenerator[bytes, None]) -> Form:
    """The fields before the file; `Form.file` streams the file itself. Raises
    `UnsupportedMediaType`, or `Unreadable` for a malformed form."""
    media, options = parse_options_header(content_type or "")
    if media.lower() != CONTENT_TYPE or not options.get("boundary"):
        raise UnsupportedMediaType(f"Send the form as {CONTENT_TYPE}.")
    events = _events(options["boundary"], body)
    sent: dict[str, list[str]] = {}
    size = 0
    async for part in events:
        if not isinstance(part, MultipartSegment):
            continue
        if part.filename is not None:
            return Form(sent, SentFile(part.filename, events))
        value = b""
        async for data in events:
            if data is None or isinstance(data, MultipartSegment):
                break
            value += data
            size += len(data)
            if size > AROUND_BYTES:
                raise Unreadable("The form is too large beside its file.")
        sent.setdefault(part.name, []).append(_text(value))
    return Form(sent)


def _text(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise Unreadable("The form cannot be read: send UTF-8.") from None
    if text_fault(text):
        raise Unreadable("The form holds a character that cannot be text.")
    return text


async def _events(boundary: str, body: AsyncGenerator[bytes, None]) -> AsyncGenerator[Any, None]:
    """The parts of a form: for each its head, its data in chunks, and None at its end."""
    try:
        with PushMultipartParser(boundary, max_segment_count=_MAX_PARTS) as parser:
            async for chunk in body:
                for event in parser.parse(chunk):
                    yield event
                if parser.closed:
                    return
    except (MultipartError, UnicodeError):
        raise Unreadable(_BROKEN) from None


class SentFile:
    """The file at the end of a form."""

    def __init__(self, name: str, events: AsyncGenerator[Any, None]) -> None:
        """`name` is the file name that the sender gave."""
        name = name.replace("\\", "/").rpartition("/")[2][-_MAX_NAME:]
        self.name = "" if text_fault(name) else name
        self._events = events

    async def chunks(self) -> AsyncIterator[bytes]:
        """The file's bytes as they arrive. Raises `Unreadable` if the upload breaks off."""
        async for data in self._events:
            if data is None:
                return
            if not isinstance(data, MultipartSegment):
                yield bytes(data)
        raise Unreadable(_BROKEN)
