"""Requests that are repeated with the same `Idempotency-Key` (decisions §7).

The answer is stored in the transaction of the change, so that either both are stored or neither: a
client that got no answer can safely repeat the request for 24 hours.
"""

import msgspec

from portico.change import AnsweredBefore, IdempotencyKeys
from portico.core.audit import HEADER, KEY_LENGTH, Answer, Kept, KeyedRequest, is_key, keyed
from portico.core.errors import (
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
from portico.web.messages import Handler, Reply, Request
from portico.web.problems import problem
from portico.web.routing import Endpoint

REPLAYED = ("idempotent-replayed", "true")

NOT_KEPT = (
    *(Internal, Unavailable, AuthenticationRequired, PermissionDenied, RateLimited),
    Invalid,
)
"""Errors that are not stored, unless a rule of a kind refused. All but `Invalid` say nothing about
the request itself, so the next one with the key, later or with another credential, counts as the
first."""

_IN_PROGRESS = f"A request with this {HEADER} is in progress; try again once it has ended."


def keyed_request(request: Request, endpoint: Endpoint, body: bytes) -> KeyedRequest | None:
    """What identifies a request with a key; None without a key. Raises `Unreadable`."""
    key = request.listed(HEADER.lower())
    if key is None:
        return None
    if not is_key(key):
        low, high = KEY_LENGTH
        message = f"must be sent once, and be {low} to {high} visible ASCII characters"
        raise unreadable(Fault(HEADER, message))
    # The path's pattern does not tell one resource from another.
    route = request.path if endpoint.ids else endpoint.path
    if endpoint.body is None and not endpoint.ids:
        # A request without a body or an id acts on the credential that it is sent with.
        route += f"#{request.caller.credential}.{request.caller.credential_id}"
    return keyed(request.caller.user_id, route, key, body)


class Repeats:
    """The requests with a key that this process is answering."""

    def __init__(self) -> None:
        self._in_progress: set[tuple[str, int, str, bytes]] = set()

    async def once(self, request: Request, known: KeyedRequest, handler: Handler) -> Reply:
        """The handler's answer, or that of an earlier request with the same key.

        Raises `Conflict` while that request is in progress, and `Invalid` if its body differed.
        """
        env = request.environment
        one = (env.name, known.user_id, known.route, known.key_hash)
        if one in self._in_progress:
            raise Conflict(_IN_PROGRESS)
        self._in_progress.add(one)
        try:
            kept = await env[IdempotencyKeys].get(known, request.now)
            if kept is not None:
                return _replayed(known, kept)
            request.keyed = known
            return await _first(request, known, handler)
        finally:
            self._in_progress.discard(one)


async def _first(request: Request, known: KeyedRequest, handler: Handler) -> Reply:
    """The handler's answer, or that of another process which was faster."""
    try:
        return await handler(request)
    except AnsweredBefore:
        return await _others_answer(request, known)
    except PorticoError as error:
        if isinstance(error, NOT_KEPT) and not error.by_rule:
            raise
        refusal = problem(error)
        by = msgspec.structs.replace(request.by, request=known)
        try:
            answer = Answer(refusal.status, refusal.headers, refusal.body)
            await request.environment.change.keep_refusal(by, answer)
        except AnsweredBefore:
            # The other request may have caused this error: the e-mail is taken by its user.
            return await _others_answer(request, known)
        raise


async def _others_answer(request: Request, known: KeyedRequest) -> Reply:
    kept = await request.environment[IdempotencyKeys].get(known, request.now)
    if kept is None:
        raise Conflict(_IN_PROGRESS)
    return _replayed(known, kept)


def _replayed(known: KeyedRequest, kept: Kept) -> Reply:
    if kept.body_hash != known.body_hash:
        raise invalid(Fault(HEADER, "was used before with another body; use a new key"))
    answer = kept.answer
    return Reply(answer.status, answer.body, [*answer.headers, REPLAYED])
