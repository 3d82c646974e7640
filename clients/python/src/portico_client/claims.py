"""What a verified JSON Web Token says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Claims:
    """Who a token is about, and until when it holds.

    `subject` is the user's id as a text. `name` and `role` are those of a login token, and None in
    others. `all` has every claim as it came.
    """

    subject: str
    expires_at: datetime
    name: str | None
    role: str | None
    all: Mapping[str, Any] = field(repr=False)

    @property
    def amr(self) -> tuple[str, ...]:
        """By what the user signed in (RFC 8176), such as `pwd` and `otp`: of an ID token."""
        return tuple(self.all.get("amr", ()))

    @property
    def acr(self) -> str | None:
        """`2` for two factors, `1` for one: of an ID token, None in others."""
        return self.all.get("acr")

    @property
    def user_id(self) -> int:
        """The user's id."""
        return int(self.subject)
