"""The tools: each reads its arguments and says which request of the API it stands for. There are
as many whatever the number of kinds, so that their list stays short.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType, field

from portico.core.audit import HEADER
from portico.core.ids import MAX_ID

Kind = Annotated[str, Meta(description="As list_kinds names it, such as products.")]
Id = Annotated[int, Meta(ge=1, le=MAX_ID)]
Values = Annotated[
    Raw,
    Meta(
        description="Fields and their values, as list_kinds with this kind shows them.",
        extra_json_schema={"type": "object"},
    ),
]
Filter = Annotated[
    Raw,
    Meta(extra_json_schema={"anyOf": [{"type": one} for one in ("string", "number", "boolean")]}),
]
IfMatch = (
    Annotated[str, Meta(description="Its etag when it was read: refuses if it has changed since.")]
    | UnsetType
)


_TIME = Meta(extra_json_schema={"format": "date-time"})


class ApiCall(NamedTuple):
    """A request of the API: of a kind's route by method, perhaps for one record. `kind` is None for
    the usage of the account."""

    method: str
    kind: str | None
    record_id: int | None = None
    query: str = ""
    body: bytes = b""
    headers: Mapping[str, str] = {}


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The arguments of a tool."""

    def call(self) -> ApiCall:
        """The request that it stands for."""
        raise NotImplementedError


class ListKinds(Arguments, frozen=True):
    """Says which kinds of records there are and which tools you may use with them; for one kind
    also its filters and fields."""

    kind: Annotated[str, Meta(description="For the details of one kind.")] | UnsetType = UNSET


class ListRecords(Arguments, frozen=True):
    """Lists records of a kind, a page at a time."""

    kind: Kind
    filters: Annotated[
        Mapping[str, Filter],
        Meta(description="Also search, sort and order, where list_kinds shows them."),
    ] = {}
    limit: Annotated[int, Meta(ge=1, le=100, description="25 unless given.")] | UnsetType = UNSET
    cursor: (
        Annotated[str, Meta(description="next_cursor of the page before, with the same filters.")]
        | UnsetType
    ) = UNSET

    def call(self) -> ApiCall:
        pairs = {name: _parameter(value) for name, value in self.filters.items()}
        if self.limit is not UNSET:
            pairs["limit"] = str(self.limit)
        if self.cursor is not UNSET:
            pairs["cursor"] = self.cursor
        return ApiCall("GET", self.kind, query=urlencode(pairs))


class ReadRecord(Arguments, frozen=True):
    """Reads one record with all its fields."""

    kind: Kind
    id: Id

    def call(self) -> ApiCall:
        return ApiCall("GET", self.kind, self.id)


class CreateRecord(Arguments, frozen=True):
    """Creates a record."""

    kind: Kind
    values: Values
    idempotency_key: (
        Annotated[str, Meta(description="Unique to this creation: sent again, it creates nothing.")]
        | UnsetType
    ) = UNSET

    def call(self) -> ApiCall:
        headers = {} if self.idempotency_key is UNSET else {HEADER.lower(): self.idempotency_key}
        return ApiCall("POST", self.kind, body=bytes(self.values), headers=headers)


class ChangeRecord(Arguments, frozen=True):
    """Changes fields of a record; others stay as they are."""

    kind: Kind
    id: Id
    values: Values
    if_match: IfMatch = UNSET

    def call(self) -> ApiCall:
        body, headers = bytes(self.values), _conditions(self.if_match)
        return ApiCall("PATCH", self.kind, self.id, body=body, headers=headers)


class DeleteRecord(Arguments, frozen=True):
    """Deletes a record for good. Ask the user first."""

    kind: Kind
    id: Id
    if_match: IfMatch = UNSET

    def call(self) -> ApiCall:
        return ApiCall("DELETE", self.kind, self.id, headers=_conditions(self.if_match))


def _parameter(value: Raw) -> str:
    """A value of a filter as a query has it; what is not a text stays as it was sent."""
    text = bytes(value).decode(errors="replace")
    return msgspec.json.decode(value, type=str) if text.startswith('"') else text


def _conditions(if_match: str | UnsetType) -> Mapping[str, str]:
    return {} if if_match is UNSET else {"if-match": if_match}


class ReadUsage(Arguments, frozen=True):
    """Says how many requests the account has made, by hour, day or month."""

    by: Literal["hour", "day", "month"] | UnsetType = UNSET
    since: Annotated[str, _TIME] | UnsetType = field(default=UNSET, name="from")
    until: Annotated[str, _TIME] | UnsetType = field(default=UNSET, name="to")
    service: str | UnsetType = UNSET

    def call(self) -> ApiCall:
        return ApiCall("GET", None, query=urlencode(msgspec.to_builtins(self)))


class Tool(NamedTuple):
    """A tool: its arguments, and whether it only reads, or destroys something."""

    arguments: type[Arguments]
    reads: bool = False
    destroys: bool = False
    idempotent: bool = False

    def described(self, name: str) -> dict[str, Any]:
        """The tool in `tools/list`."""
        _, found = msgspec.json.schema_components([self.arguments])
        schema = found[self.arguments.__name__]
        del schema["title"]
        text = " ".join(schema.pop("description").split())
        hints = {"readOnlyHint": self.reads, "openWorldHint": False}
        if not self.reads:
            hints |= {"destructiveHint": self.destroys, "idempotentHint": self.idempotent}
        return {"name": name, "description": text, "inputSchema": schema, "annotations": hints}


TOOLS: Mapping[str, Tool] = {
    "list_kinds": Tool(ListKinds, reads=True),
    "list_records": Tool(ListRecords, reads=True),
    "read_record": Tool(ReadRecord, reads=True),
    "create_record": Tool(CreateRecord),
    "change_record": Tool(ChangeRecord, destroys=True, idempotent=True),
    "delete_record": Tool(DeleteRecord, destroys=True, idempotent=True),
    "usage": Tool(ReadUsage, reads=True),
}

METHODS: Mapping[tuple[str, bool], str] = {
    ("GET", False): "list_records",
    ("GET", True): "read_record",
    ("POST", False): "create_record",
    ("PATCH", True): "change_record",
    ("DELETE", True): "delete_record",
}
"""Which tool stands for a method, of all records of a kind or of one."""
