"""What a form sent, and what was wrong with it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl

from portico.domain.errors import (
    BrokenRule,
    Fault,
    Invalid,
    PorticoError,
    Unreadable,
    UnsupportedMediaType,
)
from portico.domain.text import text_fault
from portico.http.messages import FORM

if TYPE_CHECKING:
    from portico.pages.multipart import SentFile

T = TypeVar("T")

BODY_LIMIT = 1 << 20
MAX_FIELDS = 250
"""So that a product fits with all the images and metadata that it may have."""

PASSWORDS = ("password", "current_password")
"""Fields that no page shows again."""

_LOOK = "Correct the fields marked below."


class Form:
    """One form. Values that break a rule become faults beside their fields.

    Handlers `read` every field, then `check`. Templates ask what to show: what was sent, so that
    nobody types it again, or else what is stored.
    """

    def __init__(
        self,
        sent: Mapping[str, Sequence[str]] | None = None,
        file: "SentFile | None" = None,
        typed: Collection[str] = (),
    ) -> None:
        """`sent` are the values of each field, None where nothing was; `file` is what comes after
        them; `typed` are the fields whose password was typed, and is not among what was sent."""
        self.file = file
        self._sent = sent
        self._typed = typed
        self._faults: dict[str, str] = {}
        self.refused = ""
        """Why the form was refused as a whole; empty where it was not."""
        self.said = ""
        """What there is to say of a form that was not refused."""

    def text(self, name: str) -> str:
        """The value of a field; empty where it is missing. Raises `Unreadable`."""
        values = (self._sent or {}).get(name, ("",))
        if len(values) != 1:
            raise Unreadable(f"The field {name} was sent more than once.")
        return values[0]

    def has(self, name: str) -> bool:
        """Whether a field was sent, empty or not."""
        return name in (self._sent or {})

    def pairs(self, *, but: Collection[str]) -> list[tuple[str, str]]:
        """Every field that was sent and its values, `but` for these."""
        sent = (self._sent or {}).items()
        return [(name, value) for name, values in sent if name not in but for value in values]

    def read(self, name: str, rule: Callable[[str], T]) -> T:
        """The value of a field as `rule` has it, which raises `BrokenRule`; a fault's value is not
        to be used, and `check` sees that it is not."""
        text = self.text(name)
        try:
            if not text:
                raise BrokenRule("must not be empty")  # noqa: TRY301 - as of any other rule
            return rule(text)
        except BrokenRule as fault:
            self._faults[name] = str(fault)
            return None  # type: ignore[return-value]

    def optional(self, name: str, rule: Callable[[str], T]) -> T | None:
        """As `read`; None where the field is empty."""
        return self.read(name, rule) if self.text(name) else None

    def several(self, name: str, allowed: Collection[str]) -> list[str]:
        """The values of a field that may stand several times. Raises `Unreadable` for others than
        the page offers."""
        values = list((self._sent or {}).get(name, ()))
        if not set(values) <= set(allowed):
            raise Unreadable(
                f"The field {name} has a value that the page does not offer. Load the page again."
            )
        return values

    def chosen(self, name: str, allowed: Collection[str]) -> list[str]:
        """As `several`; a fault where there is none."""
        values = self.several(name, allowed)
        if not values:
            self._faults[name] = "must have at least one"
        return values

    def check(self) -> None:
        """Raises `Invalid` if there was any fault."""
        if self._faults:
            raise Invalid(_LOOK, [Fault(name, text) for name, text in self._faults.items()])

    def refuse(self, error: PorticoError) -> None:
        """Keeps why the form was refused, for the page that shows it again."""
        said: dict[str, list[str]] = {}
        for fault in error.details:
            name, _, number = fault.field.partition(".")
            said.setdefault(name, []).append(self._which(name, number) + fault.message)
        self._faults = {name: "; ".join(faults) for name, faults in said.items()} | self._faults
        self.refused = _LOOK if self._faults else error.message

    def _which(self, name: str, number: str) -> str:
        """What comes before the fault of one of several values in a field, where it has a number,
        which nobody sees: the value."""
        if not number.isdigit():
            return ""
        return f"“{' '.join((self._sent or {})[name]).split()[int(number)][:100]}” "

    def say(self, text: str) -> "Form":
        """The same form, of which a page says this."""
        self.said = text
        return self

    def lost(self, name: str) -> bool:
        """Whether a password was typed that the page, which shows the form again, does not hold."""
        is_shown_again = bool(self.refused or self.said)
        return is_shown_again and name in PASSWORDS and bool(name in self._typed or self.text(name))

    def fault(self, name: str) -> str:
        """What is wrong with a field, as a sentence; empty where nothing is. A password is to be
        typed again where it is something else that the form has come back for."""
        text = self._faults.get(name, "")
        if not text and (self._faults or self.said) and self.lost(name):
            text = "Enter your password again."
        if "://" not in text.partition(" ")[0]:  # an address stays as it was typed
            text = text[:1].upper() + text[1:]
        return text if not text or text.endswith((".", "!", "?")) else f"{text}."

    @property
    def faults(self) -> Mapping[str, str]:
        """What is wrong with each field that something is wrong with."""
        return {name: self.fault(name) for name in self._faults}

    @property
    def first(self) -> str:
        """The first field with a fault, in the order of the form, those last of which nothing was
        sent; else the first password that is to be typed again."""
        faulty = [name for name in self._sent or {} if name in self._faults] + [*self._faults]
        return next(iter(faulty), next((name for name in self._sent or {} if self.lost(name)), ""))

    def shown(self, name: str, stored: Any) -> Any:
        """What a field shows."""
        return stored if self._sent is None else self._sent.get(name, ("",))[0]

    def has_lines(self, name: str, stored: str) -> bool:
        """Whether what a field shows is of several lines."""
        shown = self.shown(name, stored)
        return "\n" in shown or "\r" in shown

    def all_shown(self, name: str, stored: Collection[str]) -> Collection[str]:
        """What a field shows that may have several values."""
        return stored if self._sent is None else self._sent.get(name, ())


def read_form(content_type: str | None, body: bytes) -> Form:
    """The form of a request's body. Raises `UnsupportedMediaType` and `Unreadable`."""
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
        # Browsers send the lines of a field with CR LF, whatever it held.
        sent.setdefault(name, []).append(value.replace("\r\n", "\n"))
    return Form(sent)
