"""Forms that create something once, however often they are sent."""

from collections.abc import Awaitable, Callable
from hashlib import sha256
from hmac import digest
from typing import TypeVar

import msgspec

from portico.change import AnsweredBefore, IdempotencyKeys
from portico.core.audit import Answer, Author, Kept, KeyedRequest, keyed
from portico.core.errors import Conflict, Gone, PorticoError
from portico.core.secrets import base64url
from portico.features.signin.pages.step_up import PASSKEY, PASSWORD, TOKEN
from portico.web.messages import Reply
from portico.web.pages.shown_once import keep_page, take_page
from portico.web.pages.site import ONCE, ONCE_PATH, PageRoute, Visit, html

T = TypeVar("T")

_AGAIN = "This form was already sent. Find what it created in the list."


def fresh_key(visit: Visit) -> str:
    """A new value of `ONCE`, for a form that was not sent yet."""
    return visit.env.random(16).hex()


async def sent_once(
    visit: Visit, make: Callable[[Author], Awaitable[T]], reply: Callable[[T], Reply]
) -> Reply:
    """Call `make`, and return `reply` of its result. If the same form is sent again within 24 hours
    with the same values, it gets the first reply, as by `Idempotency-Key` in the API; both create
    one thing, or none. A form without a key is a new one each time. Raises what `make` raises.
    """
    if not visit.form.text(ONCE):
        return reply(await make(await visit.by()))
    known = _known(visit, (await visit.made_owner()).id)
    if kept := await visit.env[IdempotencyKeys].get(known, visit.request.now):
        return _replayed(kept)

    def answer(made: T) -> Answer:
        given = reply(made)
        return Answer(given.status, given.headers, given.body)

    by = msgspec.structs.replace(await visit.by(), request=known, answer=answer)
    try:
        return reply(await make(by))
    except (AnsweredBefore, PorticoError) as error:
        # The same form may have been handled just now, which may be why this one is refused.
        if kept := await visit.env[IdempotencyKeys].get(known, visit.request.now):
            return _replayed(kept)
        if isinstance(error, AnsweredBefore):
            raise Conflict(_AGAIN) from None
        raise


async def shown_once(
    visit: Visit, make: Callable[[Author], Awaitable[T]], page: Callable[[T], Reply]
) -> Reply:
    """As `sent_once`, for a result that holds a secret: each reply redirects to its `page`, which
    is shown once."""
    accounts = visit.site.accounts.environment
    # Derived from the form's key, so that no kept answer holds the token.
    key = visit.form.text(ONCE) or fresh_key(visit)
    place = f"{visit.user.id} {visit.request.path}\n".encode()
    token = base64url(digest(key.encode(), place + _sent(visit), "sha256"))
    made: list[T] = []

    async def making(by: Author) -> T:
        made.append(await make(by))
        return made[0]

    await sent_once(visit, making, lambda _: visit.go(ONCE_PATH))
    if made:
        text = page(made[0]).body
        await keep_page(accounts, visit.user.id, token, text, visit.request.by)
    return visit.go(ONCE_PATH, page=token)


def _sent(visit: Visit) -> bytes:
    # Without CSRF token and step-up proof: a form sent again with these is still the same form.
    return msgspec.json.encode(visit.form.pairs(but=("csrf", TOKEN, PASSWORD, PASSKEY)))


def _known(visit: Visit, user_id: int) -> KeyedRequest:
    # Other values make it another form: a browser may fill in the key of an earlier one.
    key = sha256(_sent(visit)).hexdigest()
    return keyed(user_id, f"page {visit.request.path}", key, b"")


def _replayed(kept: Kept) -> Reply:
    return Reply(kept.answer.status, kept.answer.body, kept.answer.headers)


_SHOWN = (
    "This page is shown only once, within five minutes, and its secret cannot be looked up. If you"
    " did not save it, create a new one and revoke this one."
)


async def show(visit: Visit) -> Reply:
    """GET /once. HEAD does not count as the one view, and shows nothing."""
    if visit.request.method == "GET":
        accounts = visit.site.accounts.environment
        page = await take_page(
            accounts, visit.user.id, visit.sent("page"), visit.session_id, visit.request.by
        )
        if page is not None:
            return html(page.decode(), 200)
    raise Gone(_SHOWN)


PAGES = (PageRoute("GET", ONCE_PATH, show),)
