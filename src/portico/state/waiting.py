"""A timeout that does not run while the process itself stands still."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

STEPS = 10
"""The number of steps in which a timeout is counted."""


@asynccontextmanager
async def in_time(seconds: float) -> AsyncIterator[None]:
    """Raises `TimeoutError` if the block takes longer than this many seconds.

    A process that is paused, or gets no processor, has not seen an answer that has arrived
    meanwhile. So any such pause counts as at most one step.
    """
    loop = asyncio.get_running_loop()
    step: asyncio.TimerHandle

    def wait(steps: int) -> None:
        nonlocal step
        if steps:
            step = loop.call_later(seconds / STEPS, wait, steps - 1)
        else:
            limit.reschedule(loop.time())

    async with asyncio.timeout(None) as limit:
        wait(STEPS)
        try:
            yield
        finally:
            step.cancel()
