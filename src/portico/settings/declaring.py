"""Declaring a setting: once, as a field of a group of settings.

Its key in portico.toml, its variable, its flag and its row in the documents are derived from that.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, get_args, get_origin

from portico.core.errors import BrokenRule


class SettingError(Exception):
    """A setting is unknown or has an impossible value. The message is one line for the operator,
    without passwords."""


Sources = Mapping[str, str]
"""The source of each given setting, by its name."""


class SettingGroup:
    """Related settings: a frozen dataclass whose fields are declared settings."""

    title: ClassVar[str]
    """The heading of its table in the documents."""

    def check(self, sources: Sources) -> None:
        """Checks the group's settings together. Raises `SettingError`."""


def named(name: str, sources: Sources) -> str:
    """A setting's name for a message, with the source of its value."""
    return f"{name} (from {sources[name]})" if name in sources else f"{name} (by default)"


def content(name: str, file: Path, sources: Sources) -> bytes:
    """The content of the file that a setting names. Raises `SettingError`."""
    try:
        if file.exists() and not file.is_file():  # reading a pipe may block for ever
            raise SettingError(f"{named(name, sources)} is not a regular file: {str(file)!r}")
        return file.read_bytes()
    except OSError as error:
        raise SettingError(
            f"{named(name, sources)} cannot be read: {error.strerror}: {str(file)!r}"
        ) from None


@dataclass(frozen=True, slots=True)
class Setting:
    """The declaration of one setting.

    `default` is text, as in a variable; None is unset. `kind` is the type that portico.toml may
    have beside text. The value of a `secret` is never shown.
    """

    name: str
    default: str | None
    parse: Callable[[str], object]
    description: str
    kind: type
    secret: bool

    @property
    def variable(self) -> str:
        """The environment variable, such as `PORTICO_DATABASE_URL`."""
        return f"PORTICO_{self.name.upper()}"

    @property
    def flag(self) -> str:
        """The command-line flag, such as `--database-url`."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def row(self) -> str:
        """The row of the table in the documents."""
        default = f" `{self.default}`" if self.default else ""
        return f"| `{self.name}` |{default} | {self.description} |"

    def read(self, value: object) -> object:
        """The parsed value, from text or from a value in portico.toml. Raises `BrokenRule`."""
        text = self._text(value)
        if not text.isprintable():
            raise BrokenRule("must not contain line ends or other control characters")
        # An empty variable is more often a missing secret than a request for the default.
        if not text.strip() and self.kind is not list:
            raise BrokenRule("must have a value, or be removed")
        return self.parse(text)

    def _text(self, value: object) -> str:
        if isinstance(value, str):
            return value
        if self.kind is bool and isinstance(value, bool):
            return "on" if value else "off"
        if self.kind is int and type(value) is int:
            return str(value)
        if self.kind is list and isinstance(value, list):
            return ",".join(map(str, value))
        kinds = {int: "a number", bool: "true or false", list: "a list of texts"}
        raise BrokenRule(f"must be {kinds.get(self.kind, 'text in quotes')}")


def declared(
    default: str | None,
    parse: Callable[[str], object],
    description: str,
    *,
    secret: bool = False,
) -> Callable[[str, Any], Setting]:
    """The metadata of a field: a function that makes its `Setting` from its name and type."""
    return lambda name, of: Setting(name, default, parse, description, _kind(of), secret)


def _kind(of: Any) -> type:
    """The type that portico.toml may have for a field of this type."""
    for kind in (bool, int):
        if kind in (of, *get_args(of)):
            return kind
    return list if get_origin(of) is tuple else str
