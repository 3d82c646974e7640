"""Invitations, by an admin or by signing up: who may create an account, and with which role."""

import msgspec

from portico.domain.times import DAY, HOUR

VALIDITY = 7 * DAY
"""How long an admin's invitation is valid, in milliseconds."""

SIGN_UP_VALIDITY = 24 * HOUR
"""How long the link of a sign-up is valid, in milliseconds."""

KEPT = 30 * DAY
"""How long an expired invitation is kept, so that it can be renewed, in milliseconds."""


class Invitation(msgspec.Struct, frozen=True):
    """An invitation by an admin, or a sign-up if `signed_up`. Times are epoch milliseconds.

    `mailed` says that the link was only sent to this e-mail, so that using it proves that the
    address is the user's. `inviter_id` is the admin, None for the operator and for sign-ups.
    """

    id: int
    email: str
    name: str
    role: str
    plan: str
    signed_up: bool
    mailed: bool
    created_at: int
    expires_at: int
    inviter_id: int | None = None
