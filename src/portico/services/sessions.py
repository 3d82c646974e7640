"""Use cases of cookie sessions: open one at sign-in, end it."""

from typing import NamedTuple

from portico.domain.audit import Actor
from portico.domain.secrets import digest, mint
from portico.domain.sessions import MAX_SECONDS, Session
from portico.domain.times import SECOND
from portico.domain.users import User
from portico.services.environment import Environment
from portico.services.sign_in import Attempt, check_password, note_sign_in, still

USER_AGENT_LENGTH = 300


class Opened(NamedTuple):
    """A new session with the secret that its cookie carries."""

    session: Session
    secret: str
    user: User


async def open_session(
    env: Environment, attempt: Attempt, *, user_agent: str, instead_of: str | None
) -> Opened:
    """Signs in. The session of the cookie `instead_of`, if there is one, ends: nobody who planted
    it gets any further with it. Raises as `check_password` does."""
    user = await check_password(env, attempt)
    secret = mint("", env.random(32))
    now = env.clock()
    replaced = await env.sessions.by_hash(digest(instead_of)) if instead_of else None
    async with env.db.transaction() as tx:
        user = await still(env, tx, user)
        if replaced is not None:
            await env.sessions.delete(tx, replaced.session.id)
        session = await env.sessions.insert(
            tx,
            user_id=user.id,
            token_hash=digest(secret),
            address=attempt.address,
            user_agent=user_agent[:USER_AGENT_LENGTH],
            now=now,
            expires_at=now + MAX_SECONDS * SECOND,
        )
        user = await note_sign_in(env, tx, user, attempt, "session", session.id)
    return Opened(session, secret, user)


async def close_session(env: Environment, by: Actor) -> None:
    """Ends the session that `by` acts with."""
    async with env.db.transaction() as tx:
        if await env.sessions.delete(tx, by.credential_id or 0):
            await env.audit.record(
                tx, by, env.clock(), "sign_out", target="session", target_id=by.credential_id
            )
