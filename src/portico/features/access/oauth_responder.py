"""How the endpoints for OAuth clients (`/token`, `/revoke`, `/introspect`) answer, step by step:

client → throttle → body → handler. Errors have the form of RFC 6749 §5.2.
"""

from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import parse_qsl, unquote_plus

from msgspec import Struct

from portico.core.errors import (
    PorticoError,
    RateLimited,
    Unavailable,
    Unreadable,
    UnsupportedMediaType,
)
from portico.core.oauth import CLIENT_ASSERTION_TYPE, AuthorizationRefused, Client
from portico.core.text import text_fault
from portico.features.access.clients import Unproven, authenticate_client, note_refusal
from portico.features.access.programs import authenticate_by_assertion
from portico.features.access.schemas import OAuthError
from portico.features.access.tokens import user_of
from portico.features.people.storage import Users
from portico.web import throttle
from portico.web.api_responder import no_endpoint
from portico.web.envelope import encode
from portico.web.messages import FORM, JSON, Reply, Request
from portico.web.problems import problem, status_of
from portico.web.reading import fields, read_json, required
from portico.web.routing import PUBLIC_BODY_LIMIT, Access, Endpoint, PathMatch

MAX_PARAMETERS = 50

NO_STORE = (("cache-control", "no-store"), ("pragma", "no-cache"))
"""On every answer that may hold a token (RFC 6749 §5.1)."""


class OAuthResponder:
    """Answers the requests that OAuth clients make on their own behalf."""

    def serves(self, access: str | Access) -> bool:
        """Only the access of OAuth clients."""
        return access is Access.CLIENT

    async def answer(
        self,
        request: Request,
        match: PathMatch,
        endpoint: Endpoint | None,
        _id_texts: Sequence[str],
    ) -> Reply:
        """Takes the request through the steps of the module's docstring. `request.body` becomes the
        form. Raises `PorticoError`."""
        if endpoint is None:
            await throttle.address(request)
            raise no_endpoint(request, match)
        # Without a client to count against, the address must be within its limit before the body
        # is read.
        named = await _basic_client(request)
        proven = None if named is None or named.public else named
        if proven is None:
            await throttle.check_address(request)
        else:
            await _count(request, proven, {})
        try:
            body = await request.read_body(PUBLIC_BODY_LIMIT)
            parameters = _parameters(request, body, endpoint.route.form)
            client = await _client(request, parameters, named)
        except PorticoError as error:
            if proven is None:
                await _count_failure(request, error)
            raise
        if proven is None:
            await _count(request, client, parameters)
        request.body = _as_form(endpoint.route.form, parameters)
        request.client = client
        reply = await endpoint.handler(request)
        reply.headers.extend(NO_STORE)
        return reply

    def problem(self, request: Request, error: PorticoError) -> Reply:
        request.error_code, _ = _code_and_status(error)
        return refusal(error)


async def _basic_client(request: Request) -> Client | None:
    """The client that HTTP Basic authenticates; None without the header. Counts failures
    against the address."""
    if "authorization" not in request.headers:
        return None
    try:
        if len(request.headers.get_all("authorization")) > 1:
            raise AuthorizationRefused("invalid_request", "Send the Authorization header once.")
        client_id, secret = _basic(request.header("authorization") or "")
        if not client_id:
            raise AuthorizationRefused(
                "invalid_client", "HTTP Basic must have the client_id as the user."
            )
        return await authenticate_client(request.environment, client_id, secret)
    except PorticoError as error:
        await _count_failure(request, error)
        raise


async def _count_failure(request: Request, error: PorticoError) -> None:
    """Counts a request without an authenticated client against its address. A failed
    authentication is audited, but only while the address is within its limit."""
    request.now = request.environment.clock()  # the body may have taken long to arrive
    await throttle.address(request)
    if isinstance(error, Unproven):
        await note_refusal(request.environment, error.client, request.by)


async def _client(request: Request, parameters: Mapping[str, str], named: Client | None) -> Client:
    """The client that calls, authenticated by HTTP Basic or in the body (RFC 6749 §2.3.1, RFC 7521
    §4.2)."""
    client_id, secret = parameters.get("client_id"), parameters.get("client_secret")
    assertion = parameters.get("client_assertion")
    if [named, secret, assertion].count(None) < 2:
        raise AuthorizationRefused(
            "invalid_request",
            "Authenticate in one way: by HTTP Basic, client_secret or client_assertion.",
        )
    if named is not None:
        if client_id not in (None, named.client_id):
            raise AuthorizationRefused(
                "invalid_request", "client_id must be the one of HTTP Basic."
            )
        return named
    if assertion is not None:
        if parameters.get("client_assertion_type") != CLIENT_ASSERTION_TYPE:
            raise AuthorizationRefused(
                "invalid_client", f"client_assertion_type must be {CLIENT_ASSERTION_TYPE}."
            )
        env, by = request.environment, request.by
        return await authenticate_by_assertion(env, client_id, assertion, by)
    if not client_id:
        raise AuthorizationRefused(
            "invalid_client", "Send client_id, and client_secret if you have one."
        )
    return await authenticate_client(request.environment, client_id, secret)


