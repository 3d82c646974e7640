"""The OpenAPI 3.1 documents of one environment, made from the route declarations: that of an API
version, which may include the authorization server's endpoints, and that of the authorization
server alone."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import msgspec

from portico.core.audit import HEADER, KEY_LENGTH
from portico.core.ids import MAX_ID
from portico.core.oauth import OPENID_SCOPES, OPENID_WORDS
from portico.core.plans import Plan
from portico.core.resources import RESOURCES
from portico.core.scopes import ROLE_SCOPES, SCOPE_WORDS, SCOPES
from portico.features.events.payloads import EventBody, event_data
from portico.openapi.responses import (
    HEADERS,
    Json,
    error_components,
    error_schemas,
    meaning,
    oauth_components,
    oauth_responses,
    oauth_schemas,
    responses,
)
from portico.openapi.schemas import SCHEMAS, changed, changed_schemas, media_and_schemas, only_used
from portico.openapi.webhooks import TAG as DELIVERIES
from portico.openapi.webhooks import previous_schemas, webhooks
from portico.version import version
from portico.web.fields import object_schema
from portico.web.messages import FORM, JSON
from portico.web.problems import STATUS
from portico.web.reading import fields
from portico.web.routing import ID, Access, AnyRoute
from portico.web.streams import EVENT_STREAM, LAST_EVENT_ID

_BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "An API key, the JSON Web Token of a login, or an OAuth access token.",
}
_COOKIE = {
    "type": "apiKey",
    "in": "cookie",
    "name": "__Host-session",
    "description": "The session cookie, named `__Secure-session` if the hosts of a domain share"
    " it.",
}
_CLIENT = {
    "type": "http",
    "scheme": "basic",
    "description": "An OAuth client's id and secret.",
}

ANY_CREDENTIAL: list[Json] = [{"bearer": []}, {"oauth": []}, {"cookie": []}]
"""The default: any credential that the API accepts."""


def security_schemes(auth_address: str) -> Json:
    """Every security scheme, by the name that operations use."""
    code = {
        "authorizationUrl": f"{auth_address}/authorize",
        "tokenUrl": f"{auth_address}/token",
        "refreshUrl": f"{auth_address}/token",
        "scopes": {**OPENID_WORDS, **SCOPE_WORDS},
    }
    oauth = {
        "type": "oauth2",
        "description": "An access token that a user has granted to a client, with PKCE.",
        "flows": {"authorizationCode": code},
    }
    return {"bearer": _BEARER, "oauth": oauth, "cookie": _COOKIE, "client": _CLIENT}


def requirements(route: AnyRoute) -> list[Json] | None:
    """The security requirements of an operation; None if `ANY_CREDENTIAL` applies."""
    if route.access is Access.CLIENT:
        return [{"client": []}, {}]
    if route.access is Access.ANYONE:
        return [{"bearer": []}, {}] if route.bearer_instead else []
    if route.scope in OPENID_SCOPES:
        return [{"oauth": [route.scope]}]
    if route.sets_cookie:
        return [{"cookie": []}]
    if route.access is Access.WHOLE_CALLER:
        return [{"bearer": []}, {"cookie": []}]
    if route.scope:
        return [{"bearer": []}, {"oauth": [route.scope]}, {"cookie": []}]
    return None


GUIDE = Path(__file__).with_name("guide.md")
AUTH_GUIDE = Path(__file__).with_name("auth_guide.md")

AUTH = "auth"


def tags() -> Mapping[str, tuple[str, str]]:
    """Title and description by the first segment of a path, of the authorization server, and of
    what Portico itself sends."""
    return {
        **{kind.path: (kind.title, kind.about) for kind in RESOURCES},
        AUTH: ("Sign-in and OAuth", "The authorization server: logins, tokens, keys, metadata."),
        DELIVERIES: ("Webhook deliveries", "What is sent to the URLs of webhooks."),
    }


_NAME = {
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^[!-~]+$"},
    "example": "client_6a1f",
}
_ID = {
    "in": "path",
    "required": True,
    "schema": {"type": "integer", "minimum": 1, "maximum": MAX_ID},
    "example": 17,
}
_IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "description": "Entity tags that the client has, or `*`; 304 if one of them is current.",
    "schema": {"type": "string"},
    "example": HEADERS["ETag"]["example"],
}
_IDEMPOTENCY_KEY = {
    "name": HEADER,
    "in": "header",
    "description": "Identifies this request, so that it takes effect only once, however often it"
    " is sent within 24 hours.",
    "schema": {
        "type": "string",
        "minLength": KEY_LENGTH[0],
        "maxLength": KEY_LENGTH[1],
        "pattern": "^[!-~]+$",
    },
    "example": "5f0c1e9a-7b2d-4c1e-9a7b-2d5f0c1e9a7b",
}
_IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "description": "Entity tags, one of which must be current, or `*`; otherwise 412.",
    "schema": {"type": "string"},
    "example": "*",
}

_LAST_EVENT_ID = {
    "name": LAST_EVENT_ID,
    "in": "header",
    "description": "The id of the last event that the client has received; the stream resumes"
    " after it.",
    "schema": {"type": "integer", "minimum": 0, "maximum": MAX_ID},
    "example": 17,
}


class DocumentPart(NamedTuple):
    """Routes at an address."""

    address: str
    routes: Sequence[AnyRoute]


def document(
    version_part: DocumentPart,
    auth_part: DocumentPart,
    plans: Mapping[str, Plan],
    extra_headers: Sequence[tuple[str, str]] = (),
    *,
    site_name: str,
) -> Json:
    """The document of a version, with the routes of the authorization server in `auth_part`, as
    JSON values.

    `site_name` is in the title. `extra_headers` are those of the version's mount: they are on every
    response of the version, and one named `Deprecation` marks it as deprecated.
    """
    extra = {name.title(): value for name, value in extra_headers}
    everything = [*version_part.routes, *auth_part.routes]
    answers, schemas = media_and_schemas(everything, [EventBody, *event_data().values()])
    schemas |= previous_schemas(schemas) | changed_schemas(everything, answers, schemas)
    about = {
        "title": f"{site_name} API",
        "summary": "Users and products, over HTTPS.",
        "description": _guide(version_part.address, plans),
    }
    external_docs = {
        "description": "The document of the authorization server.",
        "url": f"{auth_part.address}/openapi.json",
    }
    paths = _paths(version_part, answers, list(extra))
    for path, item in _paths(auth_part, answers, ()).items():
        for operation in item.values():
            operation["servers"] = [{"url": auth_part.address}]
        paths[path] = item
    return only_used(
        {
            **_head(about, version_part.address, [*map(_tag, everything), DELIVERIES]),
            "externalDocs": external_docs,
            "security": ANY_CREDENTIAL,
            "paths": paths,
            "webhooks": webhooks(schemas),
            "components": _components(everything, auth_part.address, schemas, extra),
            **_tables(plans),
        }
    )


def auth_document(
    auth_part: DocumentPart, version_address: str, plans: Mapping[str, Plan], *, site_name: str
) -> Json:
    """The document of the authorization server alone; `version_address` is the address of the API
    that accepts its tokens."""
    answers, schemas = media_and_schemas(auth_part.routes, ())
    about = {
        "title": f"{site_name} authorization server",
        "summary": "Logins, tokens, keys and metadata.",
        "description": Template(AUTH_GUIDE.read_text("utf-8")).substitute(
            auth=auth_part.address, base=version_address
        ),
    }
    external_docs = {"description": "The reference of the API.", "url": f"{version_address}/docs"}
    return only_used(
        {
            **_head(about, auth_part.address, map(_tag, auth_part.routes)),
            "externalDocs": external_docs,
            "paths": _paths(auth_part, answers, ()),
            "components": _components(auth_part.routes, auth_part.address, schemas, {}),
            **_tables(plans),
        }
    )


def _head(about: Json, address: str, tags: Iterable[str]) -> Json:
    info = {
        **about,
        "version": version(),
        "contact": {"name": "The administrators of this server"},
        "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
    }
    return {
        "openapi": "3.1.0",
        "info": info,
        "servers": [{"url": address}],
        "tags": [*map(_tag_object, dict.fromkeys(tags))],
    }


def _components(
    routes: Sequence[AnyRoute], auth_address: str, schemas: Json, extra: Mapping[str, str]
) -> Json:
    api_routes = [route for route in routes if not _is_oauth(route)]
    constant = {name: _constant_header(value) for name, value in extra.items()}
    return {
        "securitySchemes": security_schemes(auth_address),
        "headers": {**HEADERS, **constant},
        "responses": {**error_components(api_routes, list(extra)), **oauth_components()},
        "schemas": {**schemas, **error_schemas(api_routes), **oauth_schemas()},
    }


def _tables(plans: Mapping[str, Plan]) -> Json:
    """The tables of errors and plans, for programs."""
    return {
        "x-errors": [
            {"status": status, "code": error.code, "meaning": meaning(error)}
            for error, status in STATUS.items()
        ],
        "x-plans": [
            {"name": plan.name, "per_minute": plan.per_minute, "per_day": plan.per_day}
            for plan in plans.values()
        ],
    }


def _paths(part: DocumentPart, answers: Mapping[Any, Json], extra: Sequence[str]) -> Json:
    paths: Json = {}
    for route in part.routes:
        answer = answers.get(route.answer)
        if route.reads:
            answer = changed(answers[route.answer])
        made = (
            oauth_responses(route, answer) if _is_oauth(route) else responses(route, answer, extra)
        )
        operation = _operation(route, made)
        if links := _links(route, part.routes):
            made[str(route.status)]["links"] = links
        if "Deprecation" in extra:
            operation["deprecated"] = True
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return paths


def _guide(address: str, plans: Mapping[str, Plan]) -> str:
    roles = " ".join(
        f"A user who is {role} has {_listed(scope for scope in SCOPES if scope in has)}."
        for role, has in ROLE_SCOPES.items()
    )
    errors = [f"| {status} | `{error.code}` {meaning(error)} |" for error, status in STATUS.items()]
    allowed = [
        f"| {plan.name} | {plan.per_minute:,} | {plan.per_day:,} |" for plan in plans.values()
    ]
    return Template(GUIDE.read_text("utf-8")).safe_substitute(
        base=address, roles=roles, errors="\n".join(errors), plans="\n".join(allowed)
    )


def _listed(scopes: Iterable[str]) -> str:
    *all_but_last, last = (f"`{scope}`" for scope in scopes)
    return f"{', '.join(all_but_last)} and {last}"


def _constant_header(value: str) -> Json:
    return {"required": True, "schema": {"type": "string", "const": value}}


def _is_oauth(route: AnyRoute) -> bool:
    """Whether OAuth clients call it on their own behalf, with the errors of RFC 6749 §5.2."""
    return route.access is Access.CLIENT


def _tag(route: AnyRoute) -> str:
    first = route.path.split("/")[1]
    return first if first in tags() else AUTH


def _tag_object(tag: str) -> Json:
    title, description = tags()[tag]
    return {"name": tag, "x-displayName": title, "description": description}


def operation_id(route: AnyRoute) -> str:
    """The name of a route in generated clients: its handler's."""
    return route.handler.__name__


