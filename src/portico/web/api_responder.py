"""How the JSON API answers a request, step by step:

authenticate → throttle → permission → kept answer, if any → id → permit → Accept → query → body →
idempotency → handler → what may be read → entity tag. Errors have the body of specification §7.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

import msgspec
from msgspec import Raw, Struct

from portico.core.caller import (
    READING_METHODS,
    Principal,
    may_read,
    require,
    require_all,
    require_method,
)
from portico.core.errors import (
    AuthenticationRequired,
    MethodNotAllowed,
    NotFound,
    PermissionDenied,
    PorticoError,
)
from portico.data.database import acting_for
from portico.web import throttle
from portico.web.authenticate import Authenticators, bearer
from portico.web.content import check_accept, check_content
from portico.web.cookies import Origins
from portico.web.envelope import Single
from portico.web.idempotency import Repeats, keyed_request
from portico.web.messages import (
    FORM,
    BodyRequest,
    NoBody,
    NoQuery,
    Origin,
    Reply,
    Request,
    json_reply,
)
from portico.web.problems import problem
from portico.web.reading import decode, decode_query, read_body, sent
from portico.web.representations import Representations, tagged
from portico.web.routing import PUBLIC_BODY_LIMIT, Access, Endpoint, PathMatch


class ApiResponder:
    """Answers the requests of the JSON API."""

    def __init__(
        self,
        authenticators: Authenticators,
        origins: Origins,
        kept: Representations,
        *,
        body_limit: int,
    ) -> None:
        """`body_limit` is in bytes and applies to callers with a credential. `kept` holds the
        answers that may be sent again."""
        self._authenticators = authenticators
        self._origins = origins
        self._kept = kept
        self._body_limit = body_limit
        self._repeats = Repeats()

    def serves(self, access: str | Access) -> bool:
        """Every access except that of OAuth clients."""
        return access is not Access.CLIENT

    def problem(self, request: Request, error: PorticoError) -> Reply:
        """The error body of specification §7."""
        return problem(error, request.environment.addresses.base)

    async def answer(
        self, request: Request, match: PathMatch, endpoint: Endpoint | None, id_texts: Sequence[str]
    ) -> Reply:
        """Takes the request through the steps of the module's docstring. Raises `PorticoError`."""
        if endpoint is not None and endpoint.public:
            await throttle.address(request, never_refused=endpoint.never_refused)
            if endpoint.route.same_origin:
                self._origins.check(request.headers)
        elif endpoint is None and match.is_public:
            await throttle.address(request)
            raise no_endpoint(request, match)
        else:
            if endpoint is not None and endpoint.route.token_in_form:
                request.form_token = await _form_token(request)
            await admit(request, self._authenticators, endpoint)
        if endpoint is None:
            require_method(request.caller, request.method)
            raise no_endpoint(request, match, match.environment.addresses.base)
        return await self.carry_out(request, endpoint, id_texts)

    async def carry_out(
        self, request: Request, endpoint: Endpoint, id_texts: Sequence[str]
    ) -> Reply:
        """Takes a request that was admitted and counted through all further steps. Raises
        `PorticoError`."""
        if not endpoint.public:
            require(request.caller, endpoint.scope, request.method)
            if endpoint.whole:
                require_all(request.caller)
        shows = endpoint.shows
        if shows is not None and (kept := await self._kept.find(request, endpoint)) is not None:
            return kept
        if id_texts:
            request.identify(id_texts, named=endpoint.route.named)
        if endpoint.permit is not None:
            endpoint.permit(request.caller, request.resource_id)
        check_accept(request, endpoint.media)
        if endpoint.query is not None:
            request.query = decode_query(endpoint.query, request.query_string)
        elif request.query_string:
            decode_query(NoQuery, request.query_string)
        body = b""
        if endpoint.body is not None:
            if not endpoint.route.bearer_instead:
                check_content(request)
            most = min(self._body_limit, PUBLIC_BODY_LIMIT) if endpoint.public else self._body_limit
            body = await request.read_body(most)
            request.body = await _decoded(request, endpoint, endpoint.body, body)
            if endpoint.route.permit_body is not None:  # also before a kept answer is replayed
                endpoint.route.permit_body(request.caller, request.body)
        elif endpoint.route.repeatable:
            body = await request.read_body(self._body_limit)
            if body:
                check_content(request)
                decode(NoBody, body)
                body = b""
        if endpoint.route.repeatable and (known := keyed_request(request, endpoint, body)):
            reply = await self._repeats.once(request, known, endpoint.handler)
        elif shows is not None:
            return await self._kept.read(request, endpoint, shows)
        else:
            reply = await endpoint.handler(request)
        if endpoint.reads and not may_read(request.caller, endpoint.reads, request.resource_id):
            reply = _sent_alone(request, reply)
        return _for_caches(request, endpoint, reply)


