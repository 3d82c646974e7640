"""Use cases of pages that show a secret: each is stored until its owner takes it, once.

A form that creates a secret redirects to the page that shows it, so reloading creates no second
secret. The page is encrypted under a token that is only in its address; the database has its
digest. So a copy of the database reveals nothing, and every host can show the page.
"""

from portico.change import Change
from portico.core.audit import Author
from portico.core.errors import NotFound
from portico.core.secrets import digest
from portico.core.times import MINUTE, SECOND
from portico.data.vault import Vault
from portico.environment import Environment
from portico.features.people.storage import Users

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
