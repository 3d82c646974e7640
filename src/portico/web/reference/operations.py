"""The operations of an OpenAPI document as its pages show them, with a line for curl."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from shlex import quote
from typing import Any, NamedTuple
from urllib.parse import quote as encoded
from urllib.parse import urljoin

import msgspec

from portico.web.reference.schemas import FieldView, Json, Schemas

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_JSON = re.compile(r"application/(.+\+)?json\b")
_FORM = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"
_STREAM = "text/event-stream"


class Credential(msgspec.Struct, frozen=True):
    """A security scheme as an operation needs it."""

    scheme: str
    place: str
    """`header`, `query`, `cookie`, `basic`; empty for one that is no part of a request."""
    name: str
    start: str
    """What stands before the credential in the header."""
    variable: str
    scopes: list[str]
    description: str


class Example(NamedTuple):
    """An example of a body; `name` is empty where there is one."""

    name: str
    text: str
    is_json: bool


class ResponseView(msgspec.Struct, frozen=True):
    """One response of an operation."""

    status: str
    phrase: str
    description: str
    headers: list[str]
    names: list[str]
    examples: list[Example]

    @property
    def succeeded(self) -> bool:
        """Whether the status is a success; `default` is none."""
        return self.status < "4"


class Body(msgspec.Struct, frozen=True):
    """The body of a request."""

    content_type: str
    required: bool
    description: str
    fields: list[FieldView]
    example: Any
    text: str
    """The example as it is sent; empty if a page cannot send it as text."""


class Sample(NamedTuple):
    """How an operation is called in one language: `language` is its key on pages."""

    language: str
    title: str
    text: str


class Operation(msgspec.Struct, frozen=True):
    """An operation, or a webhook, whose path is empty."""

    id: str
    tag: str
    method: str
    path: str
    summary: str
    description: str
    deprecated: bool
    see_also: str
    """Its external documentation, as Markdown."""
    ways: list[list[Credential]]
    """The alternatives of credentials that it takes; an empty one is none."""
    parameters: dict[str, list[FieldView]]
    body: Body | None
    answers: list[ResponseView]
    samples: list[Sample]
    tryable: bool
    """Whether a page may send it: to the document's server, to be answered once, without another
    cookie for the page."""

    @property
    def typed(self) -> list[Credential]:
        """The credentials of the first way that a reader can type."""
        return [one for one in next(iter(self.ways), ()) if one.place not in ("", "cookie")]

    @property
    def takes_cookie(self) -> bool:
        """Whether a cookie is one of the ways."""
        return any(one.place == "cookie" for way in self.ways for one in way)


def operations(document: Json, base: str, curl: str = "curl") -> Iterator[Operation]:
    """Every operation of a document; relative servers are below `base`, `curl` calls curl."""
    reading = _Reading(document, base, curl)
    for path, item in document.get("paths", {}).items():
        yield from reading.operations(path, item)


def webhooks(document: Json) -> Iterator[Operation]:
    """Every webhook of a document. Before 3.1 they are in an extension."""
    reading = _Reading(document, "", "")
    found = document.get("webhooks", document.get("x-webhooks", {}))
    for name, item in found.items():
        for one in reading.operations("", item):
            yield msgspec.structs.replace(one, id=name, summary=one.summary or name)


def servers(document: Json, base: str) -> list[tuple[str, str]]:
    """The addresses of a document's servers, each with its description."""
    found = document.get("servers") or [{"url": ""}]
    return [(_address(one, base), one.get("description", "")) for one in found]


def see_also(value: Json) -> str:
    """The link to the external documentation of a document or operation, as Markdown."""
    docs = value.get("externalDocs", {})
    return f"[{docs.get('description', docs['url'])}]({docs['url']})" if "url" in docs else ""


def credentials(document: Json) -> list[FieldView]:
    """The security schemes of a document."""
    schemes = document.get("components", {}).get("securitySchemes", {})
    found = []
    for name, one in schemes.items():
        scheme = Schemas(document).resolved(one)
        description = scheme.get("description", "")
        found.append(FieldView(name=name, kind=_scheme_kind(scheme), description=description))
    return found


