"""How long it holds that somebody signed in."""

from dataclasses import dataclass
from typing import Annotated

from portico.settings.declaring import Group, declared
from portico.settings.values import whole


@dataclass(frozen=True, kw_only=True, repr=False)
class SigningIn(Group):
    """Bounds of logins and consents."""

    refresh_family_days: Annotated[
        int,
        declared(
            "90",
            whole(1, 3650),
            "how long refresh tokens renew a login or a consent, before the user signs in again",
            kind=int,
        ),
    ]
