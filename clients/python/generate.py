# ruff: noqa: INP001 - a script, run by its path
"""Makes the parts of the library that follow from something else: its synchronous face from the
asynchronous one, and the types of what is sent and returned from the server's OpenAPI document.
Then writes docs/reference.md, from the docstrings.

python generate.py          # where Portico is installed too, which is asked for the document
"""

import json
import re
import runpy
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "src" / "portico_client"
NOTICE = "# Generated from {source}: do not edit it, run clients/python/generate.py.\n"

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

CHOICES = {
    "Role": "UserItem.role",
    "Status": "ProductItem.status",
    "Theme": "PreferencesBody.theme",
    "KeyType": "ApiKeyItem.type",
    "KeyStatus": "ApiKeyItem.status",
    "Scope": "ApiKeyItem.scopes",
    "WebhookStatus": "WebhookItem.status",
    "DisabledReason": "WebhookItem.disabled_reason",
    "DeliveryStatus": "DeliveryItem.status",
}
"""The enumerations that have a name, and a field of each."""
OPEN = ("Role", "Scope")
"""Those to which a server may add its own."""
MOST_SPELLED = 5
"""Others are spelled out, unless they are longer, as currencies are: those are `str`."""

DEFAULTS = {
    "alt": '""',
    "total_is_exact": "True",
    "client_secret": "field(default=None, repr=False)",  # a public client has none
}
"""What stands for fields of an answer that may be missing."""
SECRETS = ("key", "secret", "link")
"""These are missing only where `SecretLost` is raised. They come last and are not printed."""

PAGING = ("page", "cursor", "from", "to")
"""The parameters that lists set by themselves, or that take another name."""
NULL = {"type": "null"}

MODELS = '''\
"""What the service returns. Times are timezone-aware and in UTC; prices are exact."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, TypeAlias, TypedDict
'''
EVENT_TYPE = '''\
"""The types of events. `ping` is sent only by the test of a webhook."""
'''
INPUTS = '''\
"""The fields of new resources and of changes, and the filters of lists.

A field left out of a change keeps its value; a field left out of a new resource gets the service's
default. A filter that is None counts as left out.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, NotRequired, TypedDict

from portico_client.models import Image, {names}
'''


def generated(document: Mapping[str, Any]) -> dict[Path, str]:
    """All generated modules; `document` describes the API."""
    types = Types(document)
    made = {
        "models.py": ("the OpenAPI document", types.models()),
        "inputs.py": ("the OpenAPI document", types.inputs()),
    }
    for name in FACES:
        source = f"async_{name}.py"
        made[f"{name}.py"] = source, synchronous((SOURCES / source).read_text("utf-8"))
    return {
        SOURCES / name: _formatted(NOTICE.format(source=source) + text)
        for name, (source, text) in made.items()
    }


def synchronous(text: str) -> str:
    """The synchronous counterpart of an asynchronous module."""
    for asynchronous, replacement in SYNCHRONOUS.items():
        text = re.sub(asynchronous, replacement, text, flags=re.DOTALL)
    return text


@dataclass(frozen=True, slots=True)
class Shape:
    """A class to make, as shapes.txt declares it."""

    name: str
    base: str
    source: str
    tagged: bool
    doc: str


def _shapes(text: str) -> list[Shape]:
    declared = r"^(\w+)(?:\((\w+)\))?(?: = ([^\s,]+))?(, etag)?\n((?: {4}.*\n|\n)*)"
    return [
        Shape(name, base, source or name, bool(tagged), textwrap.dedent(doc).strip())
        for name, base, source, tagged, doc in re.findall(declared, text, re.MULTILINE)
    ]


