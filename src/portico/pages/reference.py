"""The reference: an OpenAPI document as pages, one for each operation, and a first one with the
guide and the list of operations."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from portico.http.sse import EVENT_STREAM
from portico.pages.examples import Example, examples
from portico.pages.html import template
from portico.services.addresses import Addresses

Json = Mapping[str, Any]

DELIVERIES = "deliveries"
"""The name of the page about webhook deliveries, beside those of the operations."""

_FEW = 8
"""The most values of an enumeration to list; the description must cover longer ones."""


class Field(msgspec.Struct, frozen=True):
    """A parameter, or a field of a body."""

    name: str
    kind: str
    required: bool
    rules: list[str]
    description: str
    choices: list[str]
    """The allowed values, if they are few."""


class Answer(msgspec.Struct, frozen=True):
    """One response of an operation."""

    status: str
    phrase: str
    description: str
    codes: list[str]
    headers: list[str]
    example: str | None

    @property
    def succeeded(self) -> bool:
        """Whether the status is a success."""
        return self.status < "400"


class Operation(msgspec.Struct, frozen=True):
    """One endpoint."""

    id: str
    tag: str
    method: str
    path: str
    summary: str
    description: str
    deprecated: bool
    parameters: dict[str, list[Field]]
    body: list[Field]
    answers: list[Answer]
    examples: list[Example]
    body_example: str
    tryable: bool
    """Whether readers may try it: sessions may call it as other credentials may, and its answer is
    no endless stream."""


class Deliveries(msgspec.Struct, frozen=True):
    """Webhook deliveries: an example of each event type, and the fields that all share."""

    headers: list[Field]
    answers: dict[str, str]
    examples: dict[str, str]


class Entry(NamedTuple):
    """A link to a page; `name` is the end of its address. `path` is empty on the page itself."""

    name: str
    method: str
    title: str
    path: str


class Edition(NamedTuple):
    """The reference of an environment: its name, and the address of the API."""

    environment: str
    address: str


class Reference:
    """The pages of one OpenAPI document."""

    def __init__(
        self,
        document: Json,
        addresses: Addresses,
        trying: str = "",
        editions: Sequence[Edition] = (),
    ) -> None:
        """`addresses` are those that readers call. `trying` is the address of the page that tries
        out operations; empty if there is none. `editions` are the references of all environments,
        the live one first."""
        text = document["info"]["description"].replace("\ncurl ", f"\n{addresses.curl} ")
        self._introduction, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
        guide = [section.split("\n", 1) for section in sections]
        self._guide = [(_anchor(title), title, text) for title, text in guide]
        self._operations = {one.id: one for one in operations(document, addresses)}
        groups = [(tag, self._entries(tag["name"])) for tag in document["tags"]]
        self._groups = [(tag, entries) for tag, entries in groups if entries]
        self._all = [(tag, entry) for tag, entries in self._groups for entry in entries]
        self._document = document
        self._addresses = addresses
        self._trying = trying
        self._editions = editions
        own = (one.environment for one in editions[1:] if one.address == addresses.base)
        self._marked = next(own, "")

    def index(self) -> str:
        """The first page: the guide, and a line for each operation."""
        return self._page("docs.html", None, up="", introduction=self._introduction)

    def page(self, name: str) -> str:
        """The page of an operation, or that of webhook deliveries (`DELIVERIES`)."""
        at = next(at for at, (_, entry) in enumerate(self._all) if entry.name == name)
        before, entry, after = [None, *(entry for _, entry in self._all), None][at : at + 3]
        shown = {"up": "../", "tag": self._all[at][0], "before": before, "after": after}
        if name == DELIVERIES:
            shown["deliveries"] = _deliveries(self._document)
            return self._page("docs_deliveries.html", entry, **shown)
        shown |= {"operation": self._operations[name], "trying": self._trying}
        return self._page("docs_operation.html", entry, **shown)

    def nowhere(self) -> str:
        """The page for an unknown address below the reference."""
        up = f"{urlsplit(self._addresses.base).path}/"
        return self._page("docs_nowhere.html", None, up=up)

    def _page(self, name: str, entry: Entry | None, **values: object) -> str:
        return template(name).render(
            document=self._document,
            groups=self._groups,
            guide=self._guide,
            entry=entry,
            address=self._addresses.base,
            needs_copy=self._addresses.needs_copy,
            dashboard=self._addresses.dashboard,
            editions=self._editions,
            marked=self._marked,
            **values,
        )

    def _entries(self, tag: str) -> list[Entry]:
        entries = [
            Entry(one.id, one.method, one.summary, one.path)
            for one in self._operations.values()
            if one.tag == tag
        ]
        if tag == "webhooks":
            entries.append(Entry(DELIVERIES, "POST", "Webhook deliveries", ""))
        return entries


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def operations(document: Json, addresses: Addresses) -> Iterator[Operation]:
    """Every operation of a document."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield _operation(document, path, method.upper(), operation, addresses)


