"""README's first start, as a stranger does it, and every call that README and docs/api.md show."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from documents import ROOT, Document, document, settled
from operating import SERVES, TIMEOUT_SECONDS, free_port, until

README = document("README.md")
API = document("docs/api.md")
MONITORING = document("docs/operations/monitoring.md")

pytestmark = pytest.mark.xdist_group("first start")

SETUP_SECONDS = 300
"""How long `script/server` may take, which installs what is not current."""


@dataclass(frozen=True)
class Start:
    """A server that README's first command has started, and how to talk about it."""

    directory: Path
    port: int
    environment: dict[str, str]

    @property
    def said(self) -> str:
        return (self.directory / "said").read_text()

    @property
    def key(self) -> str:
        found = re.search(r"live key +(\w+)", self.said)
        assert found is not None, self.said
        return found[1]

    def shell(self, script: str) -> str:
        """What a script prints that ends well, at home where the server began."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.directory,
            env={**self.environment, "HOME": str(self.directory)},
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_SECONDS * 5,  # there are many commands
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def pasted(self, text: str) -> str:
        """A document's commands, with the port and key that this start has."""
        return text.replace("localhost:8443", f"localhost:{self.port}").replace(
            "sk_live_…", self.key
        )


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """README's first command, in an empty directory whose name has a space."""
    first = README.blocks[0].text.split()[0]
    directory, port = tmp_path_factory.mktemp("first start"), free_port()
    kept = {name: value for name, value in os.environ.items() if "PORTICO" not in name}
    path = f"{ROOT / '.venv/bin'}:{os.environ['PATH']}"
    drain = {"PORTICO_DRAIN_SECONDS": "0"}  # no balancer asks
    environment = {**kept, **drain, "PORTICO_PORT": str(port), "PATH": path}
    started = Start(directory, port, environment)
    with (directory / "said").open("wb") as said, (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [ROOT / first], cwd=directory, env=environment, stdout=said, stderr=log
        )
    try:
        until(
            lambda: SERVES.search(started.said) or process.poll() is not None,
            "the start",
            SETUP_SECONDS,
        )
        assert process.poll() is None, (directory / "log").read_text()
        yield started
    finally:
        process.terminate()
        assert process.wait(60) == 0


def test_the_line_that_the_first_start_prints_works_when_pasted(start: Start) -> None:
    line = re.search(r"^  curl (?:.*\\\n)*.*$", start.said, re.MULTILINE)
    assert line is not None
    answer = json.loads(start.shell(line[0]))
    assert answer["data"]["email"] == "admin@example.com"
    assert answer["data"]["role"] == "admin"


def test_readme_shows_what_the_first_start_prints(start: Start) -> None:
    shown = next(block.text for block in README.blocks if "Portico is prepared" in block.text)
    parts = shown.replace("8443", str(start.port)).replace("'", "").split("…")
    pattern = "[^\\n]+".join(map(re.escape, parts))
    assert re.fullmatch(pattern, start.said.replace("'", "")), start.said


def calls(doc: Document) -> list[tuple[str, Any]]:
    """A document's blocks of shell, each with the JSON that is shown as its answer, if any."""
    blocks = [block for block in doc.blocks if "script/" not in block.text]
    shown = [*blocks[1:], None]
    return [
        (block.text, json.loads(after.text) if after and after.language == "json" else None)
        for block, after in zip(blocks, shown, strict=True)
        if block.language == "sh"
    ]


@pytest.fixture(scope="module")
def made(start: Start) -> list[tuple[str, Any, str]]:
    """Every call of README, then of docs/api.md: commands, the answer shown, the answer given."""
    found = [*calls(README), *calls(API)]
    mark = "\036"
    script = f"printf '{mark}'\n".join(start.pasted(text) for text, _ in found)
    given = start.shell(script).split(mark)
    return [(text, shown, got) for (text, shown), got in zip(found, given, strict=True)]


def test_every_call_in_the_documents_is_answered_as_they_show(
    made: list[tuple[str, Any, str]],
) -> None:
    compared = 0
    for text, shown, given in made:
        if shown is not None:
            assert settled(json.loads(given)) == settled(shown), text
            compared += 1
    assert compared >= 6


def fetched(start: Start, path: str) -> str:
    """What anyone gets at a path of the server."""
    trust = "--cacert portico-data/tls/ca.pem"
    return start.shell(f"curl --silent --fail {trust} https://localhost:{start.port}{path}")


@pytest.mark.usefixtures("made")
def test_every_metric_is_in_the_table_with_its_type_and_labels(start: Start) -> None:
    text = fetched(start, "/metrics")
    exported = {}
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE):
        sample = re.search(rf"^{name}(?:_count)?(?:{{(.*)}})? ", text, re.MULTILINE)
        assert sample is not None, name
        exported[name] = (kind, set(re.findall(r"(\w+)=", sample[1] or "")))
    documented = {
        name: (kind, set(filter(None, labels.split(", "))))
        for name, kind, labels, _ in MONITORING.rows("metrics")
    }
    assert documented == exported


@pytest.mark.usefixtures("made")
def test_every_field_of_a_request_in_the_log_is_in_the_table(start: Start) -> None:
    def requests() -> list[dict[str, Any]]:
        text = (start.directory / "log").read_text()
        lines = [line for line in text.splitlines(keepends=True) if line.startswith("{")]
        logged = [json.loads(line) for line in lines if line.endswith("\n")]
        return [line for line in logged if line["event"] == "request"]

    until(requests, "a line in the log")
    documented = {
        field for names, _ in MONITORING.rows("log fields") for field in names.split(", ")
    }
    assert all(documented == line.keys() for line in requests())
