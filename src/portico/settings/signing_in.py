"""Sign-up and sign-in, and how long logins and keys last."""

from dataclasses import dataclass
from typing import Annotated

from portico.domain.providers import Provider
from portico.domain.rules import OneOf
from portico.domain.words import ROLES
from portico.settings.declaring import Group, SettingError, Sources, declared, named
from portico.settings.values import domains, switch, whole


@dataclass(frozen=True, kw_only=True, repr=False)
class SigningIn(Group):
    """Who may sign up, what a sign-in needs, and how long logins, consents and keys last."""

    title = "Sign-in and keys"

    sign_up: Annotated[
        bool,
        declared(
            "off",
            switch,
            "`on`: anyone who verifies their e-mail gets an account on Free; needs `sign_up_role`",
            kind=bool,
        ),
    ]
    sign_up_role: Annotated[
        str | None,
        declared(
            None,
            OneOf(tuple(role for role in ROLES if role != "admin")),
            "role of those who sign up: `viewer`, who sees every user and every product, or"
            " `editor`, who also changes products",
        ),
    ]
    sign_up_domains: Annotated[
        tuple[str, ...],
        declared(
            "",
            domains,
            "domains whose e-mails may sign up; unset: all",
            kind=list,
        ),
    ]

    refresh_family_days: Annotated[
        int,
        declared(
            "90",
            whole(1, 3650),
            "days for which refresh tokens renew a login or a consent until the user must sign in"
            " again",
            kind=int,
        ),
    ]
    require_second_factor: Annotated[
        str,
        declared(
            "off",
            OneOf(("off", "admins", "all")),
            "`off`, `admins` or `all`: who must have a second factor, and set one up at the next"
            " sign-in",
        ),
    ]
    max_key_days: Annotated[
        int | None,
        declared(
            None,
            whole(1, 3650),
            "days after which every new API key expires at the latest",
            kind=int,
        ),
    ]
    providers: tuple[Provider, ...]

    def check(self, sources: Sources) -> None:
        """Checks that whoever lets strangers sign up has chosen what they see."""
        if self.sign_up and self.sign_up_role is None:
            raise SettingError(
                f"{named('sign_up', sources)} needs a role for those who sign up: set sign_up_role"
                " (PORTICO_SIGN_UP_ROLE), such as viewer, who sees every user and product"
            )
