"""The part of the OpenAPI document for endpoints with the errors of RFC 6749 §5.2."""

from collections.abc import Mapping, Sequence

import msgspec

from portico.core import errors
from portico.core.errors import PorticoError
from portico.core.oauth import AuthorizationRefused
from portico.features.access.oauth_responder import refusal
from portico.openapi.responses import (
    ALWAYS,
    EXAMPLES,
    HEADERS,
    LIMITS,
    NO_STORE,
    SUCCESS,
    UNCOUNTED,
    Json,
    meaning,
    refs,
)
from portico.web.fields import object_schema
from portico.web.messages import FORM, JSON
from portico.web.routing import AnyRoute

ERROR = "OAuthError"

_REFUSED = "The request was refused (RFC 6749 §5.2)."
_ANSWERS: Mapping[str, tuple[str, Sequence[PorticoError]]] = {
    "OAuthRefused": (
        _REFUSED,
        (
            AuthorizationRefused(
                "invalid_grant", "This code is not valid, has expired or was used before."
            ),
            AuthorizationRefused("invalid_request", "Send grant_type."),
            AuthorizationRefused(
                "invalid_scope", "A refresh cannot ask for more than was granted."
            ),
            AuthorizationRefused(
                "unsupported_grant_type", "grant_type must be authorization_code."
            ),
            AuthorizationRefused("authorization_pending", "The user has not decided yet."),
            AuthorizationRefused("slow_down", "Wait 5 seconds longer between requests."),
            AuthorizationRefused("access_denied", "The user denied access."),
            AuthorizationRefused("expired_token", "This device_code has expired. Begin again."),
        ),
    ),
    "OAuthClientUnknown": (
        "The client is unknown, or its secret is wrong.",
        (AuthorizationRefused("invalid_client", "The client is unknown or its secret is wrong."),),
    ),
    **{
        f"OAuth{error.__name__}": (meaning(error), (EXAMPLES[error],))
        for error in (
            errors.RequestTimeout,
            errors.PayloadTooLarge,
            errors.UnsupportedMediaType,
            errors.RateLimited,
            errors.Internal,
            errors.Unavailable,
        )
    },
}


def oauth_components() -> Json:
    """Every error response, by the component's name."""
    return {
        name: _component(name, description, examples)
        for name, (description, examples) in _ANSWERS.items()
    }


def oauth_schemas() -> Json:
    """The schemas of the bodies of every error response, by name."""
    return {f"{name}Error": _schema(examples) for name, (_, examples) in _ANSWERS.items()}


def _schema(examples: Sequence[PorticoError]) -> Json:
    kinds = [msgspec.json.decode(refusal(error).body)["error"] for error in examples]
    these = {"type": "object", "properties": {"error": {"type": "string", "enum": kinds}}}
    return {"allOf": [{"$ref": f"#/components/schemas/{ERROR}"}, these]}


def oauth_responses(route: AnyRoute, answer: Json | None) -> Json:
    """The responses of one route by status, as `openapi_responses.responses`."""
    headers = {**refs(*ALWAYS, "Pragma"), "Cache-Control": NO_STORE}
    success: Json = {"description": SUCCESS[route.status], "headers": headers}
    if answer is not None:
        success["content"] = {JSON: answer}
    shown = {str(route.status): success}
    for name, (_, examples) in _ANSWERS.items():
        shown[str(refusal(examples[0]).status)] = {"$ref": f"#/components/responses/{name}"}
    return dict(sorted(shown.items()))


def oauth_body(form: type[msgspec.Struct]) -> Json:
    """The request body: the same parameters as a form or as JSON. The server ignores others."""
    schema = object_schema(form)
    del schema["additionalProperties"]
    media: Json = {"schema": schema}
    if example := getattr(form, "EXAMPLE", None):
        media["example"] = example
    return {"required": True, "content": {FORM: media, JSON: media}}


def _component(name: str, description: str, examples: Sequence[PorticoError]) -> Json:
    replies = [refusal(error) for error in examples]
    bodies = [msgspec.json.decode(reply.body) for reply in replies]
    headers = refs(*ALWAYS)
    if isinstance(examples[0], UNCOUNTED):
        headers |= {name: {**HEADERS[name], "required": False} for name in LIMITS}
    own = {name for name, _ in replies[0].headers}
    headers |= refs(*(name for name in HEADERS if name.lower() in own))
    headers["Cache-Control"] = NO_STORE
    schema = {"$ref": f"#/components/schemas/{name}Error"}
    shown = {body["error"]: {"value": body} for body in bodies}
    return {
        "description": description,
        "headers": headers,
        "content": {JSON: {"schema": schema, "examples": shown}},
    }
