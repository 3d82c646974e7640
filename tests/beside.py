"""An installation with its running server, for tests of commands beside it."""

from dataclasses import dataclass
from pathlib import Path

from operating import Answer, Installation, Service


@dataclass(frozen=True)
class Running:
    """An installation and its server."""

    installation: Installation
    service: Service

    @property
    def test_key(self) -> str:
        """The first admin's sandbox key."""
        return str(self.installation.facts["keys"]["test"])

    def get(self, path: str, *, key: str | None = None) -> Answer:
        """GET of the live API, as the first admin unless `key` is given."""
        return self.service.ask(f"/v1{path}", key=key or self.installation.key)

    def get_sandbox(self, path: str, *, key: str | None = None) -> Answer:
        """GET of the sandbox's API, as the first admin's mirror unless `key` is given."""
        return self.service.ask(f"/sandbox/v1{path}", key=key or self.test_key)

    def total(self, query: str, *, sandbox: bool = False) -> int:
        """The total of a list of products, active ones unless the query says otherwise."""
        answer = (self.get_sandbox if sandbox else self.get)(f"/products?limit=1&{query}")
        return int(answer.json["pagination"]["total_items"])


def prepared(directory: Path, **variables: str) -> Installation:
    """A new installation, prepared by `portico init` with these settings."""
    # Tests send more requests as the first admin than a plan allows.
    (directory / "portico.toml").write_text(
        "[plans.enterprise]\nper_minute = 1000000\nper_day = 1000000\n"
    )
    return Installation(directory, variables).prepared()
