"""How long credentials hold."""

from dataclasses import dataclass
from typing import Annotated

from portico.settings.declaring import Group, declared
from portico.settings.values import one_of, whole


@dataclass(frozen=True, kw_only=True, repr=False)
class SigningIn(Group):
    """Bounds of logins, consents and keys, and what they need."""

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
            one_of("off", "admins", "all"),
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