class _Reading:
    """Reads the operations of one document."""

    def __init__(self, document: Json, base: str, curl: str) -> None:
        self._document = document
        self._schemas = Schemas(document)
        self._base = base
        self._curl = curl

    def operations(self, path: str, item: Json) -> Iterator[Operation]:
        item = self._schemas.resolved(item)
        for method in item:
            if method in _METHODS:
                yield self._operation(path, method.upper(), item, item[method])

    def _operation(self, path: str, method: str, item: Json, operation: Json) -> Operation:
        parameters: dict[str, list[FieldView]] = {}
        for one in self._parameters(item, operation):
            schema = one.get("schema", {})
            for media in one.get("content", {}).values():
                schema = media.get("schema", {})
            example = _text(self._schemas.example(one, schema))
            field = self._schemas.field(one["name"], schema, one, example)
            parameters.setdefault(one["in"], []).append(field)
        body = self._body(self._schemas.resolved(operation.get("requestBody", {})))
        answers = {
            str(status): self._schemas.resolved(response)
            for status, response in operation.get("responses", {}).items()
        }
        streams = any(_STREAM in answer.get("content", ()) for answer in answers.values())
        own_servers = operation.get("servers") or item.get("servers")
        found = Operation(
            id=operation.get("operationId", ""),
            tag=next(iter(operation.get("tags", ())), ""),
            method=method,
            path=path,
            summary=operation.get("summary") or item.get("summary", ""),
            description=operation.get("description") or item.get("description", ""),
            deprecated=operation.get("deprecated", False),
            see_also=see_also(operation),
            ways=[self._way(way) for way in operation.get("security", self._security)],
            parameters=parameters,
            body=body,
            answers=[self._answer(status, answer) for status, answer in answers.items()],
            samples=[],
            tryable=not own_servers
            and not streams
            and method != "TRACE"
            and (body is None or bool(body.text) or not body.required)
            and not any("Set-Cookie" in answer.get("headers", ()) for answer in answers.values()),
        )
        server = (own_servers or self._document.get("servers") or [{"url": ""}])[0]
        address = _address(server, self._base).rstrip("/") + path
        samples = [_sample(sample) for sample in operation.get("x-codeSamples", ())]
        if path and all(sample.language != "curl" for sample in samples):
            line = _curl(self._curl, address, found, streams=streams)
            samples.insert(0, Sample("curl", "curl", line))
        return msgspec.structs.replace(found, samples=samples)

    @property
    def _security(self) -> Sequence[Json]:
        found: Sequence[Json] = self._document.get("security", ())
        return found

    def _parameters(self, item: Json, operation: Json) -> list[Json]:
        """Those of the path and of the operation, which may declare one of the path's anew."""
        found = [*item.get("parameters", ()), *operation.get("parameters", ())]
        resolved = [self._schemas.resolved(one) for one in found]
        return [*{(one["name"], one["in"]): one for one in resolved if "in" in one}.values()]

    def _way(self, way: Json) -> list[Credential]:
        schemes = self._document.get("components", {}).get("securitySchemes", {})
        return [
            _credential(name, self._schemas.resolved(schemes.get(name, {})), list(scopes))
            for name, scopes in way.items()
        ]

    def _body(self, request: Json) -> Body | None:
        content = request.get("content", {})
        if not content:
            return None
        kind = _FORM if _FORM in content else _preferred(content)
        media = content[kind]
        example = self._schemas.example(media)
        if _JSON.match(kind):
            text = _indented(example)
        elif kind == _FORM and isinstance(example, Mapping):
            text = "&".join(f"{name}={encoded(_text(one))}" for name, one in example.items())
        else:
            text = _text(example) if kind.startswith("text/") else ""
        return Body(
            content_type=kind,
            required=request.get("required", False),
            description=request.get("description", ""),
            fields=self._schemas.fields(media.get("schema", {})),
            example=example,
            text=text,
        )

    def _answer(self, status: str, response: Json) -> ResponseView:
        content = response.get("content", {})
        kind = _preferred(content)
        examples = [*self._examples(kind, content[kind])] if kind else []
        phrases = {str(one.value): one.phrase for one in HTTPStatus}
        return ResponseView(
            status=status,
            phrase=phrases.get(status, ""),
            description=response.get("description", ""),
            headers=[*response.get("headers", ())],
            names=[one.name for one in examples if one.name],
            examples=examples,
        )

    def _examples(self, kind: str, media: Json) -> Iterator[Example]:
        is_json = bool(_JSON.match(kind))
        write = _indented if is_json else _text
        named = media.get("examples", {}) if "example" not in media else {}
        for name, one in named.items():
            yield Example(name, write(self._schemas.resolved(one).get("value")), is_json)
        if not named:
            made = self._schemas.example(media, hidden="writeOnly")
            yield Example("", write(made), is_json)


