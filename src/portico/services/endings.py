"""Changes that end several credentials of an account at once."""

import msgspec

from portico.domain.events.invitations import InvitationRevoked
from portico.domain.events.users import UserResumed, UserSuspended
from portico.domain.users import User
from portico.services.change import Change
from portico.services.environment import Environment
from portico.storage.email_tokens import EmailTokens
from portico.storage.factors import FactorStore
from portico.storage.grants import Grants
from portico.storage.invitations import Invitations
from portico.storage.sessions import Sessions
from portico.storage.users import Users


async def end_sign_ins(
    env: Environment, change: Change, user_id: int, *, but_session: int = 0
) -> tuple[int, int]:
    """Ends a user's sessions except `but_session`, pending sign-ins, logins and consents; API keys
    stay. Returns how many sessions and how many grants it ended."""
    sessions = await env[Sessions].delete_of_user(change.tx, user_id, but=but_session)
    await env[FactorStore].delete_pending_of_user(change.tx, user_id)
    grants = await env[Grants].revoke_of_user(change.tx, user_id, change.now)
    return sessions, grants


async def end_prepared(env: Environment, change: Change, admin_id: int) -> None:
    """Ends what an admin has prepared and nobody has taken: invitations, and links to a new
    password that they handed over (decisions §13). Lock the admin before, so that nothing is
    prepared meanwhile."""
    for invitation in await env[Invitations].take_of_inviter(change.tx, admin_id):
        change.note(InvitationRevoked(invitation))
    await env[EmailTokens].delete_of_giver(change.tx, admin_id)


async def set_suspended(
    env: Environment, change: Change, user: User, suspended_at: int | None
) -> User:
    """Suspends a locked user, or resumes them if `suspended_at` is None, and notes it; returns the
    user as stored. Links that were mailed to a suspended user, and what they prepared for others,
    become invalid."""
    user = msgspec.structs.replace(user, suspended_at=suspended_at)
    await env[Users].update(change.tx, user)
    if suspended_at is None:
        change.note(UserResumed(user))
        return user
    sessions, grants = await end_sign_ins(env, change, user.id)
    await env[EmailTokens].delete_of_user(change.tx, user.id)
    await end_prepared(env, change, user.id)
    change.note(UserSuspended(user, sessions, grants))
    return user
