"""The responses of the OpenAPI document: successes and every error, with their headers."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from portico.core import errors
from portico.core.errors import Fault, PorticoError
from portico.core.oauth import AuthorizationRefused
from portico.features.access.oauth_responder import refusal
from portico.web.idempotency import NOT_KEPT
from portico.web.messages import JSON, Reply
from portico.web.problems import problem, status_of
from portico.web.routing import Access, AnyRoute

Json = dict[str, Any]

EXAMPLES: Mapping[type[PorticoError], PorticoError] = {
    type(error): error
    for error in (
        errors.unreadable(Fault("limit", "must be a whole number from 1 to 100")),
        errors.AuthenticationRequired("This API key is not valid.", error="invalid_token"),
        errors.PermissionDenied(
            "This credential does not carry the scope write:products.", scope="write:products"
        ),
        errors.NotFound("There is no product 17."),
        errors.MethodNotAllowed("PUT is not supported here; use GET, HEAD.", ["GET", "HEAD"]),
        errors.NotAcceptable("The answer is application/json; accept that or */*."),
        errors.RequestTimeout("The body did not arrive within 20 seconds."),
        errors.Duplicate("A user with this e-mail exists already.", [Fault("email", "is taken")]),
        errors.Conflict("This is the last admin; make another user an admin first."),
        errors.Gone("Events up to 99 are no longer kept."),
        errors.PreconditionFailed(
            "The resource has changed; read it again, and send its new ETag in If-Match."
        ),
        errors.PayloadTooLarge("The body is larger than 1048576 bytes."),
        errors.UnsupportedMediaType("Send the body as application/json."),
        errors.invalid(Fault("price", "must not be negative")),
        errors.RateLimited("Too many requests; try again in 17 seconds.", retry_after=17),
        errors.Internal("An unexpected error occurred; the server's log has its request id."),
        errors.Unavailable("The database does not answer.", retry_after=1),
    )
}
"""An example of each error."""

LIMITS = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
ALWAYS = ("X-Request-Id", *LIMITS)
_TAGGED = ("ETag", "Cache-Control")
UNCOUNTED = (errors.Internal, errors.Unavailable)
"""Errors that may occur before the request is counted."""


def _header(description: str, example: str | int, **schema: Any) -> Json:
    kind = "integer" if isinstance(example, int) else "string"
    return {
        "description": description,
        "required": True,
        "schema": {"type": kind, **schema},
        "example": example,
    }


HEADERS: Mapping[str, Json] = {
    "X-Request-Id": _header(
        "Identifies this request in the log.", "req_5f0c1e9a7b2d0000002a", minLength=1
    ),
    "X-RateLimit-Limit": _header(
        "How many requests the window with the fewest remaining allows.", 500, minimum=0
    ),
    "X-RateLimit-Remaining": _header("How many of them remain.", 499, minimum=0),
    "X-RateLimit-Reset": _header(
        "When that window resets, in Unix seconds.", 1769847360, minimum=0
    ),
    "ETag": _header(
        "Identifies the resource as a GET returns it, for `If-None-Match` and `If-Match`.",
        '"8d41c0f6a2b97e3515d0c4aa"',
        pattern='^"[0-9a-f]+"$',
    ),
    "Cache-Control": _header(
        "Only the client's own cache may keep the response, and must revalidate it by its `ETag`.",
        "private, no-cache",
        const="private, no-cache",
    ),
    "Location": _header(
        "The address of the new resource.", "https://localhost:8443/v1/users/17", format="uri"
    ),
    "Link": {
        **_header(
            "The address of the next page, if there is one (RFC 8288).",
            '<https://localhost:8443/v1/users?cursor=…>; rel="next"',
        ),
        "required": False,
    },
    "Set-Cookie": _header(
        "The session cookie, named `__Secure-session` if the hosts of a domain share it.",
        "__Host-session=…; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=86400",
    ),
    "Pragma": _header("As `Cache-Control`, for old caches.", "no-cache", const="no-cache"),
    "Idempotent-Replayed": {
        **_header("The response is that of an earlier attempt.", "true", const="true"),
        "required": False,
    },
    "WWW-Authenticate": _header(
        "How to authenticate; with `error` if a token was sent and refused (RFC 6750 §3.1).",
        'Bearer error="invalid_token"',
    ),
    "Allow": _header("The methods that this path supports.", "GET, HEAD"),
    "Retry-After": _header("How many seconds to wait.", 17, minimum=1),
}
"""Every response header that the document describes."""

_PERHAPS_LIMITS = {name: {**HEADERS[name], "required": False} for name in LIMITS}
NO_STORE = _header("Caches must not keep the response.", "no-store", const="no-store")
SUCCESS = {
    200: "The request succeeded.",
    201: "The resource was created.",
    202: "The request was accepted and is carried out later.",
    204: "The request succeeded. There is no body.",
}
_NOT_MODIFIED = "The client's version is current: `If-None-Match` has its `ETag`."


def possible_errors(route: AnyRoute) -> list[type[PorticoError]]:
    """Every error that a route can return: its own, and those of the pipeline."""
    found: list[type[PorticoError]] = [errors.Unreadable, errors.NotAcceptable]
    if route.access is not Access.ANYONE:
        # Every route can refuse a key outside its networks, or a read key with another method.
        found += (errors.AuthenticationRequired, errors.PermissionDenied)
    if route.ids:
        found.append(errors.NotFound)
    if route.conditional:
        found.append(errors.PreconditionFailed)
    if route.body or route.repeatable:
        found += (errors.RequestTimeout, errors.PayloadTooLarge, errors.UnsupportedMediaType)
    if route.repeatable:
        found += (errors.Conflict, errors.Invalid)
    found += (errors.RateLimited, errors.Internal, errors.Unavailable, *route.errors)
    return sorted(set(found), key=lambda error: (status_of(error), error.__name__))


def responses(route: AnyRoute, answer: Json | None, extra: Sequence[str]) -> Json:
    """The responses of one route by status. `answer` is the media type object of its success;
    `extra` has the names of headers on every response."""
    shown: dict[int, Json] = {route.status: _success(route, answer, extra)}
    if route.tagged:
        shown[304] = {"description": _NOT_MODIFIED, "headers": refs(*ALWAYS, *_TAGGED, *extra)}
    for status, kinds in by_status(route).items():
        replayable = _is_replayable(route, kinds)
        name = component_name(kinds, replayable=replayable)
        shown[status] = {"$ref": f"#/components/responses/{name}"}
        if route.uncounted:  # unlike the component
            shown[status] = _error_component(kinds, extra, replayable=replayable)
            shown[status]["headers"] |= _PERHAPS_LIMITS
    return {str(status): shown[status] for status in sorted(shown)}


def _success(route: AnyRoute, answer: Json | None, extra: Sequence[str]) -> Json:
    headers = refs(*ALWAYS, *extra)
    if route.uncounted:
        headers |= _PERHAPS_LIMITS
    if route.tagged:
        headers |= refs(*_TAGGED)
    if route.location:
        headers |= refs("Location")
    if route.location or (route.conditional and route.status == 200):
        headers |= refs("ETag")
    if route.reads:  # without that scope there is none
        headers["ETag"] = {**HEADERS["ETag"], "required": False}
    if route.no_store:
        headers["Cache-Control"] = NO_STORE
    if route.public_seconds:
        value = route.cache_control
        description = "Any cache may keep the response for so long."
        headers["Cache-Control"] = _header(description, value, const=value)
    if route.query is not None and "limit" in route.query.__struct_fields__:
        headers |= refs("Link")
    if route.sets_cookie:
        headers |= refs("Set-Cookie")
    if route.repeatable:
        headers |= refs("Idempotent-Replayed")
    success: Json = {"description": SUCCESS[route.status], "headers": headers}
    if answer is not None:
        success["content"] = {route.media: answer}
    return success


def by_status(route: AnyRoute) -> dict[int, tuple[type[PorticoError], ...]]:
    """A route's errors by status."""
    found: dict[int, tuple[type[PorticoError], ...]] = {}
    for error in possible_errors(route):
        status = status_of(error)
        found[status] = (*found.get(status, ()), error)
    return found


