"""What clients asked a server to write, what it acknowledged, and hence what may be there.

Every resource has a tag that stays, and a version that each change raises by one. All its fields
follow from the two, so a row that is written by half shows.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["product", "user"]
Row = tuple[Any, ...]
PASSWORD = "Correct horse 1"

COLUMNS: dict[Kind, str] = {
    "product": "id, name, description, category, price, currency, stock_quantity, status, metadata",
    "user": "id, name, email, role, theme, notifications",
}


def fields(kind: Kind, tag: str, version: int) -> dict[str, Any]:
    """The body that makes a resource this version of itself: of POST for 0, else of PATCH."""
    if kind == "product":
        return {
            "name": f"{tag} v{version}",
            "description": f"{tag}v{version} " + "word " * (version % 40),
            "category": f"{tag}v{version}",
            "price": version + 0.25,
            "stock_quantity": version,
            "status": "archived" if version % 2 else "active",
            "metadata": {"version": str(version)},
        }
    body = {"name": f"{tag} v{version}", "role": "editor" if version % 2 else "viewer"}
    if version == 0:
        return body | {"email": f"{tag}@example.com", "password": PASSWORD}
    return body | {"preferences": {"theme": "dark" if version % 2 else "light"}}


def row(kind: Kind, tag: str, version: int) -> Row:
    """What the database holds of this version, but for the id."""
    body = fields(kind, tag, version)
    if kind == "product":
        return (
            body["name"],
            body["description"],
            body["category"],
            version * 10_000 + 2_500,
            "USD",
            version,
            body["status"],
            f'{{"version":"{version}"}}',
        )
    theme = body["preferences"]["theme"] if version else "system"
    return (body["name"], f"{tag}@example.com", body["role"], theme, 1)


@dataclass
class Resource:
    """A product or user that its client alone writes. Version None is its absence."""

    kind: Kind
    tag: str
    id: int | None = None
    versions: set[int | None] = field(default_factory=lambda: {None})
    """Those that may be there now: more than one where an answer is outstanding."""

    @property
    def version(self) -> int | None:
        """The one version that may be there."""
        (version,) = self.versions
        return version

    def ask(self, version: int | None) -> None:
        """A request for this version is on its way."""
        self.versions.add(version)

    def acknowledge(self, version: int | None) -> None:
        """The request was answered with success."""
        self.versions = {version}


def settle(kind: Kind, resources: Iterable[Resource], rows: Iterable[Row]) -> dict[str, Resource]:
    """Sees that exactly what was acknowledged is there, and what was not either wholly is or not at
    all. Returns the resources that are there, by their tags, with what they are for certain."""
    expected = {resource.tag: resource for resource in resources}
    found: dict[str, Resource] = {}
    for identity, *values in rows:
        match = re.fullmatch(r"(\w+) v(\d+)", values[0])
        assert match is not None, f"nobody wrote {values}"
        tag, version = match[1], int(match[2])
        assert tag in expected, f"{kind} {tag} is there, and nobody asked for it"
        assert tag not in found, f"{kind} {tag} is there twice"
        resource = expected[tag]
        assert version in resource.versions, f"{tag} is {version}, not of {resource.versions}"
        assert tuple(values) == row(kind, tag, version), f"{kind} {tag} is written by half"
        assert resource.id in (None, identity), f"{kind} {tag} has another id"
        resource.id = identity
        resource.versions = {version}
        found[tag] = resource
    for tag in expected.keys() - found.keys():
        assert None in expected[tag].versions, f"{kind} {tag} was acknowledged and is lost"
    return found
