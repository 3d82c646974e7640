"""Forms that create something once, however often they are sent, and pages that show a secret once.

A form that creates a secret redirects to the page that shows it, so reloading creates no second
secret. The page is encrypted under a token that is only in its address; the database has its
digest. So a copy of the database reveals nothing, and every host can show the page.
"""

import hmac
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import TypeVar

import msgspec

from portico.change import AnsweredBefore, Change, IdempotencyKeys
from portico.core.audit import Answer, Author, Kept, KeyedRequest, keyed
from portico.core.errors import Conflict, Gone, NotFound, PorticoError
from portico.core.secrets import base64url, digest, mint
from portico.core.times import MINUTE, SECOND
from portico.core.users import User
from portico.data.vault import Vault
from portico.environment import Environment
from portico.features.people.storage import Users
from portico.features.signin.pages.step_up import PASSKEY, PASSWORD, TOKEN
from portico.web.messages import Reply
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
    token = base64url(hmac.digest(key.encode(), place + _sent(visit), "sha256"))
    made: list[T] = []

    async def making(by: Author) -> T:
        made.append(await make(by))
        return made[0]

    await sent_once(visit, making, lambda _: visit.go(ONCE_PATH))
    if made:
        text = page(made[0]).body
        await keep_page(accounts, visit.user.id, token, text, visit.request.by)
    return visit.go(ONCE_PATH, page=token)


async def once(visit: Visit, page: Reply, user: User) -> Reply:
    """Redirect to a page that holds a secret, so that it is shown once and only to this user.
    Loading the page again does not create a second secret."""
    accounts = visit.site.accounts.environment
    token = mint("", accounts.random)
    # Signing in has just ended the session that the browser had.
    await keep_page(accounts, user.id, token, page.body, visit.request.by.without_principal)
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


WAITS = 5 * MINUTE
"""How long a page waits, in milliseconds."""

AGAIN = 30 * SECOND
"""How long the session that has seen a page may load it again, in milliseconds: the answer may have
been lost on the way."""

_INSERT = """
INSERT INTO shown_once (token_hash, user_id, page, expires_at)
VALUES (:hash, :user_id, :page, :until)
ON CONFLICT (token_hash) DO UPDATE SET page = excluded.page, expires_at = excluded.expires_at"""
# Single use: of concurrent visits, in any process, exactly one finds the row.
_MOVE = """
UPDATE shown_once SET token_hash = :again, expires_at = :until
WHERE token_hash = :hash AND user_id = :user_id AND expires_at > :now"""
_PAGE = """
SELECT page FROM shown_once WHERE token_hash = :hash AND user_id = :user_id AND expires_at > :now"""


async def keep_page(env: Environment, user_id: int, token: str, page: bytes, by: Author) -> None:
    """Keeps a page for a user of `env`. `take_page` returns it for the token, which has 256 random
    bits. Raises `NotFound` if the user was deleted."""
    sealed = _vault(env, token).seal(page, _name(user_id))

    async def work(change: Change) -> None:
        if await change.lock(env[Users], user_id) is None:
            raise NotFound("This account was deleted.")
        await change.check()
        values = {"hash": digest(token), "user_id": user_id, "page": sealed}
        await change.tx.run(_INSERT, {**values, "until": change.now + WAITS})
        change.noted_elsewhere()

    await env.change(by, work)


async def take_page(
    env: Environment, user_id: int, token: str, session_id: int, by: Author
) -> bytes | None:
    """The page that was kept for this user under this token. From now on only this session may see
    it again, for `AGAIN`. None if it was already taken, has expired, or does not exist."""

    async def work(change: Change) -> bytes | None:
        await change.check()
        again = digest(f"{session_id} {token}")
        key = {"hash": digest(token), "user_id": user_id, "now": change.now}
        await change.tx.run(_MOVE, {**key, "again": again, "until": change.now + AGAIN})
        row = await change.tx.one(_PAGE, {**key, "hash": again})
        if row is None:
            return None
        change.noted_elsewhere()
        return bytes(row[0])

    sealed = await env.change(by, work)
    return None if sealed is None else _vault(env, token).open(sealed, _name(user_id))


def _vault(env: Environment, token: str) -> Vault:
    return Vault(lambda: [token.encode()], env.random)


def _name(user_id: int) -> str:
    return f"shown once to {user_id}"


PAGES = (PageRoute("GET", ONCE_PATH, show),)
