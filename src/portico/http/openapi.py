"""The OpenAPI 3.1 document of one version in one environment, made of its route declarations."""

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from string import Template
from typing import Any

import msgspec

from portico.contract.envelope import ErrorBody
from portico.contract.kinds import object_schema
from portico.contract.reading import fields
from portico.domain.ids import MAX_ID
from portico.domain.limits import Plan
from portico.http.messages import JSON
from portico.http.openapi_responses import (
    EXAMPLES,
    HEADERS,
    Json,
    error_components,
    meaning,
    responses,
)
from portico.http.problems import STATUS
from portico.http.routing import ID, Access, Route

GUIDE = Path(__file__).with_name("guide.md")

TAGS: Mapping[str, tuple[str, str]] = {
    "users": ("Users", "The people who have an account, and what they may do."),
    "products": ("Products", "The catalog: what is drafted, sold and archived."),
    "api-keys": ("API keys", "The credentials of programs. An admin makes them for their owners."),
}
"""Title and description of what stands first in a path."""

_SCHEMAS = "#/components/schemas/"

_ID = {
    "name": "id",
    "in": "path",
    "required": True,
    "schema": {"type": "integer", "minimum": 1, "maximum": MAX_ID},
    "example": 17,
}
_IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "description": "Entity tags that the caller has, or `*`; 304 where one is current.",
    "schema": {"type": "string"},
    "example": HEADERS["ETag"]["example"],
}
_IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "description": "Entity tags of which one must be current, or `*`; else 412.",
    "schema": {"type": "string"},
    "example": "*",
}


def document(
    address: str,
    routes: Sequence[Route],
    plans: Mapping[str, Plan],
    extra_headers: Sequence[tuple[str, str]] = (),
) -> Json:
    """The document of `routes` at `address`, as JSON values.

    `extra_headers` are those of a mount: they stand on every response, and one named
    `Deprecation` marks the whole version as deprecated.
    """
    extra = {name.title(): value for name, value in extra_headers}
    answers, schemas = _answers(routes)
    paths: Json = {}
    for route in routes:
        operation = _operation(route, routes, answers.get(route.answer), list(extra))
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    tags = dict.fromkeys(_tag(route) for route in routes)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Portico API",
            "version": version("portico"),
            "summary": "Users and products, over HTTPS.",
            "description": Template(GUIDE.read_text("utf-8")).safe_substitute(base=address),
        },
        "servers": [{"url": address}],
        "security": [{"bearer": []}],
        "tags": [_described(tag) for tag in tags],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "An API key."}
            },
            "headers": {
                **HEADERS,
                **{name: _constant_header(value) for name, value in extra.items()},
            },
            "responses": error_components(routes, list(extra)),
            "schemas": schemas,
        },
        "x-errors": [
            {"status": status, "code": error.code, "meaning": meaning(error)}
            for error, status in STATUS.items()
        ],
        "x-plans": [
            {"name": plan.name, "per_minute": plan.per_minute, "per_day": plan.per_day}
            for plan in plans.values()
        ],
    }


def _constant_header(value: str) -> Json:
    return {"required": True, "schema": {"type": "string", "const": value}}


def _tag(route: Route) -> str:
    return route.path.split("/")[1]


def _described(tag: str) -> Json:
    title, description = TAGS.get(tag, (tag, ""))
    return {"name": tag, "x-title": title, "description": description}


def operation_id(route: Route) -> str:
    """The name of a route in generated clients: that of its handler."""
    return route.handler.__name__


def _operation(
    route: Route, routes: Sequence[Route], answer: Json | None, extra: Sequence[str]
) -> Json:
    operation: Json = {
        "tags": [_tag(route)],
        "operationId": operation_id(route),
        "summary": route.summary,
        "description": _description(route),
        "responses": responses(route, answer, extra),
    }
    if "Deprecation" in extra:
        operation["deprecated"] = True
    if parameters := _parameters(route):
        operation["parameters"] = parameters
    if route.body is not None:
        media: Json = {"schema": {"$ref": f"{_SCHEMAS}{route.body.__name__}"}}
        if example := getattr(route.body, "EXAMPLE", None):
            media["example"] = example
        operation["requestBody"] = {"required": True, "content": {JSON: media}}
    if route.access is Access.ANYONE:
        operation["security"] = []
    elif route.scope:
        operation["security"] = [{"bearer": [route.scope]}]
    if links := _links(route, routes):
        operation["responses"][str(route.status)]["links"] = links
    return operation


