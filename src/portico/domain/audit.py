"""Who does something, as the audit log keeps it."""

import msgspec


class Actor(msgspec.Struct, frozen=True):
    """Whoever changes something: an account through one of its credentials, or an operator.

    `credential` is the kind of credential ("api_key", "jwt", "oauth", "session"; "password" before
    there is one; "command" for the operator's command line; "none" for a stranger).
    """

    user_id: int | None = None
    email: str | None = None
    credential: str = "none"
    credential_id: int | None = None
    address: str | None = None
    request_id: str | None = None


OPERATOR = Actor(credential="command")
"""Whoever runs the command line."""


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