async def _form_token(request: Request) -> str | None:
    """The access token in the request's form, if it has one."""
    media = (request.header("content-type") or "").partition(";")[0].strip().lower()
    if media != FORM:
        return None
    await throttle.check_address(request)
    form = parse_qs((await request.read_body(PUBLIC_BODY_LIMIT)).decode("latin-1"))
    sent = form.get("access_token", [])
    if len(sent) > 1:
        raise AuthenticationRequired("Send the token once.", error="invalid_request")
    return sent[0] if sent else None


async def admit(
    request: Request,
    authenticators: Authenticators,
    endpoint: Endpoint | None,
    resource: str | None = None,
) -> None:
    """Authenticates the request and counts it against its account, or if the credential is not
    valid, against its address. An OAuth token must be for this `resource`; None: for the API.
    Raises `AuthenticationRequired`, `RateLimited` and `PermissionDenied`."""
    try:
        caller = authenticators.caller(request, resource)
        if not isinstance(caller, Principal):
            caller = await caller
    except (AuthenticationRequired, PermissionDenied) as refusal:
        await throttle.address(request)
        if isinstance(refusal, AuthenticationRequired) and endpoint is not None:
            refusal.scope = endpoint.scope
        raise
    request.caller = caller
    acting_for.set(caller.account_id or caller.user_id)  # as on the pages of a mirror user
    inside = request.origin.is_within(caller.admits)
    never_refused = uncounted = False
    if endpoint is not None:
        never_refused = endpoint.never_refused and caller.credential == "session"
        uncounted = endpoint.uncounted and endpoint.scope in caller.scopes and inside
    if not uncounted:
        await throttle.account(request, caller.user_id, caller.plan, never_refused=never_refused)
    if not inside:
        raise outside(request.origin)


def outside(origin: Origin) -> PermissionDenied:
    """The error for an API key that is used from elsewhere than its networks."""
    return PermissionDenied(
        f"This API key may not be used from {origin.address}; use it from one of its networks."
    )


async def _decoded(
    request: Request, endpoint: Endpoint, shape: type[Struct], body: bytes
) -> Struct | None:
    """The body in its shape; None if a bearer credential was sent instead."""
    if endpoint.route.bearer_instead:
        if not body:
            if bearer(request.headers) is None:
                raise AuthenticationRequired(
                    "Send the access token as a bearer credential, or the refresh token in the"
                    " body."
                )
            return None
        check_content(request)
    values, faults = read_body(shape, body, endpoint.route.most_values)
    further = endpoint.route.further_faults
    if further is not None and (faults.unreadable or faults.broken):
        for fault in await further(request, values):
            faults.breaks_rule(fault.field, fault.message)
    faults.check()
    return shape(**values)


def _sent_alone(request: BodyRequest[Any], reply: Reply) -> Reply:
    """The answer to a PATCH for a caller who may not read the resource: its id, and the fields that
    were sent, as they are now. Without an entity tag, against which the others could be guessed."""
    data = msgspec.json.decode(reply.body, type=Single[dict[str, Raw]]).data
    return json_reply(200, Single({"id": data["id"], **_chosen(data, sent(request.body))}))


def _chosen(fields: dict[str, Raw], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The wanted fields; of an object that was sent in parts, those of its parts."""
    chosen: dict[str, Any] = {}
    for name in wanted.keys() & fields.keys():
        inner, part = fields[name], wanted[name]
        if isinstance(part, dict):
            chosen[name] = _chosen(msgspec.json.decode(inner, type=dict[str, Raw]), part)
        else:
            chosen[name] = inner
    return chosen


def no_endpoint(request: Request, match: PathMatch, api: str = "") -> PorticoError:
    """The error for a method that the path does not have, or for an unknown path, as
    `nothing_here`."""
    if match.methods:
        allowed = sorted(match.methods)
        return MethodNotAllowed(
            f"{request.method} is not supported here; use {', '.join(allowed)}.", allowed
        )
    return nothing_here(api)


def nothing_here(api: str) -> NotFound:
    """The error for an unknown path. It names the API's address `api`, unless that is empty."""
    where = f" The API begins at {api}; {api}/docs describes it." if api else ""
    return NotFound(f"There is nothing at this path.{where}")


def _for_caches(request: Request, endpoint: Endpoint, reply: Reply) -> Reply:
    """Adds the route's `Cache-Control`, or to the answer of a read its entity tag."""
    if endpoint.cache_control:
        # Not to a replayed refusal, nor to an answer stored by an older release, which has it.
        if reply.status < 400 and "cache-control" not in dict(reply.headers):
            reply.headers.append(("cache-control", endpoint.cache_control))
    elif reply.status == 200 and request.method in READING_METHODS:
        return tagged(request, reply)
    return reply
