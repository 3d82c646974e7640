"""Outgoing mail."""

from dataclasses import dataclass
from typing import Annotated

from portico.domain.users import email
from portico.settings.declaring import Group, SettingError, Sources, declared, named
from portico.settings.values import mail_server


@dataclass(frozen=True, kw_only=True, repr=False)
class Mail(Group):
    """The mail server and the sender."""

    title = "Mail"

    smtp_url: Annotated[
        str | None,
        declared(
            None,
            mail_server,
            "`smtp://user:password@host:587`, upgraded to TLS except on a loopback host, or"
            " `smtps://`; unset: mails become files in `log` in `data`",
            secret=True,
        ),
    ]
    mail_from: Annotated[
        str | None, declared(None, email, "sender's address of mails; `smtp_url` needs it")
    ]

    def check(self, sources: Sources) -> None:
        """Checks that a mail server comes with a sender."""
        if self.smtp_url is not None and self.mail_from is None:
            raise SettingError(
                f"{named('smtp_url', sources)} needs a sender's address: set mail_from"
                " (PORTICO_MAIL_FROM)"
            )
