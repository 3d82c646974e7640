"""The claims of a verified JSON Web Token."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Claims:
    """Who a token is about, and when it expires.

    `subject` is the user's id as text. `name` and `role` are set in login tokens and None in
    others. `all` has every claim, unchanged.
    """

    subject: str
    expires_at: datetime
    name: str | None
    role: str | None
    all: Mapping[str, Any] = field(repr=False)

    @property
    def amr(self) -> tuple[str, ...]:
        """How the user signed in (RFC 8176), such as `pwd` and `otp`. Only in ID tokens."""
        return tuple(self.all.get("amr", ()))

    @property
    def acr(self) -> str | None:
        """`2` for two factors, `1` for one. Only in ID tokens, None in others."""
        return self.all.get("acr")

    @property
    def user_id(self) -> int:
        """The user's id."""
        return int(self.subject)
