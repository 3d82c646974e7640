"""How a setting is declared: once, as a field of a group of settings.

Its key in portico.toml, its variable, its flag and its row in the documents all follow from that.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from portico.domain.errors import BrokenRule


class SettingError(Exception):
    """A setting is unknown or impossible: one line for the operator, which holds no password."""


Sources = Mapping[str, str]
"""Where each setting that was given came from, by its name."""


class Group:
    """Settings of one matter: a frozen dataclass whose fields are declared settings."""

    def check(self, sources: Sources) -> None:
        """What the group's settings must obey together; raises `SettingError`."""


def named(name: str, sources: Sources) -> str:
    """A setting as a message names it: with where its value came from."""
    return f"{name} (from {sources[name]})" if name in sources else f"{name} (by default)"


def content(name: str, file: Path, sources: Sources) -> bytes:
    """What the file holds that a setting names. Raises `SettingError`."""
    try:
        if file.exists() and not file.is_file():  # a pipe may keep its reader waiting for ever
            raise SettingError(f"{named(name, sources)} is no regular file: {str(file)!r}")
        return file.read_bytes()
    except OSError as error:
        raise SettingError(
            f"{named(name, sources)} cannot be read: {error.strerror}: {str(file)!r}"
        ) from None


@dataclass(frozen=True, slots=True)
class Setting:
    """What may be set, and how.

    `default` is text, as a variable would hold it; None is unset. `kind` is what portico.toml may
    hold beside text. The value of a `secret` is never shown.
    """

    name: str
    default: str | None
    parse: Callable[[str], object]
    description: str
    kind: type
    secret: bool

    @property
    def variable(self) -> str:
        """The environment variable, `PORTICO_DATABASE_URL`."""
        return f"PORTICO_{self.name.upper()}"

    @property
    def flag(self) -> str:
        """The flag of the command line, `--database-url`."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def row(self) -> str:
        """The row of the table in the documents."""
        default = f"`{self.default}`" if self.default else "unset"
        return f"| `{self.name}` | `{self.variable}` | {default} | {self.description} |"

    def read(self, value: object) -> object:
        """The value in its own type, from text or from what portico.toml holds."""
        text = self._text(value)
        if not text.isprintable():
            raise BrokenRule("must not contain line ends or other control characters")
        # An empty variable is more often a lost secret than a wish for the default.
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
    kind: type = str,
    secret: bool = False,
) -> Callable[[str], Setting]:
    """Makes a setting when its field's name is known: the metadata of that field."""
    return lambda name: Setting(name, default, parse, description, kind, secret)
