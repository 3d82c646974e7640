"""Cookie sessions: how long they hold (specification §5.4)."""

import msgspec

from portico.domain.proofs import Methods, Proof
from portico.domain.times import SECOND

IDLE_SECONDS = 1_800
MAX_SECONDS = 86_400
DEVICE_SECONDS = 365 * 86_400
"""How long an account knows a device, or an address, after the last sign-in from there."""
PENDING_SECONDS = 600
"""How long a sign-in waits for the second factor."""


class Session(msgspec.Struct, frozen=True):
    """What is kept of a session; times are epoch milliseconds, `expires_at` the absolute end.

    `amr` is how its owner signed in, `proved_at` when they last proved who they are; 0 where
    another provider's word alone has let them in.
    """

    id: int
    user_id: int
    address: str
    user_agent: str
    created_at: int
    last_seen_at: int
    expires_at: int
    amr: Methods
    proved_at: int

    @property
    def proof(self) -> Proof:
        """How and when they signed in."""
        return Proof(self.amr, self.created_at)


def idle_end(last_seen_at: int) -> int:
    """When a session ends that nobody uses any more."""
    return last_seen_at + IDLE_SECONDS * SECOND
