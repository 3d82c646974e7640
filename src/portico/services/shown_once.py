"""Use cases of pages that hold a secret: each is kept until its owner looks at it, and shown once.

Whoever makes a secret on a page is sent on to it, so that to load the page again makes no second
one. What waits is encrypted under a token that stands in its address alone, and is stored as a
digest: a copy of the database shows nothing, and every host can show the page.
"""

from portico.domain.audit import By
from portico.domain.errors import NotFound
from portico.domain.secrets import RANDOM_BYTES, digest, mint
from portico.domain.times import MINUTE
from portico.services.change import Change
from portico.services.environment import Environment
from portico.services.vault import Vault

WAITS = 5 * MINUTE
"""How long a page waits, in milliseconds."""


async def keep_page(env: Environment, user_id: int, page: bytes, by: By) -> str:
    """Keeps a page for a user of `env`; returns the token that `take_page` wants. Raises
    `NotFound` where the user is gone."""
    token = mint("", env.random(RANDOM_BYTES))
    sealed = _vault(env, token).seal(page, _name(user_id))

    async def work(change: Change) -> None:
        if await change.lock(env.users, user_id) is None:
            raise NotFound("This account is gone.")
        await change.check()
        await env.shown_once.insert(
            change.tx,
            digest(token),
            user_id=user_id,
            page=sealed,
            expires_at=change.now + WAITS,
        )
        change.told_elsewhere()

    await env.change(by, work)
    return token


async def take_page(env: Environment, user_id: int, token: str, by: By) -> bytes | None:
    """The page that was kept for this user under this token, and is gone now. None where it was
    taken before, has waited too long, or never was."""

    async def work(change: Change) -> bytes | None:
        await change.check()
        sealed = await env.shown_once.take(
            change.tx, digest(token), user_id=user_id, now=change.now
        )
        if sealed is not None:
            change.told_elsewhere()
        return sealed

    sealed = await env.change(by, work)
    return None if sealed is None else _vault(env, token).open(sealed, _name(user_id))


def _vault(env: Environment, token: str) -> Vault:
    return Vault(token.encode, env.random)


def _name(user_id: int) -> str:
    return f"shown once to {user_id}"
