"""What a delivery asks of whoever sends it."""

from collections.abc import Mapping
from typing import Protocol


class Outcome(Protocol):
    """What came of one attempt, as `outbound.sender` tells it."""

    @property
    def status(self) -> int | None: ...
    @property
    def error(self) -> str | None: ...
    @property
    def answer(self) -> str: ...
    @property
    def milliseconds(self) -> int: ...
    @property
    def retry_after(self) -> int | None: ...


class Sends(Protocol):
    """What sends deliveries."""

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> Outcome:
        """POSTs a body once; never raises but when it is cancelled."""
        ...