def _operation(route: AnyRoute, made: Json) -> Json:
    operation: Json = {
        "tags": [_tag(route)],
        "operationId": operation_id(route),
        "summary": route.summary,
        "description": " ".join(filter(None, (route.description, _needs(route), _reads(route)))),
        "responses": made,
    }
    if parameters := _parameters(route):
        operation["parameters"] = parameters
    if route.body is not None:
        media: Json = {"schema": {"$ref": f"{SCHEMAS}{route.body.__name__}"}}
        if example := getattr(route.body, "EXAMPLE", None):
            media["example"] = example
        required = not route.bearer_instead
        operation["requestBody"] = {"required": required, "content": {JSON: media}}
    if route.form is not None:
        operation["requestBody"] = _oauth_body(route.form)
    security = requirements(route)
    if security is not None:
        operation["security"] = security
    return operation


def _oauth_body(form: type[msgspec.Struct]) -> Json:
    """The request body: the same parameters as a form or as JSON. The server ignores others."""
    schema = object_schema(form)
    del schema["additionalProperties"]
    media: Json = {"schema": schema}
    if example := getattr(form, "EXAMPLE", None):
        media["example"] = example
    return {"required": True, "content": {FORM: media, JSON: media}}


def _needs(route: AnyRoute) -> str:
    """What a caller needs, as a sentence; empty if the route's description says it."""
    if route.scope:
        return f"Needs the scope `{route.scope}`."
    if _is_oauth(route):
        return "Needs the client's id, and its secret if it has one."
    if route.access is Access.ANYONE:
        return "Needs no credential."
    if route.access is Access.WHOLE_CALLER:
        return (
            "Needs an API key, a login or a session with all scopes of its user, including `admin`"
            " for what belongs to another user. OAuth tokens are refused, whatever their scopes."
        )
    if route.permit is not None:
        return ""
    return "Needs any credential; an OAuth token needs at least one scope of the API."


