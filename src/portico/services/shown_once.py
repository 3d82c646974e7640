"""Use cases of texts that are stored until their owner takes them, once: pages that show a secret,
and forms whose sender's session has ended.

A form that creates a secret redirects to the page that shows it, so reloading creates no second
secret. The text is encrypted under a token that is only in the page's address; the database has its
digest. So a copy of the database reveals nothing, and every host can show the page.
"""

import asyncio
from collections.abc import Awaitable, Callable

from portico.domain.audit import By
from portico.domain.errors import Conflict, NotFound
from portico.domain.secrets import digest, mint
from portico.domain.times import HOUR, MINUTE, SECOND
from portico.services.change import Change
from portico.services.environment import Environment
from portico.services.vault import Vault

WAITS = 5 * MINUTE
"""How long a page waits, in milliseconds."""

AGAIN = 30 * SECOND
"""How long the session that has seen a page may load it again, in milliseconds: the answer may have
been lost on the way."""

FORM_WAITS = HOUR
"""How long a form waits, in milliseconds."""

MAX_FORMS = 20
"""How many pages and forms may wait for a user before another form is refused."""


async def keep_page(env: Environment, user_id: int, token: str, page: bytes, by: By) -> None:
    """Keeps a page for a user of `env`. `take_page` returns it for the token, which has 256 random
    bits. Raises `NotFound` if the user was deleted."""
    await _keep(env, user_id, token, page, _page_of(user_id), WAITS, by, most=None)


async def await_page(env: Environment, token: str) -> None:
    """Waits, at most a second, until another request has kept a page under this token."""
    for _ in range(20):
        if await env.shown_once.has(digest(token)):
            return
        await asyncio.sleep(0.05)


async def take_page(
    env: Environment, user_id: int, token: str, session_id: int, by: By
) -> bytes | None:
    """The page that was kept for this user under this token. From now on only this session may see
    it again, for `AGAIN`. None if it was already taken, has expired, or does not exist."""

    async def show(change: Change) -> bytes | None:
        return await env.shown_once.show(
            change.tx,
            digest(token),
            again=digest(f"{session_id} {token}"),
            until=change.now + AGAIN,
            user_id=user_id,
            now=change.now,
        )

    return await _opened(env, token, _page_of(user_id), show, by)


async def keep_form(env: Environment, user_id: int, form: bytes, by: By) -> str:
    """Keeps a form that a user of `env` has filled in; returns the token for `take_form`. Raises
    `NotFound` if the user was deleted, and `Conflict` if too much waits for them already."""
    token = mint("", env.random)
    await _keep(env, user_id, token, form, _form_of(user_id), FORM_WAITS, by, most=MAX_FORMS)
    return token


async def take_form(env: Environment, user_id: int, token: str, by: By) -> bytes | None:
    """Takes and deletes the form with this token; None as for `take_page`."""

    async def take(change: Change) -> bytes | None:
        return await env.shown_once.take(change.tx, digest(token), user_id=user_id, now=change.now)

    return await _opened(env, token, _form_of(user_id), take, by)


async def _keep(
    env: Environment,
    user_id: int,
    token: str,
    text: bytes,
    name: str,
    waits: int,
    by: By,
    *,
    most: int | None,
) -> None:
    sealed = _vault(env, token).seal(text, name)

    async def work(change: Change) -> None:
        if await change.lock(env.users, user_id) is None:
            raise NotFound("This account was deleted.")
        await change.check()
        if most is not None:
            waiting = await env.shown_once.waiting(change.tx, user_id, now=change.now)
            if waiting >= most:
                raise Conflict("Too many of your forms are waiting; try again in an hour.")
        await env.shown_once.insert(
            change.tx,
            digest(token),
            user_id=user_id,
            page=sealed,
            expires_at=change.now + waits,
        )
        change.noted_elsewhere()

    await env.change(by, work)


async def _opened(
    env: Environment,
    token: str,
    name: str,
    find: Callable[[Change], Awaitable[bytes | None]],
    by: By,
) -> bytes | None:
    """Decrypts what `find` returns, which runs in a change by `by`; None if it returns None."""

    async def work(change: Change) -> bytes | None:
        await change.check()
        sealed = await find(change)
        if sealed is not None:
            change.noted_elsewhere()
        return sealed

    sealed = await env.change(by, work)
    return None if sealed is None else _vault(env, token).open(sealed, name)


def _vault(env: Environment, token: str) -> Vault:
    return Vault(lambda: [token.encode()], env.random)


def _page_of(user_id: int) -> str:
    return f"shown once to {user_id}"


def _form_of(user_id: int) -> str:
    return f"form of {user_id}"
