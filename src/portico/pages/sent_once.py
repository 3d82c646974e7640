"""Forms that make something, once each, however often they are sent."""

from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import TypeVar

import msgspec

from portico.domain.audit import By
from portico.domain.errors import Conflict
from portico.domain.idempotency import Answer, Kept, KeyedRequest, keyed
from portico.http.messages import Reply
from portico.pages.site import Visit
from portico.services.change import AnsweredBefore

T = TypeVar("T")

ONCE = "once"
"""The field with the key that each form gets anew."""

_AGAIN = "This form is sent already; look in the list for what it has made."


def fresh_key(visit: Visit) -> str:
    """What `ONCE` holds in a form that nobody has sent."""
    return visit.env.random(16).hex()


async def sent_once(
    visit: Visit, make: Callable[[By], Awaitable[T]], reply: Callable[[T], Reply]
) -> Reply:
    """What `reply` answers to what `make` has made: where the same form is sent again with the
    same values, what it was answered the first time, in 24 hours. As `Idempotency-Key` of the API;
    both make one thing, or none. Raises what `make` raises."""
    known = _known(visit, (await visit.made_owner()).id)
    if kept := await visit.env.idempotency_keys.get(known, visit.request.now):
        return _replayed(kept)

    def answer(made: T) -> Answer:
        given = reply(made)
        return Answer(given.status, given.headers, given.body)

    by = msgspec.structs.replace(await visit.by(), request=known, answer=answer)
    try:
        return reply(await make(by))
    except AnsweredBefore:
        if kept := await visit.env.idempotency_keys.get(known, visit.request.now):
            return _replayed(kept)
        raise Conflict(_AGAIN) from None


def _known(visit: Visit, user_id: int) -> KeyedRequest:
    # With other values it is another form: a browser may have kept the key that it had before.
    sent = msgspec.json.encode(visit.form.pairs(but=("csrf",)))
    return keyed(user_id, f"page {visit.request.path}", sha256(sent).hexdigest(), b"")


def _replayed(kept: Kept) -> Reply:
    return Reply(kept.answer.status, kept.answer.body, kept.answer.headers)
