"""Requests that come again with the same `Idempotency-Key` (decisions §7).

The answer is kept in the transaction of its effect, so that both happen or neither: a client that
heard nothing may send the request again, as often as it likes, for 24 hours.
"""

import msgspec

from portico.domain.errors import (
    AuthenticationRequired,
    Conflict,
    Fault,
    Internal,
    Invalid,
    PermissionDenied,
    PorticoError,
    RateLimited,
    Unavailable,
    invalid,
    unreadable,
)
from portico.domain.idempotency import HEADER, KEY_LENGTH, Answer, Kept, KeyedRequest, is_key, keyed
from portico.http.messages import Handler, Reply, Request
from portico.http.problems import problem
from portico.http.routing import Endpoint
from portico.services.change import AnsweredBefore

REPLAYED = ("idempotent-replayed", "true")

NOT_KEPT = (
    *(Internal, Unavailable, AuthenticationRequired, PermissionDenied, RateLimited),
    Invalid,
)
"""Refusals that say nothing about the request itself, so that the next one with the key, later or
with another credential, counts as the first. And what fails validation."""

_UNDER_WAY = f"A request with this {HEADER} is under way; wait for its answer."


def keyed_request(request: Request, endpoint: Endpoint, body: bytes) -> KeyedRequest | None:
    """What a request with a key is known by, None for one without. Raises `Unreadable`."""
    key = request.listed(HEADER.lower())
    if key is None:
        return None
    if not is_key(key):
        low, high = KEY_LENGTH
        message = f"must be sent once, and be {low} to {high} visible ASCII characters"
        raise unreadable(Fault(HEADER, message))
    # The pattern does not tell one resource from another.
    route = request.path if endpoint.ids else endpoint.path
    if endpoint.body is None and not endpoint.ids:
        # What has no body is about the credential that it comes with.
        route += f"#{request.caller.credential}.{request.caller.credential_id}"
    return keyed(request.caller.user_id, route, key, body)


class Repeats:
    """The requests with a key that this process is answering."""

    def __init__(self) -> None:
        self._under_way: set[tuple[str, int, str, bytes]] = set()

    async def once(self, request: Request, known: KeyedRequest, handler: Handler) -> Reply:
        """The handler's answer, or the one that an earlier request with the same key got.

        Raises `Conflict` while another one is under way, `Invalid` for another body.
        """
        env = request.environment
        one = (env.name, known.user_id, known.route, known.key_hash)
        if one in self._under_way:
            raise Conflict(_UNDER_WAY)
        self._under_way.add(one)
        try:
            kept = await env.idempotency_keys.get(known, request.now)
            if kept is not None:
                return _replayed(known, kept)
            request.keyed = known
            return await _first(request, known, handler)
        finally:
            self._under_way.discard(one)


async def _first(request: Request, known: KeyedRequest, handler: Handler) -> Reply:
    """The handler's answer; another process's, where that was quicker."""
    try:
        return await handler(request)
    except AnsweredBefore:
        return await _other(request, known)
    except NOT_KEPT:
        raise
    except PorticoError as error:
        refusal = problem(error)
        by = msgspec.structs.replace(request.by, request=known)
        try:
            answer = Answer(refusal.status, refusal.headers, refusal.body)
            await request.environment.change.keep_refusal(by, answer)
        except AnsweredBefore:
            # What refused this one may be the other's effect: its e-mail is taken by itself.
            return await _other(request, known)
        raise


async def _other(request: Request, known: KeyedRequest) -> Reply:
    kept = await request.environment.idempotency_keys.get(known, request.now)
    if kept is None:
        raise Conflict(_UNDER_WAY)
    return _replayed(known, kept)


def _replayed(known: KeyedRequest, kept: Kept) -> Reply:
    if kept.body_hash != known.body_hash:
        raise invalid(Fault(HEADER, "was used before with another body; take a new one"))
    answer = kept.answer
    return Reply(answer.status, answer.body, [*answer.headers, REPLAYED])
