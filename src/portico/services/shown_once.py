"""Use cases of what is kept until its owner looks at it, and shown once: pages that hold a secret,
and forms whose session has ended.

Whoever makes a secret on a page is sent on to it, so that to load the page again makes no second
one. What waits is encrypted under a token that stands in its address alone, and is stored as a
digest: a copy of the database shows nothing, and every host can show the page.
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
"""How long the session that a page was shown to may load it again: the answer may have been lost on
the way."""

FORM_WAITS = HOUR
"""How long a form does."""

MAX_FORMS = 20
"""What may wait for a user when another form comes."""


async def keep_page(env: Environment, user_id: int, token: str, page: bytes, by: By) -> None:
    """Keeps a page for a user of `env`, for whoever brings `take_page` this token, of 256 random
    bits. Raises `NotFound` where the user is gone."""
    await _keep(env, user_id, token, page, _page_of(user_id), WAITS, by, most=None)


async def await_page(env: Environment, token: str) -> None:
    """Waits, a second at most, for a page that somebody is about to keep under this token."""
    for _ in range(20):
        if await env.shown_once.has(digest(token)):
            return
        await asyncio.sleep(0.05)


async def take_page(
    env: Environment, user_id: int, token: str, session_id: int, by: By
) -> bytes | None:
    """The page that was kept for this user under this token, which this session alone may see from
    now on, for `AGAIN`. None where it was taken before, has waited too long, or never was."""

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
    """Keeps a form that a user of `env` has filled; returns the token that `take_form` wants.
    Raises `NotFound` where the user is gone, and `Conflict` where too much waits for them."""
    token = mint("", env.random)
    await _keep(env, user_id, token, form, _form_of(user_id), FORM_WAITS, by, most=MAX_FORMS)
    return token


async def take_form(env: Environment, user_id: int, token: str, by: By) -> bytes | None:
    """The form that was kept so, and is gone now; None as `take_page`."""

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
            raise NotFound("This account is gone.")
        await change.check()
        if most is not None:
            waiting = await env.shown_once.waiting(change.tx, user_id, now=change.now)
            if waiting >= most:
                raise Conflict("Too many forms wait for you.")
        await env.shown_once.insert(
            change.tx,
            digest(token),
            user_id=user_id,
            page=sealed,
            expires_at=change.now + waits,
        )
        change.told_elsewhere()

    await env.change(by, work)


async def _opened(
    env: Environment,
    token: str,
    name: str,
    find: Callable[[Change], Awaitable[bytes | None]],
    by: By,
) -> bytes | None:
    """What `find` finds under a token, in a change of `by`; None where it finds nothing."""

    async def work(change: Change) -> bytes | None:
        await change.check()
        sealed = await find(change)
        if sealed is not None:
            change.told_elsewhere()
        return sealed

    sealed = await env.change(by, work)
    return None if sealed is None else _vault(env, token).open(sealed, name)


def _vault(env: Environment, token: str) -> Vault:
    return Vault(lambda: [token.encode()], env.random)


def _page_of(user_id: int) -> str:
    return f"shown once to {user_id}"


def _form_of(user_id: int) -> str:
    return f"form of {user_id}"