async def _count(request: Request, client: Client, parameters: Mapping[str, str]) -> None:
    """Counts a request against the client's owner. For a public client, which anyone can claim to
    be, against the user whose code or refresh token it sends, or else against the address."""
    env = request.environment
    request.now = env.clock()  # as in `_count_failure`
    user_id = client.user_id
    if client.public:
        code, refresh_token = parameters.get("code"), parameters.get("refresh_token")
        user_id = await user_of(env, client, code, refresh_token)
    payer = await env[Users].get(user_id) if user_id else None
    if payer is not None:
        await throttle.account(request, payer.id, payer.plan)
    elif client.public:
        await throttle.address(request)
    else:
        await throttle.client(request, client.id)


def missing_parameter(name: str) -> AuthorizationRefused:
    """The error for a missing required parameter."""
    return AuthorizationRefused("invalid_request", f"Send {name}.")


def refusal(error: PorticoError) -> Reply:
    """The reply to an error: the body of RFC 6749 §5.2, with the usual status and headers."""
    kind, status = _code_and_status(error)
    body = encode(OAuthError(kind, AuthorizationRefused(kind, error.message).message))
    headers = [("content-type", JSON), *NO_STORE]
    if status == 401:
        headers.append(("www-authenticate", 'Basic realm="Portico", charset="UTF-8"'))
    elif not isinstance(error, AuthorizationRefused):
        headers += [field for field in problem(error).headers if field not in headers]
    return Reply(status, body, headers)


def _code_and_status(error: PorticoError) -> tuple[str, int]:
    if isinstance(error, AuthorizationRefused):
        return error.error, 401 if error.error == "invalid_client" else 400
    status = status_of(type(error))
    if isinstance(error, RateLimited | Unavailable):
        return "temporarily_unavailable", status
    if status >= 500:
        return "server_error", status
    return "invalid_request", status


def _basic(header: str) -> tuple[str, str]:
    """Client id and secret of HTTP Basic, which are each form-encoded (RFC 6749 §2.3.1)."""
    scheme, _, text = header.partition(" ")
    try:
        named, found, secret = b64decode(text.lstrip(" "), validate=True).decode().partition(":")
    except ValueError:
        found = ""
    if scheme.lower() != "basic" or not found:
        raise AuthorizationRefused("invalid_client", "The Authorization header must be HTTP Basic.")
    return unquote_plus(named), unquote_plus(secret)


def _parameters(request: Request, body: bytes, shape: type[Struct] | None) -> dict[str, str]:
    """The parameters of a form or a JSON object. Empty ones count as omitted, and those that are
    not in `shape` are ignored (RFC 6749 §3.2)."""
    media = (request.header("content-type") or "").partition(";")[0].strip().lower()
    if request.listed("content-encoding"):
        raise UnsupportedMediaType("Send the body without a content encoding.")
    known = fields(shape) if shape else {}
    if media == FORM:
        pairs = _form(body)
    elif media == JSON:
        pairs = _json(body, known)
    else:
        raise UnsupportedMediaType(f"Send the parameters as {FORM} or {JSON}.")
    parameters: dict[str, str] = {}
    for name, value in pairs:
        if name not in known:
            continue
        if name in parameters and name == "resource":
            raise AuthorizationRefused("invalid_target", "Only one resource can be asked for.")
        if name in parameters:
            raise AuthorizationRefused("invalid_request", "A parameter was sent more than once.")
        if text_fault(value):
            raise AuthorizationRefused(
                "invalid_request", "A parameter holds a character that cannot be text."
            )
        parameters[name] = value
    return {name: value for name, value in parameters.items() if value}


def _as_form(shape: type[Struct] | None, parameters: Mapping[str, str]) -> Struct | None:
    """The parameters in their shape. Raises `AuthorizationRefused` if a required one is missing."""
    if shape is None:
        return None
    for name in required(shape):
        if name not in parameters:
            raise missing_parameter(name)
    return shape(**parameters)


def _form(body: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            body.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS
        )
    except ValueError:
        expected = f"send UTF-8, with at most {MAX_PARAMETERS} parameters"
        raise AuthorizationRefused(
            "invalid_request", f"The form cannot be read; {expected}."
        ) from None


def _json(body: bytes, known: Iterable[str]) -> list[tuple[str, str]]:
    try:
        members = read_json(body)
    except Unreadable as error:
        raise AuthorizationRefused("invalid_request", error.details[0].message) from None
    if not isinstance(members, dict):
        raise AuthorizationRefused("invalid_request", "The body must be a JSON object.")
    for name in known:
        if not isinstance(members.get(name, ""), str):
            raise AuthorizationRefused("invalid_request", f"{name} must be a string.")
    return [(name, value) for name, value in members.items() if isinstance(value, str)]
