"""Use cases of ending what signing in and consenting have begun.

With `of_user`, what belongs to another user counts as not there: for callers who may end only their
own.
"""

from contextlib import suppress

import msgspec

from portico.domain.audit import Actor
from portico.domain.errors import NotFound
from portico.domain.secrets import digest
from portico.services.environment import Environment


async def end_session(
    env: Environment, session_id: int, by: Actor, *, of_user: int | None = None
) -> None:
    """Ends a cookie session at once. Raises `NotFound`."""
    async with env.db.transaction() as tx:
        session = await env.sessions.get(session_id, tx)
        if session is None or of_user not in (None, session.user_id):
            raise NotFound(f"There is no session {session_id}.")
        await env.sessions.delete(tx, session_id)
        await env.audit.record(
            tx,
            by,
            env.clock(),
            "session.revoked",
            target="session",
            target_id=session_id,
            details={"user_id": session.user_id},
        )


async def end_grant(
    env: Environment, grant_id: int, by: Actor, *, of_user: int | None = None
) -> None:
    """Ends a login or a consent at once, with all its tokens. Raises `NotFound`, also for one that
    was revoked before."""
    now = env.clock()
    async with env.db.transaction() as tx:
        grant = await env.grants.get(grant_id, tx)
        if (
            grant is None
            or of_user not in (None, grant.user_id)
            or not await env.grants.revoke(tx, grant_id, now)
        ):
            raise NotFound(f"There is no grant {grant_id}.")
        details = {"user_id": grant.user_id, "client_id": grant.client_id}
        await env.audit.record(
            tx, by, now, "grant.revoked", target="grant", target_id=grant_id, details=details
        )


async def sign_out_everywhere(
    env: Environment, user_id: int, by: Actor, *, but_session: int = 0
) -> tuple[int, int]:
    """Ends a user's sessions, but for one, with all logins and consents; API keys stay. Returns how
    many sessions and how many grants it ended. Raises `NotFound`."""
    now = env.clock()
    async with env.db.transaction() as tx:
        if await env.users.get(user_id, tx) is None:
            raise NotFound(f"There is no user {user_id}.")
        sessions = await env.sessions.delete_of_user(tx, user_id, but=but_session)
        grants = await env.grants.revoke_of_user(tx, user_id, now)
        details = {"sessions": sessions, "grants": grants}
        await env.audit.record(
            tx, by, now, "sign_out.everywhere", target="user", target_id=user_id, details=details
        )
    return sessions, grants


async def log_out(
    env: Environment, *, access_token: str | None, refresh_token: str | None, by: Actor
) -> None:
    """Ends the logins that these tokens belong to, also where they have expired since. What is
    unknown, an application's or ended before is left as it is, without an error."""
    found = [
        await env.grants.by_access(digest(access_token)) if access_token else None,
        await env.grants.by_refresh(digest(refresh_token)) if refresh_token else None,
    ]
    for owned in found:
        if owned is None or owned.grant.client_id is not None:
            continue
        grant = owned.grant
        whose = msgspec.structs.replace(
            by,
            user_id=grant.user_id,
            email=owned.email,
            credential="jwt",
            credential_id=grant.id,
        )
        with suppress(NotFound):
            await end_grant(env, grant.id, whose)
