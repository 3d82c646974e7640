"""`portico events listen`, as it runs."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import forking
from operating import PATIENCE_SECONDS, Installation, until


class Listening:
    """The command, as it runs."""

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
        """All that it printed."""
        return self._said.read_text()

    @property
    def mentioned(self) -> str:
        """What it said beside that."""
        return self._mentioned.read_text()

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The whole lines that it printed, as JSON."""
        lines = self.text.splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def heard(self, count: int) -> list[dict[str, Any]]:
        """So many objects, once they are there."""
        until(lambda: len(self.objects) >= count, f"{count} events; {self.mentioned}")
        return self.objects

    def interrupt(self) -> int:
        """Its exit code after Ctrl-C."""
        self._process.send_signal(signal.SIGINT)
        return self.wait()

    def wait(self) -> int:
        """Its exit code, once it ends."""
        return self._process.wait(PATIENCE_SECONDS)

    def end(self) -> None:
        """Kills it, unless it has ended."""
        self._process.kill()
        self._process.wait(PATIENCE_SECONDS)


@contextmanager
def listening(installation: Installation, *words: str, **variables: str) -> Iterator[Listening]:
    """The command, once it follows."""
    command = Listening(installation, *words, **variables)
    try:
        until(lambda: "Following" in command.text + command.mentioned, command.mentioned)
        yield command
    finally:
        command.end()
