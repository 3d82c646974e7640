"""Use cases of ending sessions, logins and consents.

With `of_user`, those of another user count as not found: for callers who may end only their own.
"""

from contextlib import suppress

from portico.domain.audit import By
from portico.domain.errors import NotFound
from portico.domain.events.signing_in import GrantRevoked, SessionRevoked, SignedOutEverywhere
from portico.domain.secrets import digest
from portico.services.change import Change
from portico.services.endings import end_sign_ins
from portico.services.environment import Environment
from portico.services.users import locked_user
from portico.storage.clients import Clients
from portico.storage.grants import Grants
from portico.storage.sessions import Sessions


async def end_session(
    env: Environment, session_id: int, by: By, *, of_user: int | None = None
) -> None:
    """Ends a cookie session at once. Raises `NotFound`."""

    async def work(change: Change) -> None:
        await change.check()
        session = await change.lock(env[Sessions], session_id)
        if session is None or of_user not in (None, session.user_id):
            raise NotFound(f"There is no session {session_id}.")
        await env[Sessions].delete(change.tx, session_id)
        change.note(SessionRevoked(session))

    await env.change(by, work)


async def end_grant(env: Environment, grant_id: int, by: By, *, of_user: int | None = None) -> None:
    """Ends a login or a consent at once, with all its tokens. Raises `NotFound`, also if it is
    already revoked."""
    found = await env[Grants].get(grant_id)
    row_id = found.client_row_id if found else None
    client = None if row_id is None else await env[Clients].get(row_id)

    async def work(change: Change) -> None:
        await change.check()
        grant = await change.lock(env[Grants], grant_id)
        if (
            grant is None
            or of_user not in (None, grant.user_id)
            or not await env[Grants].revoke(change.tx, grant_id, change.now)
        ):
            raise NotFound(f"There is no grant {grant_id}.")
        why = {"client_id": client.client_id if client else None}
        change.note(GrantRevoked(grant_id, grant.user_id, why))

    await env.change(by, work)


async def sign_out_everywhere(
    env: Environment, user_id: int, by: By, *, but_session: int = 0
) -> tuple[int, int]:
    """Ends a user's sessions except `but_session`, and all logins and consents; API keys stay.
    Returns how many sessions and how many grants it ended. Raises `NotFound`."""

    async def work(change: Change) -> tuple[int, int]:
        await change.check()
        user = await locked_user(env, change, user_id)
        sessions, grants = await end_sign_ins(env, change, user_id, but_session=but_session)
        change.note(SignedOutEverywhere(user, sessions, grants))
        return sessions, grants

    return await env.change(by, work)


async def log_out(
    env: Environment, *, access_token: str | None, refresh_token: str | None, by: By
) -> bool:
    """Ends the logins that these tokens belong to, even if the tokens have expired. Tokens that are
    unknown, belong to an application or to a login that has ended are ignored. Returns whether any
    login was ended."""
    found = [
        await env[Grants].by_access(digest(access_token)) if access_token else None,
        await env[Grants].by_refresh(digest(refresh_token)) if refresh_token else None,
    ]
    ended = False
    for owned in found:
        if owned is None or owned.grant.client_row_id is not None:
            continue
        grant = owned.grant
        whose = by.alone.named(
            user_id=grant.user_id,
            email=owned.email,
            credential="jwt",
            credential_id=grant.id,
        )
        with suppress(NotFound):
            await end_grant(env, grant.id, whose)
            ended = True
    return ended
