"""Who does something, as the audit log keeps it, and on what it depends that they may."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from portico.domain.caller import Held, Principal
from portico.domain.idempotency import Answer, KeyedRequest

Tried = Literal["password", "passkey", "provider"]
"""What somebody signs in with, before there is a credential."""

Credential = Held | Tried | Literal["command", "system", "none"]
"""By what somebody does something; without any, the operator does by the command line, Portico
where it follows from something else, and a stranger."""


class Actor(msgspec.Struct, frozen=True):
    """Whoever changes something: an account through one of its credentials, or an operator."""

    user_id: int | None = None
    email: str | None = None
    credential: Credential = "none"
    credential_id: int | None = None
    address: str | None = None
    request_id: str | None = None


class By(msgspec.Struct, frozen=True):
    """On whose behalf a change is made.

    `principal` is the caller whose credential must still hold when the change is committed; None
    where there is none to end (the command line), or none yet (signing in). `request` is one that
    may come again, and `answer` makes what is kept for it of the change's result.
    """

    actor: Actor
    principal: Principal | None = None
    request: KeyedRequest | None = None
    answer: Callable[[Any], Answer] | None = None

    @property
    def address(self) -> str:
        """Where it comes from; empty where that is unknown."""
        return self.actor.address or ""

    def may(self, scope: str) -> bool:
        """Whether the caller has a scope; whoever needs no credential has all."""
        return self.principal is None or scope in self.principal.scopes

    @property
    def alone(self) -> "By":
        """The same, whatever becomes of the credential meanwhile: for what needs none."""
        return msgspec.structs.replace(self, principal=None)

    def named(self, **values: Any) -> "By":
        """The same, for whom the log has these values of `Actor`."""
        return msgspec.structs.replace(self, actor=msgspec.structs.replace(self.actor, **values))


OPERATOR = By(Actor(credential="command"))
"""Whoever runs the command line."""

SYSTEM = By(Actor(credential="system"))
"""Portico itself, where a change follows from another."""


class Entry(msgspec.Struct, frozen=True):
    """One line of the audit log. `details` is a JSON object without secrets."""

    id: int
    at: int
    action: str
    user_id: int | None
    email: str | None
    credential: str
    credential_id: int | None
    address: str | None
    target: str | None
    target_id: str | None
    details: str
    request_id: str | None
