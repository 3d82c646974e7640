"""The schemas of the OpenAPI document, made from the declared shapes, with examples."""

import re
from collections.abc import Iterable, Mapping, Sequence
from inspect import cleandoc
from typing import Any, get_args, get_origin

import msgspec

from portico.features.access.schemas import OAuthError
from portico.openapi.responses import EXAMPLES, Json
from portico.web.envelope import Created, ErrorBody
from portico.web.fields import object_schema
from portico.web.routing import AnyRoute

SCHEMAS = "#/components/schemas/"


def media_and_schemas(
    routes: Sequence[AnyRoute], others: Iterable[type[msgspec.Struct]]
) -> tuple[dict[Any, Json], Json]:
    """The media type objects of all answers and of `others`, by shape, and every schema of the
    document, by name."""
    answers = [route.answer for route in routes if route.answer is not None]
    shapes = list(dict.fromkeys([*answers, *others]))
    refs, found = msgspec.json.schema_components(
        [*shapes, ErrorBody, OAuthError], ref_template=f"{SCHEMAS}{{name}}"
    )
    for schema in found.values():
        schema.pop("title", None)
        if "description" in schema:  # a docstring, which only Python 3.13 dedents itself
            schema["description"] = cleandoc(schema["description"])
    for shape, ref in zip(shapes, refs, strict=False):
        if get_origin(shape) is Created:
            message = found[ref["$ref"].removeprefix(SCHEMAS)]["properties"]["message"]
            message["examples"] = [get_args(shape)[0].message]
    for route in routes:
        if route.body is not None:
            found[route.body.__name__] = {
                "description": (route.body.__doc__ or "").split("\n")[0],
                **object_schema(route.body),
            }
    schemas: Json = _typed(_renamed({name: found[name] for name in sorted(found)}))
    codes = sorted({error.code for error in EXAMPLES})
    schemas["ErrorFacts"]["properties"]["code"]["enum"] = codes
    media = {
        shape: {"schema": _renamed(ref), "example": example(_renamed(ref), schemas)}
        for shape, ref in zip(shapes, refs, strict=False)
    }
    return media, schemas


def changed_schemas(
    routes: Sequence[AnyRoute], media: Mapping[Any, Json], schemas: Mapping[str, Any]
) -> Json:
    """The schemas of changed resources, by name: the whole, or for callers who may not read it, its
    id and the fields that were sent."""
    return {
        _changed(media[route.answer]): _or_sent_alone(media[route.answer]["schema"], schemas)
        for route in routes
        if route.reads
    }


def changed(media: Json) -> Json:
    """The media type object of a resource, as one of `changed_schemas`."""
    return {**media, "schema": {"$ref": f"{SCHEMAS}{_changed(media)}"}}


def _changed(media: Json) -> str:
    name: str = media["schema"]["$ref"].removeprefix(f"{SCHEMAS}Single")
    return f"SingleChanged{name}"


def _or_sent_alone(whole: Json, schemas: Mapping[str, Any]) -> Json:
    data = _in_parts(_resolved(whole, schemas)["properties"]["data"], schemas)
    data = {**data, "required": ["id"]}
    alone = {"type": "object", "properties": {"data": data}, "required": ["data"]}
    return {
        "description": "A changed resource, or of one that the caller may not read, the id and the"
        " fields that were sent.",
        "anyOf": [whole, alone],
    }


def _in_parts(schema: Json, schemas: Mapping[str, Any]) -> Json:
    """The schema of an object of which any field may be missing, also of those in it."""
    target = _resolved(schema, schemas)
    if "properties" not in target:
        return schema
    fields = {name: _in_parts(one, schemas) for name, one in target["properties"].items()}
    return {"type": "object", "properties": fields}


def _resolved(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    """The target of a `$ref`, or the schema itself."""
    if "$ref" not in schema:
        return schema
    found: Json = schemas[schema["$ref"].removeprefix(SCHEMAS)]
    return found


def only_used(document: Json) -> Json:
    """The document without unused components."""
    components = document["components"]
    waiting: list[Any] = [value for name, value in document.items() if name != "components"]
    used: set[str] = set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            named = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            for way in value.get("security", ()):
                named += [f"#/components/securitySchemes/{name}" for name in way]
            for ref in {*named} - used:
                _, _, kind, name = ref.split("/")
                used.add(ref)
                waiting.append(components[kind][name])
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    kept = {
        kind: {name: one for name, one in group.items() if f"#/components/{kind}/{name}" in used}
        for kind, group in components.items()
    }
    return {**document, "components": kept}


def _renamed(value: Any) -> Any:
    """A value with generic shapes' names flattened: `Single_UserBody_` as `SingleUserBody`."""
    if isinstance(value, dict):
        return {_plain(name): _renamed(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item) for item in value]
    return _plain(value) if isinstance(value, str) else value


def _typed(value: Any) -> Any:
    """A value in which each `enum` of texts has its `type`, which msgspec leaves out."""
    if isinstance(value, dict):
        typed = {name: _typed(item) for name, item in value.items()}
        if isinstance(value.get("enum"), list):
            typed.setdefault("type", "string")
        return typed
    return [_typed(item) for item in value] if isinstance(value, list) else value


def _plain(name: str) -> str:
    return re.sub(r"^(#/components/schemas/)?([A-Z]\w*?)_(\w+)_$", r"\1\2\3", name)


def example(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Any:
    """An example value for a schema, built from the examples of its parts."""
    schema = _resolved(schema, schemas)
    if "examples" in schema:
        return schema["examples"][0]
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        one = next((one for one in schema["anyOf"] if "$ref" in one), schema["anyOf"][0])
        return example(one, schemas)
    if schema["type"] == "array":
        return [example(schema["items"], schemas)]
    if schema["type"] == "object":
        always = schema.get("required", ())
        return {
            name: example(item, schemas)
            for name, item in schema["properties"].items()
            # An optional boolean without an example is a flag that is rarely set.
            if name in always or item.get("type") != "boolean" or "examples" in item
        }
    if schema["type"] == "boolean":
        return True
    raise ValueError(f"a {schema['type']} has no example: {schema}")
