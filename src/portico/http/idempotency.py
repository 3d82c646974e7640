"""Requests that come again with the same `Idempotency-Key` (decisions §7).

The answer is kept in the transaction of its effect, so that both happen or neither: a client that
heard nothing may send the request again, as often as it likes, for 24 hours.
"""

from hashlib import sha256

from portico.domain.errors import (
    Conflict,
    Fault,
    Internal,
    Invalid,
    PorticoError,
    Unavailable,
    Unreadable,
)
from portico.domain.idempotency import KEY_LENGTH, Attempt, Kept, well_formed
from portico.http.messages import Handler, Overtaken, Reply, Request
from portico.http.problems import problem

HEADER = "Idempotency-Key"
REPLAYED = ("idempotent-replayed", "true")

_LOST = (Internal, Unavailable)
"""Nothing has happened, so the next attempt is the first."""


def attempt_of(request: Request, route: str, body: bytes) -> Attempt | None:
    """The attempt that a request is, if it has a key. Raises `Unreadable`."""
    key = request.listed(HEADER.lower())
    if key is None:
        return None
    if not well_formed(key):
        low, high = KEY_LENGTH
        message = f"must be sent once, and be {low} to {high} visible ASCII characters"
        raise Unreadable("The request could not be read.", [Fault(HEADER, message)])
    return Attempt(
        request.caller.user_id, route, sha256(key.encode()).digest(), sha256(body).digest()
    )


async def once(request: Request, attempt: Attempt, handler: Handler) -> Reply:
    """The handler's answer, or the one that it gave to an earlier attempt.

    Raises `Conflict` while another attempt is under way, `Invalid` for another body.
    """
    env = request.environment
    under_way = (attempt.user_id, attempt.route, attempt.key_hash)
    if under_way in env.under_way:
        raise Conflict(f"A request with this {HEADER} is under way; wait for its answer.")
    env.under_way.add(under_way)
    try:
        kept = await env.idempotency_keys.get(attempt, request.now)
        if kept is not None:
            return _replayed(attempt, kept)
        request.attempt = attempt
        try:
            return await handler(request)
        except Overtaken:  # another process was quicker
            kept = await env.idempotency_keys.get(attempt, request.now)
            if kept is None:
                raise Conflict(f"A request with this {HEADER} is under way.") from None
            return _replayed(attempt, kept)
        except _LOST:
            raise
        except PorticoError as error:
            await _keep_refusal(request, attempt, problem(error))
            raise
    finally:
        env.under_way.discard(under_way)


async def _keep_refusal(request: Request, attempt: Attempt, reply: Reply) -> None:
    """Keeps a refusal, which had no effect to be kept with."""
    env = request.environment
    async with env.db.transaction() as tx:
        await env.idempotency_keys.keep(
            tx,
            attempt,
            request.now,
            status=reply.status,
            headers=reply.headers,
            body=reply.body,
        )


def _replayed(attempt: Attempt, kept: Kept) -> Reply:
    if kept.body_hash != attempt.body_hash:
        raise Invalid(
            "Some fields have values that are not allowed.",
            [Fault(HEADER, "was used before with another body; take a new one")],
        )
    return Reply(kept.status, kept.body, [*kept.headers, REPLAYED])
