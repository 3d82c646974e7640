"""A submitted form: its values and their faults."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl

import msgspec
from multipart import (
    MultipartError,
    MultipartSegment,
    PushMultipartParser,
    parse_options_header,
)

from portico.core.errors import (
    BrokenRule,
    Fault,
    Invalid,
    PorticoError,
    Unreadable,
    UnsupportedMediaType,
)
from portico.core.text import text_fault
from portico.web.conditions import entity_tag, require_match
from portico.web.messages import FORM

T = TypeVar("T")

BODY_LIMIT = 1 << 20
MAX_FIELDS = 250
"""Enough for a product with the most images and metadata that it may have."""

PASSWORDS = ("password", "current_password")
"""Fields whose values are never sent back to the browser."""

_LOOK = "Correct the fields marked below."


class Form:
    """One form. Values that break a rule become faults beside their fields.

    Handlers `read` every field, then call `check`. Templates show the submitted value, so that the
    user need not type it again, or else the stored one.
    """

    def __init__(
        self,
        sent: Mapping[str, Sequence[str]] | None = None,
        file: "SentFile | None" = None,
    ) -> None:
        """`sent` has the values of each field, None if no form was sent. `file` follows the
        fields."""
        self.file = file
        self._sent = sent
        self._faults: dict[str, str] = {}
        self.refused = ""
        """Why the form as a whole was refused; empty if it was not."""
        self.said = ""
        """A message about a form that was not refused."""

    def text(self, name: str) -> str:
        """The value of a field; empty if missing. Raises `Unreadable` if it was sent twice."""
        values = (self._sent or {}).get(name, ("",))
        if len(values) != 1:
            raise Unreadable(f"The field {name} was sent more than once.")
        return values[0]

    def has(self, name: str) -> bool:
        """Whether a field was sent, empty or not."""
        return name in (self._sent or {})

    def pairs(self, *, but: Collection[str]) -> list[tuple[str, str]]:
        """Every field that was sent and its value, except those in `but`."""
        sent = (self._sent or {}).items()
        return [(name, value) for name, values in sent if name not in but for value in values]

    def read(self, name: str, rule: Callable[[str], T]) -> T:
        """The value of a field, parsed by `rule`, which may raise `BrokenRule`. It is None for a
        faulty field, so it must not be used before `check` has passed."""
        text = self.text(name)
        try:
            if not text:
                raise BrokenRule("must not be empty")  # noqa: TRY301 - as of any other rule
            return rule(text)
        except BrokenRule as fault:
            self._faults[name] = str(fault)
            return None  # type: ignore[return-value]

    def optional(self, name: str, rule: Callable[[str], T]) -> T | None:
        """As `read`, but None if the field is empty."""
        return self.read(name, rule) if self.text(name) else None

    def several(self, name: str, allowed: Collection[str]) -> list[str]:
        """The values of a field that may be sent several times. Raises `Unreadable` for a value
        that the page does not offer."""
        values = list((self._sent or {}).get(name, ()))
        if not set(values) <= set(allowed):
            raise Unreadable(
                f"The field {name} has a value that the page does not offer. Load the page again."
            )
        return values

    def chosen(self, name: str, allowed: Collection[str]) -> list[str]:
        """As `several`, but none at all is a fault."""
        values = self.several(name, allowed)
        if not values:
            self._faults[name] = "must have at least one"
        return values

    def check(self) -> None:
        """Raises `Invalid` if any field is faulty."""
        if self._faults:
            raise Invalid(_LOOK, [Fault(name, text) for name, text in self._faults.items()])

    def refuse(self, error: PorticoError) -> None:
        """Store why the form was refused, for the page that shows it again."""
        said: dict[str, list[str]] = {}
        for fault in error.details:
            name, _, number = fault.field.partition(".")
            said.setdefault(name, []).append(self._which(name, number) + fault.message)
        self._faults = {name: "; ".join(faults) for name, faults in said.items()} | self._faults
        self.refused = _LOOK if self._faults else error.message

    def _which(self, name: str, number: str) -> str:
        """The prefix of a fault about one of several values in a field: that value, since users do
        not see its `number`. Empty if the fault has no number."""
        if not number.isdigit():
            return ""
        return f"“{' '.join((self._sent or {})[name]).split()[int(number)][:100]}” "

    def say(self, text: str) -> "Form":
        """Set the message of the form, and return the form."""
        self.said = text
        return self

    def lost(self, name: str) -> bool:
        """Whether this is a password that the user filled in and has to type again."""
        is_shown_again = bool(self.refused or self.said)
        return is_shown_again and name in PASSWORDS and bool(self.text(name))

    def fault(self, name: str) -> str:
        """What is wrong with a field, as a sentence; empty if nothing is. A password has to be
        typed again if the form is shown again for another reason."""
        text = self._faults.get(name, "")
        if not text and (self._faults or self.said) and self.lost(name):
            text = "Enter your password again."
        if "://" not in text.partition(" ")[0]:  # a URL keeps its case
            text = text[:1].upper() + text[1:]
        return text if not text or text.endswith((".", "!", "?")) else f"{text}."

    @property
    def faults(self) -> Mapping[str, str]:
        """What is wrong with each faulty field."""
        return {name: self.fault(name) for name in self._faults}

    @property
    def first(self) -> str:
        """The first faulty field in the order of the form; if only fields that were not sent are
        faulty, the first of those; else the first password that has to be typed again; else empty.
        """
        faulty = [name for name in self._sent or {} if name in self._faults] + [*self._faults]
        return next(iter(faulty), next((name for name in self._sent or {} if self.lost(name)), ""))

    def shown(self, name: str, stored: Any) -> Any:
        """The value that a field shows."""
        return stored if self._sent is None else self._sent.get(name, ("",))[0]

    def has_lines(self, name: str, stored: str) -> bool:
        """Whether the value that a field shows has several lines."""
        shown = self.shown(name, stored)
        return "\n" in shown or "\r" in shown

    def all_shown(self, name: str, stored: Collection[str]) -> Collection[str]:
        """The values that a field shows which may have several."""
        return stored if self._sent is None else self._sent.get(name, ())


def read_form(content_type: str | None, body: bytes) -> Form:
    """Parse a request's body as a form. Raises `UnsupportedMediaType` and `Unreadable`."""
    media, *_ = (content_type or "").split(";")
    if media.strip().lower() != FORM:
        raise UnsupportedMediaType(f"Send the form as {FORM}.")
    sent: dict[str, list[str]] = {}
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS
        )
    except ValueError:
        raise Unreadable(
            f"The form cannot be read: send UTF-8, and {MAX_FIELDS} fields at most."
        ) from None
    for name, value in pairs:
        if text_fault(name) or text_fault(value):
            raise Unreadable("The form holds a character that cannot be text.")
        # Browsers send line ends as CR LF, whatever they were.
        sent.setdefault(name, []).append(value.replace("\r\n", "\n"))
    return Form(sent)


