"""All settings: every group in one class."""

from dataclasses import dataclass
from pathlib import Path
from typing import get_type_hints

from portico.files import resolved
from portico.settings.addresses import PublicAddresses
from portico.settings.declaring import Group, Setting, SettingError, Sources, named
from portico.settings.events import Events
from portico.settings.limits import Limits
from portico.settings.listening import Listening
from portico.settings.mail import Mail
from portico.settings.observability import Observability
from portico.settings.signing_in import SigningIn
from portico.settings.stores import Stores
from portico.settings.values import redacted


@dataclass(frozen=True, kw_only=True, repr=False)
class Settings(Stores, Listening, PublicAddresses, Mail, SigningIn, Events, Limits, Observability):
    """Every setting, parsed and checked. Paths are absolute.

    Code that needs a single group takes that group.
    """

    secrets_file: Path | None = None
    """The path of portico.toml if it contains a secret."""

    def check(self, sources: Sources) -> None:
        """Checks each group, and then all together."""
        for group in GROUPS:
            group.check(self, sources)
        if self.workers > 1 and self.valkey_url is None:
            raise SettingError(
                f"{named('workers', sources)} above 1 needs Valkey or Redis for common rate"
                " counters: set valkey_url (PORTICO_VALKEY_URL)"
            )

    @property
    def local_authority(self) -> Path | None:
        """The local authority's certificate, which clients must trust; None if it is not used."""
        local = self.tls and self.tls_cert is None
        return resolved(self.data / "tls" / "ca.pem") if local else None

    def __repr__(self) -> str:
        values = (
            (setting.name, getattr(self, setting.name), setting.secret) for setting in SETTINGS
        )
        shown = (f"{name}={_hidden(v) if secret and v else v!r}" for name, v, secret in values)
        tables = f"plans={self.plans!r}, providers={self.providers!r}"
        return f"Settings({', '.join(shown)}, {tables})"


def _hidden(value: str) -> str:
    """A secret as it may be shown: a URL without its password, else nothing."""
    return redacted(value) if "://" in value else "***"


GROUPS: tuple[type[Group], ...] = Settings.__bases__


def _settings_of(group: type[Group]) -> tuple[Setting, ...]:
    return tuple(
        hint.__metadata__[0](name)
        for name, hint in get_type_hints(group, include_extras=True).items()
        if hasattr(hint, "__metadata__")
    )


SETTINGS: tuple[Setting, ...] = tuple(one for group in GROUPS for one in _settings_of(group))


def markdown_tables() -> str:
    """The settings as Markdown for the documents: for each group a heading and a table, with one
    row for each setting."""
    head = ("| Key | Default | Meaning |", "|---|---|---|")
    return "\n".join(
        "\n".join((f"## {group.title}\n", *head, *(one.row for one in _settings_of(group)), ""))
        for group in GROUPS
    )