def meaning(error: type[PorticoError]) -> str:
    """The meaning of an error in one sentence, taken from its docstring."""
    return (error.__doc__ or "").split("\n")[0].split(";")[0].rstrip(".") + "."


def _is_replayable(route: AnyRoute, kinds: Sequence[type[PorticoError]]) -> bool:
    """Whether one of these errors may be replayed: those that the handler raises are stored."""
    own = {*route.errors, *([errors.NotFound] if route.ids else [])}
    return route.repeatable and any(
        kind in own and not issubclass(kind, NOT_KEPT) for kind in kinds
    )


def component_name(kinds: Sequence[type[PorticoError]], *, replayable: bool) -> str:
    """The name of the component for these errors, which share a status."""
    return ("Replayable" if replayable else "") + "Or".join(kind.__name__ for kind in kinds)


def error_components(routes: Sequence[AnyRoute], extra: Sequence[str]) -> Json:
    """Every error response of the routes, by the component's name."""
    wanted = {
        (status, component_name(kinds, replayable=replayable), kinds, replayable)
        for route in routes
        for status, kinds in by_status(route).items()
        for replayable in (_is_replayable(route, kinds),)
    }
    return {
        name: _error_component(kinds, extra, replayable=replayable)
        for _, name, kinds, replayable in sorted(wanted, key=itemgetter(0, 1))
    }