class Types:
    """The types of what is sent and returned."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        returned, _, sent = (HERE / "shapes.txt").read_text("utf-8").partition("\n# Sent\n")
        self._returned, self._sent = _shapes(returned), _shapes(sent)
        both = [*self._returned, *self._sent]
        self._sources = {one.name: one.source for one in both}
        self._names = {one.source: one.name for one in reversed(both)}
        self._parts = {
            frozenset(self._found(source)["properties"]): name
            for source, name in self._names.items()
            if "." in source
        }
        choices = {name: self._found(source)["enum"] for name, source in CHOICES.items()}
        self._choices = {frozenset(values): name for name, values in choices.items()}
        choices["EventType"] = list(document["webhooks"])
        self._aliases = "\n".join(
            f"{name}: TypeAlias = Literal{values}{' | str' * (name in OPEN)}"
            for name, values in choices.items()
        )

    def models(self) -> str:
        """The module of what is returned."""
        return "\n".join([MODELS, self._aliases, EVENT_TYPE, *map(self._model, self._returned)])

    def inputs(self) -> str:
        """The module of what is sent."""
        names = ", ".join(CHOICES)
        return "\n".join([INPUTS.format(names=names), *map(self._dictionary, self._sent)])

    def _model(self, shape: Shape) -> str:
        schema, fields = self._found(shape.source), self._fields(shape)
        if "required" not in schema:  # the old values in an event
            return self._dictionary(shape, sent=False)
        lines = []
        for name in sorted(fields, key=SECRETS.__contains__):
            line = f"{name}: {self._type(fields[name])}"
            if name in SECRETS:
                line += " = field(repr=False)"
            elif name not in schema["required"]:
                absent = " | None" if "None" in DEFAULTS[name] else ""
                line += f"{absent} = {DEFAULTS[name]}"
            lines.append(line)
        if shape.tagged:
            # Behind a default, the fields of a class that is based on this one could have none.
            last = ", kw_only=True" if any(o.base == shape.name for o in self._returned) else ""
            lines.append(f"etag: str | None = field(default=None, compare=False{last})")
        head = f"class {shape.name}({shape.base}):" if shape.base else f"class {shape.name}:"
        return "@dataclass(frozen=True, slots=True)\n" + self._class(head, shape, lines)

    def _dictionary(self, shape: Shape, *, sent: bool = True) -> str:
        needed = self._found(shape.source).get("required", ())
        lines = []
        for name, schema in self._fields(shape).items():
            kind = self._type(schema, sent=sent)
            optional = needed and name not in needed
            lines.append(f"{name}: NotRequired[{kind}]" if optional else f"{name}: {kind}")
        total = "" if needed else ", total=False"
        head = f"class {shape.name}({shape.base or 'TypedDict'}{total}):"
        return self._class(head, shape, lines)

    def _class(self, head: str, shape: Shape, lines: list[str]) -> str:
        doc = shape.doc or self._found(shape.source)["description"]
        doc = f'"""{doc}\n"""' if "\n\n" in doc else f'"""{doc}"""'
        return f"{head}\n" + textwrap.indent("\n".join([doc, "", *lines, ""]), "    ")

    def _fields(self, shape: Shape) -> dict[str, Any]:
        """The schemas of the fields that the base does not have."""
        base = self._found(self._sources[shape.base])["properties"] if shape.base else {}
        fields = self._found(shape.source)["properties"]
        return {name: schema for name, schema in fields.items() if name not in base}

    def _found(self, source: str) -> Any:
        """The schema of a class, of a list's items or of an enumeration."""
        if source.startswith("/"):
            parameters = self._document["paths"][source]["get"]["parameters"]
            filters = {one["name"]: one["schema"] for one in parameters if one["in"] == "query"}
            left_out = {name: {"anyOf": [one, NULL]} for name, one in filters.items()}
            return {"properties": {n: one for n, one in left_out.items() if n not in PAGING}}
        name, _, part = source.partition(".")
        schema = self._document["components"]["schemas"][name]
        if not part:
            return schema
        found = schema["properties"][part]
        found = found.get("anyOf", [found])[0]
        return found.get("items", found)

    def _type(self, schema: Any, *, sent: bool = False) -> str:
        if "anyOf" in schema:
            (present,) = (one for one in schema["anyOf"] if one != NULL)
            return f"{self._type(present, sent=sent)} | None"
        if "$ref" in schema:
            return self._names[schema["$ref"].rpartition("/")[2]]
        if isinstance(schema["type"], list):
            kind, _null = schema["type"]
            return f"{self._type({**schema, 'type': kind}, sent=sent)} | None"
        values = schema.get("enum", ())
        if frozenset(values) in self._choices:
            return self._choices[frozenset(values)]
        if 0 < len(values) <= MOST_SPELLED:
            return f"Literal{values}"
        match schema:
            case {"type": "array", "items": items}:
                item = self._type(items, sent=sent)
                return f"Sequence[{item}]" if sent else f"tuple[{item}, ...]"
            case {"type": "object", "properties": properties}:
                return self._parts[frozenset(properties)]
            case {"type": "object", "additionalProperties": True}:
                return "Mapping[str, Any]"
            case {"type": "object", "additionalProperties": value}:
                return f"Mapping[str, {self._type(value, sent=sent)}]"
            case {"type": "number"}:
                return "Decimal | int" if sent else "Decimal"
            case {"type": "string", "format": "date-time"}:
                return "datetime"
        return {"string": "str", "integer": "int", "boolean": "bool"}[schema["type"]]


def _formatted(text: str) -> str:
    """A module as the linter wants it."""
    rules = ["--select", "F401,I,UP028", "--fix", "--unsafe-fixes", "--silent"]
    place = ["--stdin-filename", f"{SOURCES}/any.py", "-"]  # for the settings that count there
    for arguments in (["check", *rules, *place], ["format", *place]):
        ruff = [sys.executable, "-m", "ruff", *arguments]
        done = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True)  # noqa: S603 - the linter of this project
        text = done.stdout
    return text


if __name__ == "__main__":
    command = [sys.executable, "-m", "portico", "openapi"]
    document = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)  # noqa: S603 - the server of this project
    for path, text in generated(document).items():
        path.write_text(text, "utf-8")
    runpy.run_path(str(HERE / "reference.py"), run_name="__main__")
