"""Use cases of cookie sessions: open one at sign-in, close it."""

from typing import NamedTuple

from portico.change import Change
from portico.core.audit import Author
from portico.core.errors import NotFound
from portico.core.secrets import digest, mint
from portico.core.sessions import MAX_SECONDS, Session
from portico.core.times import SECOND
from portico.core.users import User
from portico.environment import Environment
from portico.features.access.backchannel import announce_end
from portico.features.access.credentials import ENDED
from portico.features.signin.rules import SessionRevoked, SignedOut
from portico.features.signin.service import (
    Proven,
    is_proof,
    lock_proven_user,
    note_sign_in,
    tell_new_device,
)
from portico.features.signin.storage import Sessions

USER_AGENT_LENGTH = 300


class Browser(NamedTuple):
    """The browser that signs in: its `User-Agent`, the cookie of the session that it already has,
    if any, and the `device` cookie that identifies it, if any."""

    agent: str
    cookie: str | None
    device: str | None = None


class Opened(NamedTuple):
    """A new session and its owner, with the secret for its cookie."""

    session: Session
    secret: str
    user: User


async def read_session(env: Environment, session_id: int) -> Session:
    """The session. Raises `NotFound` if it has ended."""
    session = await env[Sessions].get(session_id)
    if session is None:
        raise NotFound(ENDED)
    return session


async def open_session(env: Environment, proven: Proven, by: Author, browser: Browser) -> Opened:
    """Signs in. The session that the browser already has ends, in case an attacker planted it;
    OAuth clients see it go on if it was the same user's. Raises what `lock_proven_user` raises."""
    secret = mint("", env.random)
    replaced = await env[Sessions].by_hash(digest(browser.cookie)) if browser.cookie else None

    sid = env.random(16).hex()
    if replaced is not None and replaced.session.user_id == proven.user.id:
        sid = replaced.session.sid

    async def work(change: Change) -> Opened:
        current = await lock_proven_user(env, change, proven)
        if replaced is not None:
            ended = await env[Sessions].delete(change.tx, replaced.session.id)
            if ended is not None:
                change.note(SessionRevoked(ended, replaced=True))
                if ended.sid != sid:
                    await announce_end(env, change, ended)
        session = await env[Sessions].insert(
            change.tx,
            user_id=current.id,
            token_hash=digest(secret),
            address=by.address,
            user_agent=browser.agent[:USER_AGENT_LENGTH],
            amr=proven.amr,
            now=change.now,
            expires_at=change.now + MAX_SECONDS * SECOND,
            proved_at=change.now if is_proof(proven, current) else 0,
            sid=sid,
        )
        user, is_new_device = await note_sign_in(
            env,
            change,
            current,
            proven,
            "session",
            session.id,
            device=browser.device,
        )
        if is_new_device:
            await tell_new_device(env, change, user, browser.agent)
        return Opened(session, secret, user)

    return await env.change(proven.by(by), work)


async def close_session(env: Environment, by: Author) -> None:
    """Ends the session that `by` is authenticated with."""
    session_id = by.actor.credential_id or 0

    async def work(change: Change) -> None:
        ended = await env[Sessions].delete(change.tx, session_id)
        if ended is not None:
            await announce_end(env, change, ended)
            change.note(SignedOut(session_id))

    # If two do this at once, the second finds nothing to end, which is no error.
    await env.change(by.without_principal, work)