def _preferred(content: Json) -> str:
    """The media type to show: JSON where there is one."""
    return next((kind for kind in content if _JSON.match(kind)), next(iter(content), ""))


def _address(server: Json, base: str) -> str:
    url: str = server.get("url", "")
    for name, variable in server.get("variables", {}).items():
        url = url.replace(f"{{{name}}}", str(variable.get("default", "")))
    return urljoin(f"{base}/", url).rstrip("/")


def _credential(name: str, scheme: Json, scopes: list[str]) -> Credential:
    place, field, start, variable = "header", "Authorization", "Bearer ", "ACCESS_TOKEN"
    match scheme.get("type"), str(scheme.get("scheme", "")).lower():
        case "http", "bearer":
            variable = "TOKEN" if "bearerFormat" in scheme else "API_KEY"
        case "http", "basic":
            place, start, variable = "basic", "Basic ", "USER_NAME:$PASSWORD"
        case (("oauth2" | "openIdConnect"), _):
            pass
        case "apiKey", _:
            place, field, start = scheme.get("in", ""), scheme.get("name", ""), ""
            variable = "SESSION" if place == "cookie" else "API_KEY"
        case _:
            place = field = start = ""
    return Credential(name, place, field, start, variable, scopes, scheme.get("description", ""))


def _scheme_kind(scheme: Json) -> str:
    match scheme.get("type"):
        case "http":
            return f"HTTP {scheme.get('scheme', '')}"
        case "apiKey":
            return f"{scheme.get('in', '')} {scheme.get('name', '')}"
        case "oauth2":
            return f"OAuth 2.0 ({', '.join(scheme.get('flows', ()))})"
        case "openIdConnect":
            return f"OpenID Connect, {scheme.get('openIdConnectUrl', '')}"
    return str(scheme.get("type", ""))


def _sample(sample: Json) -> Sample:
    title = sample.get("label") or sample.get("lang", "")
    return Sample(re.sub(r"\W+", "-", title.lower()), title, sample.get("source", "").rstrip())


def _curl(curl: str, address: str, operation: Operation, *, streams: bool) -> str:
    parts = [curl]
    if streams:
        parts.append("-N")
    if operation.method != "GET":
        parts.append(f"-X {operation.method}")
    if curl == "curl":  # a longer one, such as with a CA, fills the first line
        parts = [" ".join(parts)]
    key = secret = ""
    given = operation.ways[0] if operation.ways and [] not in operation.ways else []
    for one in given:
        if one.place == "header":
            parts.append(f'-H "{one.name}: {one.start}${one.variable}"')
        elif one.place == "basic":
            parts.append(f'-u "${one.variable}"')
        elif one.place == "cookie":
            parts.append(f'-b "{one.name}=${one.variable}"')
        elif one.place == "query":
            key, secret = f"{one.name}=", f'"${one.variable}"'
    query = []
    for place, fields in operation.parameters.items():
        for field in fields:
            if place == "path":
                value = encoded(field.example, safe="")
                address = address.replace(f"{{{field.name}}}", value)
            elif place == "query" and field.required:
                query.append(f"{encoded(field.name)}={encoded(field.example)}")
            elif place == "header" and field.required:
                parts.append(f"-H {quote(f'{field.name}: {field.example}')}")
    if operation.body:
        parts += _curl_body(operation.body)
    if key:
        query.append(key)
    if query:
        address += f"?{'&'.join(query)}"
    return " \\\n  ".join([*parts, quote(address) + secret])


def _curl_body(body: Body) -> Iterator[str]:
    example = body.example
    if body.content_type in (_FORM, _MULTIPART) and isinstance(example, Mapping):
        flag = "-d" if body.content_type == _FORM else "-F"
        yield from (f"{flag} {name}={_quoted(_text(one))}" for name, one in example.items())
        return
    yield f"-H 'Content-Type: {body.content_type}'"
    if body.text:
        indented = body.text.replace("\n", "\n  ")
        yield f"-d {_quoted(indented)}"
    else:
        yield "--data-binary @FILE"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _indented(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