CONTENT_TYPE = "multipart/form-data"
AROUND_BYTES = 65_536
"""The most bytes of a form beside its file, fields included."""

_MAX_PARTS = 20
_MAX_NAME = 200
_BROKEN = "The file was not received completely. Upload it again."


async def read_file_form(content_type: str | None, body: AsyncGenerator[bytes, None]) -> Form:
    """The fields before the file; `Form.file` streams the file itself, and then reads the fields
    behind it. Raises `UnsupportedMediaType`, or `Unreadable` for a malformed form."""
    media, options = parse_options_header(content_type or "")
    if media.lower() != CONTENT_TYPE or not options.get("boundary"):
        raise UnsupportedMediaType(f"Send the form as {CONTENT_TYPE}.")
    events = _events(options["boundary"], body)
    sent: dict[str, list[str]] = {}
    name = await _fields(events, sent)
    return Form(sent, None if name is None else SentFile(name, events, sent))


async def _fields(events: AsyncGenerator[Any, None], sent: dict[str, list[str]]) -> str | None:
    """Adds the next fields to `sent`, up to a file, whose name it returns, or to the form's end."""
    size = 0
    async for part in events:
        if not isinstance(part, MultipartSegment):
            continue
        if part.filename is not None:
            return str(part.filename)
        value = b""
        async for data in events:
            if data is None or isinstance(data, MultipartSegment):
                break
            value += data
            size += len(data)
            if size > AROUND_BYTES:
                raise Unreadable("The form is too large beside its file.")
        sent.setdefault(part.name, []).append(_text(value))
    return None


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
    """The file of a form."""

    def __init__(
        self, name: str, events: AsyncGenerator[Any, None], sent: dict[str, list[str]]
    ) -> None:
        """`name` is the file name that the sender gave; fields behind the file go to `sent`."""
        name = name.replace("\\", "/").rpartition("/")[2][-_MAX_NAME:]
        self.name = "" if text_fault(name) else name
        self._events = events
        self._sent = sent

    async def chunks(self) -> AsyncIterator[bytes]:
        """The file's bytes as they arrive. Raises `Unreadable` if the upload breaks off."""
        async for data in self._events:
            if data is None:
                await _fields(self._events, self._sent)
                return
            if not isinstance(data, MultipartSegment):
                yield bytes(data)
        raise Unreadable(_BROKEN)


VERSION = "version"
"""The form field with the version that a form started from, so that another user's changes are
shown and not overwritten: the entity tag of the values that the form shows, by their fields."""

Values = Mapping[str, str]


class Difference(NamedTuple):
    """A field that differs between two versions."""

    words: str
    theirs: str
    mine: str


def differences(theirs: Values, mine: Values) -> list[Difference]:
    """The fields whose stored value differs from the submitted one."""
    return [
        Difference(words, theirs[words], text)
        for words, text in mine.items()
        if text != theirs[words]
    ]


def beside(form: Form, stored: Values, mine: Values | None) -> dict[str, Any]:
    """The template variables about versions: the one that the form starts from and, if the form was
    refused (412) because others changed the resource, their values beside `mine`."""
    version = entity_tag(msgspec.json.encode(stored))
    return {
        "status": 412 if mine else 200,
        "version": version if mine else form.shown(VERSION, version),
        "meanwhile": bool(mine),
        "differences": differences(stored, mine or {}),
    }


def require_version(form: Form, stored: Values) -> None:
    """Raises `PreconditionFailed` unless the form started from what is stored."""
    require_match(form.text(VERSION), msgspec.json.encode(stored))


def outcome(form: Form, stored: Values, changed: str) -> str:
    """The notice for a form that was saved: `changed`, or that nothing was changed if `stored` is
    what it started from."""
    unchanged = form.text(VERSION) == entity_tag(msgspec.json.encode(stored))
    return "nothing-changed" if unchanged else changed
