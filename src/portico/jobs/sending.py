"""The interface by which deliveries are sent."""

from collections.abc import Mapping
from typing import Protocol

from portico.outbound.sender import Outcome


class Sends(Protocol):
    """Sends deliveries."""

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> Outcome:
        """POSTs a body once. Raises only when it is cancelled."""
        ...