def _deliveries(document: Json) -> Deliveries:
    made = {name: item["post"] for name, item in document["webhooks"].items()}
    one = next(iter(made.values()))
    return Deliveries(
        [
            _field(header["name"], header["schema"], header, document)
            for header in one["parameters"]
        ],
        {status: answer["description"] for status, answer in one["responses"].items()},
        {
            name: _indented(operation["requestBody"]["content"]["application/json"]["example"])
            for name, operation in made.items()
        },
    )


def _operation(
    document: Json, path: str, method: str, operation: Json, addresses: Addresses
) -> Operation:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    parameters: dict[str, list[Field]] = {}
    for parameter in operation.get("parameters", []):
        field = _field(parameter["name"], parameter["schema"], parameter, document)
        parameters.setdefault(parameter["in"], []).append(field)
    address = operation.get("servers", document["servers"])[0]["url"] + path
    return Operation(
        id=operation["operationId"],
        tag=operation["tags"][0],
        method=method,
        path=path,
        summary=operation["summary"],
        description=operation["description"],
        deprecated=operation.get("deprecated", False),
        parameters=parameters,
        body=list(_body_fields(body["schema"], document)) if body else [],
        answers=[
            _answer(status, _resolved(response, document), document)
            for status, response in operation["responses"].items()
        ],
        body_example=_indented(body["example"]) if body else "",
        tryable=_is_tryable(operation, document),
        examples=list(examples(address, method, operation, document, addresses)),
    )


def _is_tryable(operation: Json, document: Json) -> bool:
    ways = [name for way in operation.get("security", document["security"]) for name in way]
    answers = operation["responses"].get("200", {}).get("content", ())
    return {"cookie", "bearer"} <= set(ways) and EVENT_STREAM not in answers


def _resolved(value: Json, document: Json) -> Json:
    """The target of a `$ref`, or the value itself."""
    if "$ref" not in value:
        return value
    found = document
    for part in value["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return found


def _body_fields(schema: Json, document: Json, prefix: str = "") -> Iterator[Field]:
    schema = _resolved(schema, document)
    for name, inner in schema["properties"].items():
        required = {"required": name in schema.get("required", ())}
        yield _field(f"{prefix}{name}", inner, required, document)
        if "properties" in inner:
            yield from _body_fields(inner, document, f"{prefix}{name}.")
        elif "properties" in inner.get("items", ()):
            yield from _body_fields(inner["items"], document, f"{prefix}{name}[].")


def _field(name: str, schema: Json, facts: Json, document: Json) -> Field:
    schema = _resolved(schema, document)
    return Field(
        name=name,
        kind=_kind(schema),
        required=facts.get("required", False),
        rules=list(_rules(schema)),
        description=facts.get("description") or schema.get("description", ""),
        choices=_choices(schema),
    )


def _kind(schema: Json) -> str:
    kind = schema.get("type", "string")
    if kind == "array":
        return f"array of {_kind(schema['items'])}s"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _choices(schema: Json) -> list[str]:
    if schema.get("type") == "boolean":
        return ["true", "false"]
    few = schema.get("enum", ())
    return [str(value) for value in few] if len(few) <= _FEW else []


def _rules(schema: Json) -> Iterator[str]:
    """The rules for a value that its schema states, in words."""
    if "enum" in schema and (choices := _choices(schema)):
        yield "one of " + ", ".join(f"`{value}`" for value in choices)
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        yield f"{low:,} to {high:,}"
    elif low is not None:
        yield f"{low:,} or more"
    if "exclusiveMaximum" in schema:
        yield f"less than {schema['exclusiveMaximum']:,}"
    for name, noun in (("maxLength", "characters"), ("maxItems", ""), ("maxProperties", "names")):
        if name in schema:
            yield f"at most {schema[name]:,} {noun}".strip()
    if schema.get("default") not in (None, "", [], {}):
        yield f"default `{json.dumps(schema['default']).strip(chr(34))}`"
    if schema.get("writeOnly"):
        yield "write-only"


def _answer(status: str, response: Json, document: Json) -> Answer:
    media = response.get("content", {}).get("application/json", {})
    examples = [example["value"] for example in media.get("examples", {}).values()]
    shown = media["example"] if "example" in media else (examples[0] if examples else None)
    always = document["components"]["responses"]["NotFound"]["headers"]
    return Answer(
        status=status,
        phrase=HTTPStatus(int(status)).phrase,
        description=response["description"],
        codes=[_code(example) for example in examples],
        headers=[name for name in response.get("headers", ()) if name not in always],
        example=None if shown is None else _indented(shown),
    )


def _code(example: Json) -> str:
    error = example["error"]
    return str(error if isinstance(error, str) else error["code"])


def _indented(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
