"""Who makes a change: as the audit log records it (`Actor`), and on whose behalf (`Author`)."""

import hmac
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Literal

import msgspec

from portico.core.caller import Held, Principal
from portico.core.users import User

HEADER = "Idempotency-Key"
KEPT_SECONDS = 86_400
KEY_LENGTH = (1, 255)


class KeyedRequest(msgspec.Struct, frozen=True):
    """A request with an `Idempotency-Key`. It belongs to an account and a route.

    `key_hash` is the key's SHA-256. `body_hash` is the body's HMAC under the key, which itself is
    not stored: a body may contain a password, which a plain digest would let others guess.
    """

    user_id: int
    route: str
    key_hash: bytes
    body_hash: bytes


class Answer(msgspec.Struct, frozen=True):
    """The answer to a request, without secrets."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Kept(msgspec.Struct, frozen=True):
    """A stored answer; `body_hash` is that of the request."""

    body_hash: bytes
    answer: Answer


def is_key(text: str) -> bool:
    """Whether a text can be a key: 1 to 255 visible ASCII characters."""
    return KEY_LENGTH[0] <= len(text) <= KEY_LENGTH[1] and all("!" <= c <= "~" for c in text)


def keyed(user_id: int, route: str, key: str, body: bytes) -> KeyedRequest:
    """The request of an account for a route, with this key and body."""
    raw = key.encode()
    return KeyedRequest(user_id, route, sha256(raw).digest(), hmac.digest(raw, body, "sha256"))


Tried = Literal["password", "passkey", "provider"]
"""How someone tries to sign in, before there is a credential."""

Credential = Held | Tried | Literal["command", "system", "none"]
"""What an actor uses. Those without a credential are the operator at the command line (`command`),
Portico itself (`system`) and unknown clients (`none`)."""


class Actor(msgspec.Struct, frozen=True):
    """Who changes something: an account by one of its credentials, an operator, or Portico.

    `client_id` and `client_name` are those of the OAuth client that acts for the account, if any.
    """

    user_id: int | None = None
    email: str | None = None
    credential: Credential = "none"
    credential_id: int | None = None
    address: str | None = None
    request_id: str | None = None
    client_id: str | None = None
    client_name: str | None = None


class Author(msgspec.Struct, frozen=True):
    """On whose behalf a change is made.

    `principal` is the caller, whose credential must still be valid when the change is committed. It
    is None if there is no credential (the command line), or none yet (signing in). `request` is set
    for one with an `Idempotency-Key`; `answer` turns the change's result into the answer to store.
    """

    actor: Actor
    principal: Principal | None = None
    request: KeyedRequest | None = None
    answer: Callable[[Any], Answer] | None = None

    @property
    def address(self) -> str:
        """The client's address; empty if unknown."""
        return self.actor.address or ""

    def may(self, scope: str) -> bool:
        """Whether the caller has a scope. Without a principal, everything is allowed."""
        return self.principal is None or scope in self.principal.scopes

    @property
    def without_principal(self) -> "Author":
        """The same without the principal: for changes that do not depend on the credential."""
        return msgspec.structs.replace(self, principal=None)

    def proving(self, how: Tried | Literal["none"], user: User | None = None) -> "Author":
        """The same for a user who signs in by `how`, or opens a link (`none`). Names `user`, or no
        account if they have not proved who they are, and never one that is signed in in the same
        browser."""
        who = {"user_id": user and user.id, "email": user and user.email}
        return self.without_principal.named(credential=how, credential_id=None, **who)

    def named(self, **values: Any) -> "Author":
        """The same with these values of `Actor` in the audit log. Another credential is no
        client's."""
        if "credential" in values:
            values |= {"client_id": None, "client_name": None}
        return msgspec.structs.replace(self, actor=msgspec.structs.replace(self.actor, **values))


OPERATOR = Author(Actor(credential="command"))
"""The operator at the command line."""

SYSTEM = Author(Actor(credential="system"))
"""Portico itself, for a change that follows from another."""


class Entry(msgspec.Struct, frozen=True):
    """One line of the audit log. `details` is a JSON object without secrets."""

    id: int
    at: int
    action: str
    user_id: int | None
    email: str | None
    credential: str
    credential_id: int | None
    client_id: str | None
    client_name: str | None
    address: str | None
    target: str | None
    target_id: str | None
    details: str
    request_id: str | None
