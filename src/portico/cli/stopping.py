"""What the process is told by signals: to leave, and to stop."""

import asyncio
import signal


class Told:
    """SIGTERM has the process leave: it serves until balancers know. SIGINT, whose sender waits for
    it, and a second SIGTERM have it stop without that."""

    def __init__(self) -> None:
        """Hears of signals from now on."""
        self.leave = asyncio.Event()
        """Set once the process is to stop, now or soon."""
        self.stop = asyncio.Event()
        """Set once it is to stop now."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.terminate)
        loop.add_signal_handler(signal.SIGINT, self.interrupt)

    def terminate(self) -> None:
        """As SIGTERM."""
        if self.leave.is_set():
            self.stop.set()
        self.leave.set()

    def interrupt(self) -> None:
        """As SIGINT."""
        self.leave.set()
        self.stop.set()
