"""What a busy machine adds to something brief, for tests of what is promised in seconds."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_LOOK_SECONDS = 0.05
"""Between two looks: how long a thread waits between the last one and its end is not seen."""


class Added:
    """For how long this process, and all that it has started, have waited for a processor."""

    def __init__(self) -> None:
        self._before = _waits()
        self._waits = self._before
        self._woken_late = 0.0
        self._looking = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    @property
    def seconds(self) -> float:
        """Until now, or the end."""
        self._look()
        before = self._before
        waited = sum(max(now - before.get(thread, 0), 0) for thread, now in self._waits.items())
        return waited / 1e9 + self._woken_late

    def end(self) -> None:
        """Watches no more."""
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        is_over = False
        while not is_over:
            asleep = time.monotonic()
            is_over = self._over.wait(_LOOK_SECONDS)
            # The machine may itself wait for its host, of which no thread is told.
            self._woken_late += max(time.monotonic() - asleep - 1.5 * _LOOK_SECONDS, 0.0)
            self._look()

    def _look(self) -> None:
        with self._looking:
            self._waits = self._waits | _waits()  # threads that have ended stay
            self._waits.pop(self._thread.native_id or 0, None)  # but not the one that looks


def _waits() -> dict[int, int]:
    """The nanoseconds that each of those threads has waited so far (proc(5))."""
    found: dict[int, int] = {}
    left = [os.getpid()]
    while left:
        with suppress(OSError):  # it has ended meanwhile
            for thread in Path(f"/proc/{left.pop()}/task").iterdir():
                with suppress(OSError):
                    found[int(thread.name)] = int((thread / "schedstat").read_text().split()[1])
                    left += map(int, (thread / "children").read_text().split())
    return found


def leave_time(patch: pytest.MonkeyPatch) -> None:
    """Has a store of limits, of which no test is that it is away, be silent for as long as whatever
    else there is to do takes: for a second, a busy machine is silent too."""
    for name in ("valkey.ANSWER", "valkey_client.ANSWER", "valkey_client.NODE"):
        patch.setattr(f"portico.state.{name}_SECONDS", 60.0)


def leave_versions_time(patch: pytest.MonkeyPatch) -> None:
    """The same for the versions of PostgreSQL's lists: what they stand on is kept only where they
    are told in time."""
    for name in ("postgres", "postgres_versions"):
        patch.setattr(f"portico.storage.{name}.VERSION_SECONDS", 60.0)


@contextmanager
def added() -> Iterator[Added]:
    """Tells what a busy machine adds to what happens meanwhile. Of what keeps the machine busy
    itself, see `operating.lateness`."""
    more = Added()
    try:
        yield more
    finally:
        more.end()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Sees that what is done inside takes no longer than so many seconds, and what a busy machine
    adds."""
    with added() as more:
        began = time.monotonic()
        yield
        took = time.monotonic() - began
        assert took < seconds + more.seconds
