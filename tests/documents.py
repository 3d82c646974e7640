"""Reads documents for tests: links, code, and tables between markers."""

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from textwrap import dedent
from typing import Any

ROOT = Path(__file__).parent.parent
SECRETS = (
    *("sk_live_", "sk_test_", "sk_read_"),
    *("oat_", "ort_", "oac_", "ocs_", "client_", "eyJ"),
)
"""The prefixes of secrets and client ids. Documents show an ellipsis after them."""

_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
"""A fence within a list is indented."""
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_SPAN = re.compile(r"`([^`\n]+)`")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_SECRET = re.compile(rf"^({'|'.join(SECRETS)})[\w.-]*(?:…\w*)?$")
_COUNTED = ("id", "sub", "iat", "auth_time", "exp")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced code block and its language, which may be empty."""

    language: str
    text: str


@dataclass(frozen=True)
class Document:
    """One Markdown file."""

    path: Path
    text: str = field(repr=False)

    @property
    def name(self) -> str:
        """Its path within the repository."""
        return str(self.path.relative_to(ROOT))

    @cached_property
    def blocks(self) -> list[Block]:
        """Its fenced blocks, in order."""
        return [Block(language, dedent(text)) for _, language, text in _FENCE.findall(self.text)]

    @cached_property
    def prose(self) -> str:
        """The text outside of fenced blocks."""
        return _FENCE.sub("", self.text)

    @property
    def spans(self) -> list[str]:
        """Its inline code."""
        return _SPAN.findall(self.prose)

    @property
    def links(self) -> list[str]:
        """The targets of its links, including other sites."""
        return _LINK.findall(self.prose)

    @property
    def anchors(self) -> set[str]:
        """The anchors of its headings, as GitHub makes them."""
        headings = (heading.lower() for heading in _HEADING.findall(self.prose))
        return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}

    def marked(self, name: str) -> str:
        """The text between the markers of this name."""
        start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        assert self.text.count(start) == self.text.count(end) == 1, f"{self.name}: {start}"
        return self.text.partition(start)[2].partition(end)[0]

    def rows(self, name: str) -> list[list[str]]:
        """The cells of the marked table, without its headings and without backticks."""
        lines = self.marked(name).splitlines()[2:]
        cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
        return [[cell.replace("`", "") for cell in row] for row in cells]


def settled(value: Any) -> Any:
    """A JSON value without what differs from run to run: ids, times, secrets."""
    if isinstance(value, dict):
        return {name: name if name in _COUNTED else settled(item) for name, item in value.items()}
    if isinstance(value, list):
        return [settled(item) for item in value]
    if isinstance(value, str):
        value = _TIME.sub("time", value)
        return _SECRET.sub(r"\1", value)
    return value


def document(name: str) -> Document:
    """The document at this path within the repository."""
    return Document(ROOT / name, (ROOT / name).read_text("utf-8"))


def every_document() -> list[Document]:
    """Every Markdown file of the repository's root and `docs`."""
    paths = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return [document(str(path.relative_to(ROOT))) for path in sorted(paths)]
