"""An incremental parser of Server-Sent Events (WHATWG HTML §9.2)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from portico_client.errors import UnexpectedAnswer

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""Characters that no header can carry. An id with one is ignored, as the standard says for NUL."""

LARGEST = 2**24
"""The largest message, in bytes. Events are far smaller."""


@dataclass(frozen=True, slots=True)
class Message:
    """The data of a message, and the id to resume after, or None. `data` is empty if the stream
    sent only an id."""

    data: str
    last_id: str | None


class Parser:
    """Parses the bytes of one response into messages; drops an incomplete one at the end."""

    def __init__(self) -> None:
        self._rest = bytearray()
        """How the line begins that is still to end."""
        self._after_return = False
        self._first = True
        self._data: list[str] = []
        self._size = 0
        """The total size of the data lines."""
        self._last_id: str | None = None

    def feed(self, part: bytes) -> Iterator[Message]:
        """The messages that end in this part, which must not be empty. Raises `UnexpectedAnswer` if
        one becomes too large."""
        if self._after_return:
            part = part.removeprefix(b"\n")
        self._after_return = part.endswith(b"\r")
        begun, *lines = _LINE_END.split(part)
        self._rest += begun  # which is looked through once, however small the parts are
        if lines:
            lines.insert(0, bytes(self._rest))
            self._rest = bytearray(lines.pop())
        for line in lines:
            if self._first:
                line = line.removeprefix(_BYTE_ORDER_MARK)
                self._first = False
            if line:
                self._field(line.decode("utf-8", "replace"))
            else:
                yield Message("\n".join(self._data), self._last_id)
                self._data, self._size = [], 0
        if self._size + len(self._rest) > LARGEST:
            raise UnexpectedAnswer("a message of the stream is larger than 16 MiB")

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
            self._size += len(line)
        elif name == "id" and not _UNSENDABLE.search(value):
            self._last_id = value.strip(" \t")
