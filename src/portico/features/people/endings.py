"""Changes that end several credentials of an account at once."""

import msgspec

from portico.change import Change
from portico.core.users import User
from portico.environment import Environment
from portico.features.access.backchannel import announce_ends
from portico.features.access.storage import Grants
from portico.features.people.rules import InvitationRevoked, UserResumed, UserSuspended
from portico.features.people.storage import EmailTokens, Invitations, Users
from portico.features.signin.storage import FactorStore, Sessions


async def end_sign_ins(
    env: Environment, change: Change, user_id: int, *, but_session: int = 0
) -> tuple[int, int]:
    """Ends a user's sessions except `but_session`, pending sign-ins, logins and consents; API keys
    stay. Returns how many sessions and how many grants it ended."""
    await announce_ends(env, change, user_id)
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
    before, user = user, msgspec.structs.replace(user, suspended_at=suspended_at)
    await env[Users].update(change.tx, user)
    if suspended_at is None:
        change.note(UserResumed(user, before))
        return user
    sessions, grants = await end_sign_ins(env, change, user.id)
    await env[EmailTokens].delete_of_user(change.tx, user.id)
    await end_prepared(env, change, user.id)
    change.note(UserSuspended(user, before, sessions, grants))
    return user
