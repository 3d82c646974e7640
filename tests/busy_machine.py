"""Measures delays caused by a busy machine, for tests of time limits of some seconds."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_LOOK_SECONDS = 0.05
"""Seconds between two looks. What a thread waits between the last look and its end is missed."""


class Added:
    """How long this process and its children have waited for a processor."""

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
        """The seconds until now, or until `end`."""
        self._look()
        before = self._before
        waited = sum(max(now - before.get(thread, 0), 0) for thread, now in self._waits.items())
        return waited / 1e9 + self._woken_late

    def end(self) -> None:
        """Stops watching."""
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        is_over = False
        while not is_over:
            asleep = time.monotonic()
            is_over = self._over.wait(_LOOK_SECONDS)
            # A virtual machine may wait for its host, which no thread's statistics show.
            self._woken_late += max(time.monotonic() - asleep - 1.5 * _LOOK_SECONDS, 0.0)
            self._look()

    def _look(self) -> None:
        with self._looking:
            self._waits = self._waits | _waits()  # keeps threads that have ended
            self._waits.pop(self._thread.native_id or 0, None)  # drops the watching thread itself


def _waits() -> dict[int, int]:
    """The nanoseconds that each thread of this process and its children has waited (proc(5))."""
    found: dict[int, int] = {}
    left = [os.getpid()]
    while left:
        with suppress(OSError):  # the process has ended meanwhile
            for thread in Path(f"/proc/{left.pop()}/task").iterdir():
                with suppress(OSError):
                    found[int(thread.name)] = int((thread / "schedstat").read_text().split()[1])
                    left += map(int, (thread / "children").read_text().split())
    return found


def leave_time(patch: pytest.MonkeyPatch) -> None:
    """Raises the timeouts of the store of limits, for tests that do not need it to be away: a busy
    machine may be silent for a second too."""
    for name in ("valkey.ANSWER", "valkey_client.ANSWER", "valkey_client.NODE"):
        patch.setattr(f"portico.limits.{name}_SECONDS", 60.0)


def leave_versions_time(patch: pytest.MonkeyPatch) -> None:
    """The same for the versions of lists on PostgreSQL: an answer is kept only if its version is
    read in time."""
    for name in ("engine", "batches"):
        patch.setattr(f"portico.data.postgres.{name}.VERSION_SECONDS", 60.0)


@contextmanager
def added() -> Iterator[Added]:
    """Measures what a busy machine adds to the block. If the block itself keeps the machine busy,
    use `operating.lateness`."""
    more = Added()
    try:
        yield more
    finally:
        more.end()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Asserts that the block takes less than so many seconds, plus what a busy machine adds."""
    with added() as more:
        began = time.monotonic()
        yield
        took = time.monotonic() - began
        assert took < seconds + more.seconds
