"""Sign-up and sign-in, and how long logins and keys last."""

from dataclasses import dataclass
from typing import Annotated

from portico.domain.providers import Provider
from portico.domain.rules import OneOf
from portico.settings.declaring import Group, declared
from portico.settings.values import domains, switch, whole


@dataclass(frozen=True, kw_only=True, repr=False)
class SigningIn(Group):
    """Who may sign up, what a sign-in needs, and how long logins, consents and keys last."""

    sign_up: Annotated[
        bool,
        declared(
            "off",
            switch,
            "`on`: whoever shows that an e-mail is theirs gets an account, as a viewer on Free",
            kind=bool,
        ),
    ]
    sign_up_domains: Annotated[
        tuple[str, ...],
        declared(
            "",
            domains,
            "domains, comma-separated, whose e-mails may sign up; unset: all",
            kind=list,
        ),
    ]

    refresh_family_days: Annotated[
        int,
        declared(
            "90",
            whole(1, 3650),
            "how long refresh tokens renew a login or a consent, before the user signs in again",
            kind=int,
        ),
    ]
    require_second_factor: Annotated[
        str,
        declared(
            "off",
            OneOf(("off", "admins", "all")),
            "who must have a second factor, and sets one up at the next sign-in",
        ),
    ]
    max_key_days: Annotated[
        int | None,
        declared(
            None,
            whole(1, 3650),
            "days after which every new API key ends at the latest",
            kind=int,
        ),
    ]
    providers: tuple[Provider, ...]
