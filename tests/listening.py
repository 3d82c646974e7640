"""Runs `portico events listen` for tests."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import forking
from operating import TIMEOUT_SECONDS, Installation, until


class Listening:
    """The running command."""

    def __init__(self, installation: Installation, *words: str, **variables: str) -> None:
        place = installation.directory / f"listening-{len(list(installation.directory.iterdir()))}"
        place.mkdir()
        self._said, self._mentioned = place / "said", place / "mentioned"
        environment = installation.environment | variables
        arguments = ["events", "listen", *words]
        with self._said.open("wb") as said, self._mentioned.open("wb") as mentioned:
            self._process = forking.Forked(
                arguments, installation.directory, environment, said, mentioned
            )

    @property
    def text(self) -> str:
        """Its standard output so far."""
        return self._said.read_text()

    @property
    def mentioned(self) -> str:
        """Its standard error so far."""
        return self._mentioned.read_text()

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The complete lines of its standard output, as JSON."""
        lines = self.text.splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def heard(self, count: int) -> list[dict[str, Any]]:
        """Waits for so many objects, and returns all of them."""
        until(lambda: len(self.objects) >= count, f"{count} events; {self.mentioned}")
        return self.objects

    def interrupt(self) -> int:
        """Sends SIGINT as Ctrl-C does, and returns the exit code."""
        self._process.send_signal(signal.SIGINT)
        return self.wait()

    def wait(self) -> int:
        """Waits for its end, and returns the exit code."""
        return self._process.wait(TIMEOUT_SECONDS)

    def end(self) -> None:
        """Kills it if it still runs."""
        self._process.kill()
        self._process.wait(TIMEOUT_SECONDS)


@contextmanager
def listening(installation: Installation, *words: str, **variables: str) -> Iterator[Listening]:
    """Runs the command, and yields it once it follows events."""
    command = Listening(installation, *words, **variables)
    try:
        until(lambda: "Following" in command.text + command.mentioned, command.mentioned)
        yield command
    finally:
        command.end()
