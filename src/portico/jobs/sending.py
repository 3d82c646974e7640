"""What a delivery asks of whoever sends it."""

from collections.abc import Mapping
from typing import Protocol

from portico.outbound.sender import Outcome


class Sends(Protocol):
    """What sends deliveries."""

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> Outcome:
        """POSTs a body once; never raises but when it is cancelled."""
        ...