def _reads(route: AnyRoute) -> str:
    """What a caller gets who may not read the resource that it changes; empty if that cannot be."""
    if not route.reads:
        return ""
    return (
        f"Without the scope `{route.reads}`, the response has only the `id` and the fields that"
        " were sent, and no `ETag`."
    )


def _parameters(route: AnyRoute) -> list[Json]:
    place = _NAME if route.named else _ID
    parameters: list[Json] = [{"name": name, **place} for name in route.ids]
    for item in msgspec.structs.fields(route.query) if route.query else ():
        schema = dict(fields(route.query)[item.name].schema())
        parameter: Json = {"name": item.name, "in": "query"}
        if description := schema.pop("description", None):
            parameter["description"] = description
        # Some generated clients send every default, and `page` is refused beside a cursor.
        if item.default is not None and item.name != "page":
            schema["default"] = item.default
        parameters.append({**parameter, "schema": schema})
    if route.media == EVENT_STREAM:
        parameters.append(_LAST_EVENT_ID)
    if route.tagged:
        parameters.append(_IF_NONE_MATCH)
    if route.repeatable:
        parameters.append(_IDEMPOTENCY_KEY)
    if route.conditional:
        parameters.append(_IF_MATCH)
    return parameters


def _links(route: AnyRoute, routes: Sequence[AnyRoute]) -> Json:
    """The OpenAPI links of an answer: to the operations on the created or read resource."""
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