def _description(route: Route) -> str:
    if route.scope:
        needs = f"Needs the scope `{route.scope}`."
    elif route.access is Access.ANYONE:
        needs = "Needs no credential."
    else:
        needs = "Any caller may do this."
    return f"{route.description} {needs}".strip()


def _parameters(route: Route) -> list[Json]:
    parameters: list[Json] = [_ID] if route.path.endswith(ID) else []
    for item in msgspec.structs.fields(route.query) if route.query else ():
        schema = dict(fields(route.query)[item.name].schema())
        parameter: Json = {"name": item.name, "in": "query"}
        if description := schema.pop("description", None):
            parameter["description"] = description
        if item.default is not None:
            schema["default"] = item.default
        parameters.append({**parameter, "schema": schema})
    if route.method == "GET":
        parameters.append(_IF_NONE_MATCH)
    if route.conditional:
        parameters.append(_IF_MATCH)
    return parameters


def _links(route: Route, routes: Sequence[Route]) -> Json:
    """Where an answer leads: from what was made or read to that one resource."""
    single = f"{route.path}/{ID}" if route.location else route.path
    links: Json = {}
    for target in routes:
        parameters: dict[str, str] = {}
        if target.path != single or target is route or route.status == 204:
            continue
        if single.endswith(ID):
            made = "$response.body#/data/id"
            parameters["id"] = made if route.location else "$request.path.id"
        if target.conditional and route.method == "GET":
            parameters["If-Match"] = "$response.header.ETag"
        if parameters:
            name = operation_id(target)
            links[name] = {"operationId": name, "parameters": parameters}
    return links


def _answers(routes: Sequence[Route]) -> tuple[dict[Any, Json], Json]:
    """The media type objects of all answers by shape, and every schema of the document."""
    shapes = list(dict.fromkeys(route.answer for route in routes if route.answer is not None))
    refs, found = msgspec.json.schema_components(
        [*shapes, ErrorBody], ref_template=f"{_SCHEMAS}{{name}}"
    )
    for schema in found.values():
        schema.pop("title", None)
    for route in routes:
        if route.body is not None:
            found[route.body.__name__] = {
                "description": (route.body.__doc__ or "").split("\n")[0],
                **object_schema(route.body),
            }
    schemas: Json = _renamed({name: found[name] for name in sorted(found)})
    codes = sorted({error.code for error in EXAMPLES})
    schemas["ErrorFacts"]["properties"]["code"]["enum"] = codes
    media = {
        shape: {"schema": _renamed(ref), "example": example(_renamed(ref), schemas)}
        for shape, ref in zip(shapes, refs, strict=False)
    }
    return media, schemas


def _renamed(value: Any) -> Any:
    """Names of generic shapes without their brackets: `Single[UserBody]` as `SingleUserBody`."""
    if isinstance(value, dict):
        return {_plain(name): _renamed(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item) for item in value]
    return _plain(value) if isinstance(value, str) else value


def _plain(name: str) -> str:
    return re.sub(r"^(#/components/schemas/)?([A-Z]\w*?)_(\w+)_$", r"\1\2\3", name)


def example(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Any:
    """A value of a schema, put together from the examples of its parts."""
    if "$ref" in schema:
        return example(schemas[schema["$ref"].removeprefix(_SCHEMAS)], schemas)
    if "examples" in schema:
        return schema["examples"][0]
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return example(schema["anyOf"][0], schemas)
    if schema["type"] == "array":
        return [example(schema["items"], schemas)]
    if schema["type"] == "object":
        return {name: example(item, schemas) for name, item in schema["properties"].items()}
    if schema["type"] == "boolean":
        return True
    raise ValueError(f"a {schema['type']} has no example: {schema}")
