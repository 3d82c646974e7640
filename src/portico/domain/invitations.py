"""Invitations: who may make themselves an account, and as what."""

import msgspec

from portico.domain.times import DAY, HOUR

HOLDS = 7 * DAY
"""How long an admin's invitation holds, in milliseconds."""

SIGN_UP_HOLDS = 24 * HOUR
"""How long the link of a sign-up holds."""

KEPT = 30 * DAY
"""How long an expired one is kept, so that it can be renewed."""


class Invitation(msgspec.Struct, frozen=True):
    """An invitation by an admin, or of somebody who has `signed_up` for themselves. Times are epoch
    milliseconds.

    `mailed` tells that its link went to the e-mail and nowhere else, so that whoever has it reads
    mail there.
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