def error_schemas(routes: Sequence[AnyRoute]) -> Json:
    """The schemas of the bodies of every error response, by name. Without names, generators number
    them, or make a type for each operation."""
    found: Json = {}
    for route in routes:
        for kinds in by_status(route).values():
            codes = {"type": "string", "enum": sorted({kind.code for kind in kinds})}
            found[_schema_name(kinds, "Facts")] = {
                "allOf": [
                    {"$ref": "#/components/schemas/ErrorFacts"},
                    {"type": "object", "properties": {"code": codes}},
                ]
            }
            facts = {"$ref": f"#/components/schemas/{_schema_name(kinds, 'Facts')}"}
            found[_schema_name(kinds, "Error")] = {
                "type": "object",
                "required": ["error"],
                "properties": {"error": facts},
            }
    return found


def _schema_name(kinds: Sequence[type[PorticoError]], end: str) -> str:
    """The name of a schema of these errors."""
    return f"{component_name(kinds, replayable=False)}{end}"


def _error_component(
    kinds: Sequence[type[PorticoError]], extra: Sequence[str], *, replayable: bool
) -> Json:
    component = _component(
        " ".join(map(meaning, kinds)),
        _schema_name(kinds, "Error"),
        {kind.code: problem(EXAMPLES[kind]) for kind in kinds},
        (*extra, *(["Idempotent-Replayed"] if replayable else [])),
        uncounted=any(kind in UNCOUNTED for kind in kinds),
    )
    if errors.PermissionDenied in kinds:
        optional = {**HEADERS["WWW-Authenticate"], "required": False}
        component["headers"]["WWW-Authenticate"] = optional
    return component


def _component(
    description: str,
    schema: str,
    replies: Mapping[str, Reply],
    extra: Sequence[str] = (),
    *,
    uncounted: bool,
) -> Json:
    """The component of an error response; `replies` has examples of it by their codes."""
    headers = refs(*ALWAYS, *extra)
    if uncounted:
        headers |= _PERHAPS_LIMITS
    own = {name for reply in replies.values() for name, _ in reply.headers}
    headers |= refs(*(name for name in HEADERS if name.lower() in own))
    headers["Cache-Control"] = NO_STORE
    examples = {code: {"value": msgspec.json.decode(one.body)} for code, one in replies.items()}
    content = {"schema": {"$ref": f"#/components/schemas/{schema}"}, "examples": examples}
    return {"description": description, "headers": headers, "content": {JSON: content}}


def refs(*names: str) -> Json:
    """References to headers."""
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


# Endpoints with the errors of RFC 6749 §5.2

_OAUTH_ANSWERS: Mapping[str, tuple[str, Sequence[PorticoError]]] = {
    "OAuthRefused": (
        "The request was refused (RFC 6749 §5.2).",
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
    """Every error response of these endpoints, by the component's name."""
    found: Json = {}
    for name, (description, examples) in _OAUTH_ANSWERS.items():
        replies = {_oauth_code(one): refusal(one) for one in examples}
        uncounted = isinstance(examples[0], UNCOUNTED)
        found[name] = _component(description, f"{name}Error", replies, uncounted=uncounted)
    return found


def oauth_schemas() -> Json:
    """The schemas of the bodies of every error response, by name."""
    found: Json = {}
    for name, (_, examples) in _OAUTH_ANSWERS.items():
        error = {"type": "string", "enum": [_oauth_code(one) for one in examples]}
        these = {"type": "object", "properties": {"error": error}}
        found[f"{name}Error"] = {"allOf": [{"$ref": "#/components/schemas/OAuthError"}, these]}
    return found


def _oauth_code(error: PorticoError) -> str:
    code: str = msgspec.json.decode(refusal(error).body)["error"]
    return code


def oauth_responses(route: AnyRoute, answer: Json | None) -> Json:
    """As `responses`, of one of these endpoints."""
    headers = {**refs(*ALWAYS, "Pragma"), "Cache-Control": NO_STORE}
    success: Json = {"description": SUCCESS[route.status], "headers": headers}
    if answer is not None:
        success["content"] = {JSON: answer}
    shown = {str(route.status): success}
    for name, (_, examples) in _OAUTH_ANSWERS.items():
        shown[str(refusal(examples[0]).status)] = {"$ref": f"#/components/responses/{name}"}
    return dict(sorted(shown.items()))
