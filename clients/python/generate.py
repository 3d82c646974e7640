# ruff: noqa: INP001 - a script, run by its path
"""Makes the parts of the library that follow from something else: its synchronous face from the
asynchronous one, and the types of what is sent and returned from the server's OpenAPI document.

python generate.py          # where `portico` is installed too, which is asked for the document
"""

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = HERE / "src" / "portico_client"
NOTICE = "# Generated from {source} by generate.py; run that instead of editing this.\n"

FACES = ("client", "apps", "verifiers")
"""The modules with the synchronous face; the asynchronous one is in `async_client` and so on."""

SYNCHRONOUS = {
    r"\basync (?=def|for|with)": "",
    r"\bawait ": "",
    r"\bAsync(?=[A-Z])": "",
    r"\b__a(?=enter|exit|iter|next)": "__",
    # What differs for users:
    "The asynchronous client": "The synchronous client",
    r"Tasks of one event loop may share a client;.*?of its own\.": (
        "Threads may share a client, but processes\n    may not: create it after a fork."
    ),
    ", for asyncio. Tasks may share it": ". Threads may share it",
    ", for asyncio": "",
}
"""What becomes what in the synchronous face, in this order."""


def faces() -> dict[Path, str]:
    """The modules of the synchronous face."""
    made = {}
    for name in FACES:
        source = SOURCES / f"async_{name}.py"
        text = source.read_text("utf-8")
        for asynchronous, synchronous in SYNCHRONOUS.items():
            text = re.sub(asynchronous, synchronous, text, flags=re.DOTALL)
        made[SOURCES / f"{name}.py"] = _formatted(NOTICE.format(source=source.name) + text)
    return made


def _formatted(text: str) -> str:
    """A module as the linter wants it."""
    rules = ["--select", "F401,I,UP028", "--fix", "--unsafe-fixes", "--silent"]
    for command in (["check", *rules], ["format"]):
        ruff = [
            sys.executable,
            "-m",
            "ruff",
            *command,
            "--stdin-filename",
            f"{SOURCES}/any.py",
            "-",
        ]
        done = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True)  # noqa: S603 - the linter of this project
        text = done.stdout
    return text


if __name__ == "__main__":
    for path, text in faces().items():
        path.write_text(text, "utf-8")
