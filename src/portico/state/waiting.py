"""How long a store of limits is waited for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

STEPS = 10
"""In so many a wait is counted."""


@asynccontextmanager
async def in_time(seconds: float) -> AsyncIterator[None]:
    """Raises `TimeoutError` where what is done inside takes longer than so many seconds. A process
    that stands still meanwhile, as on a machine without a processor for it or that is itself
    paused, has not heard what was answered: of that, however long, a step is counted."""
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
