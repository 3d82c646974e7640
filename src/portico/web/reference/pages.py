"""The reference of an OpenAPI document: a first page with its guide and the list of operations, a
page for each operation, and one for the webhooks of each tag."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from markupsafe import Markup

from portico.web.pages.html import template
from portico.web.reference.markdown import sections
from portico.web.reference.operations import (
    Operation,
    credentials,
    operations,
    see_also,
    servers,
    webhooks,
)

Json = Mapping[str, Any]


class IndexEntry(NamedTuple):
    """A link to a page; `name` is the end of its address. `path` is empty for webhooks."""

    name: str
    method: str
    title: str
    path: str


class OperationGroup(NamedTuple):
    """A tag with what it has; `id` is its anchor on the first page."""

    id: str
    title: str
    description: str
    entries: list[IndexEntry]


class Edition(NamedTuple):
    """The same reference elsewhere, by its name; its pages are at `{address}/docs`."""

    name: str
    address: str


class Sandbox(NamedTuple):
    """A server to which pages may send requests: its address, and that of its own reference. `key`
    is what readers call a credential of it, `hint` says where they get one, as Markdown."""

    address: str
    docs: str
    key: str
    hint: str


class PagePlace(NamedTuple):
    """Where a reference is, and what is around it."""

    address: str
    """The pages are at `{address}/docs`. Relative servers of the document are below it."""
    curl: str = "curl"
    """The command that calls curl."""
    note: Markup = Markup()
    """What readers must know before they call it."""
    home: str = ""
    """The dashboard's address; empty if there is none."""
    editions: Sequence[Edition] = ()
    """The reference in all environments, this one included; all but the first are marked."""
    sandbox: Sandbox | None = None
    """Where operations can be tried."""
    others: Sequence[Edition] = ()
    """The references of other documents, this one's included."""


class Reference:
    """The pages of one OpenAPI document."""

    def __init__(self, document: Json, place: PagePlace) -> None:
        self._document = document
        self._place = place
        names = _Names()
        self._introduction, guide = sections(document["info"].get("description", ""))
        self._guide = [(names.free(_anchor(title)), title, text) for title, text in guide]
        self._conventions = names.free("credentials")
        self._tags = {one["name"]: one for one in document.get("tags", ())}
        self._operations: dict[str, Operation] = {}
        self._webhooks: dict[str, list[Operation]] = {}
        self._groups = [*self._grouped(names)]
        self._all = [(group, entry) for group in self._groups for entry in group.entries]
        answers = [answer for one in self._operations.values() for answer in one.answers]
        errors = [set(answer.headers) for answer in answers if not answer.succeeded]
        self._always = set.intersection(*errors) if errors else set()
        own = (one.name for one in place.editions[1:] if one.address == place.address)
        self._marked = next(own, "")
        self._credentials = credentials(document)
        self._contents = [(anchor, title) for anchor, title, _ in self._guide]
        if self._credentials or self._always:
            self._contents.append((self._conventions, "Credentials and headers"))

    def index(self) -> str:
        """The first page: the guide, and a line for each operation."""
        return self._page(
            "docs.html",
            None,
            up="",
            introduction=self._introduction,
            see_also=see_also(self._document),
            servers=servers(self._document, self._place.address),
            credentials=self._credentials,
            always=sorted(self._always),
        )

    def page(self, name: str) -> str:
        """The page of an operation, or that of a tag's webhooks."""
        at = next(at for at, (_, entry) in enumerate(self._all) if entry.name == name)
        before, entry, after = [None, *(entry for _, entry in self._all), None][at : at + 3]
        shown: dict[str, object] = {"up": "../", "before": before, "after": after}
        shown |= {"group": self._all[at][0], "always": self._always}
        if name in self._webhooks:
            return self._page("docs_webhooks.html", entry, **shown, **self._delivery(name))
        operation, sandbox = self._operations[name], self._place.sandbox
        is_here = sandbox is not None and _origin(sandbox.address) == _origin(self._place.address)
        shown |= {"operation": operation, "sandbox": sandbox, "is_here": is_here}
        return self._page("docs_operation.html", entry, **shown)

    @property
    def names(self) -> list[str]:
        """The names of all pages but the first."""
        return [entry.name for _, entry in self._all]

    def nowhere(self) -> str:
        """The page for an unknown address below the reference."""
        up = f"{urlsplit(self._place.address).path}/"
        return self._page("docs_nowhere.html", None, up=up)

    def _page(self, name: str, entry: IndexEntry | None, **values: object) -> str:
        return template(name).render(
            document=self._document,
            place=self._place,
            groups=self._groups,
            guide=self._guide,
            contents=self._contents,
            conventions=self._conventions,
            entry=entry,
            marked=self._marked,
            **values,
        )

    def _grouped(self, names: "_Names") -> Iterator[OperationGroup]:
        """The operations and webhooks by their tags, in the document's order."""
        called = list(operations(self._document, self._place.address, self._place.curl))
        sent = list(webhooks(self._document))
        tags = dict.fromkeys([*self._tags, *(one.tag for one in [*called, *sent])])
        ids = {tag: names.free(tag or "operations") for tag in tags}
        for tag in tags:
            entries = []
            for one in called:
                if one.tag == tag:
                    name = names.free(one.id or f"{one.method.lower()}{one.path}")
                    self._operations[name] = one
                    title = one.summary or one.id or f"{one.method} {one.path}"
                    entries.append(IndexEntry(name, one.method, title, one.path))
            about = self._tags.get(tag, {})
            title = about.get("x-displayName") or tag or "Operations"
            of_tag = [one for one in sent if one.tag == tag]
            if of_tag:
                name = names.free(f"{ids[tag]}-webhooks") if entries else ids[tag]
                self._webhooks[name] = of_tag
                more = "Webhooks" if entries or not tag else title
                entries.append(IndexEntry(name, of_tag[0].method, more, ""))
            if entries:
                yield OperationGroup(ids[tag], title, about.get("description", ""), entries)

    def _delivery(self, name: str) -> dict[str, object]:
        """What the webhooks of a page have in common, and each of them."""
        made = self._webhooks[name]
        headers = {field.name: field for one in made for field in one.parameters.get("header", ())}
        first, *bodies = [one.body.fields if one.body else [] for one in made]
        shared = [field for field in first if all(field in body for body in bodies)]
        answers = {answer.status: answer for one in made for answer in one.answers}
        return {
            "webhooks": made,
            "headers": [*headers.values()],
            "fields": shared,
            "answers": [*answers.values()],
        }


class _Names:
    """Gives each anchor and page a name of its own."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def free(self, wanted: str) -> str:
        """A name like the one that is wanted, for addresses."""
        start = re.sub(r"[^\w.-]+", "-", wanted, flags=re.ASCII).strip("-.") or "untitled"
        name, number = start, 1
        while name in self._taken:
            number += 1
            name = f"{start}-{number}"
        self._taken.add(name)
        return name


def _anchor(title: str) -> str:
    return re.sub(r"\W+", "-", title.lower()).strip("-")


def _origin(address: str) -> tuple[str, str]:
    parts = urlsplit(address)
    return parts.scheme, parts.netloc
