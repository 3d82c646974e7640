"""What one user has, and what an operator makes of them."""

from portico.core.audit import OPERATOR, Author
from portico.core.sessions import Session
from portico.environment import Environment
from portico.features.access.rules import ApiKey
from portico.features.access.storage import GRANTS, ApiKeys, Grant
from portico.features.people.accounts import account, change_account
from portico.features.signin.storage import Sessions


async def sessions_of(env: Environment, user_id: int, now: int) -> list[Session]:
    """A user's valid sessions, newest first."""
    return [one async for batch in env[Sessions].batches(now, user_id) for one in batch]


async def grants_of(env: Environment, user_id: int, now: int) -> list[Grant]:
    """A user's valid logins and consents, newest first."""
    valid = "revoked_at IS NULL AND expires_at > :now"
    batches = GRANTS.batches(env.db, valid, {"now": now}, user_id=user_id, newest_first=True)
    return [grant async for batch in batches for grant in batch]


async def keys_of(env: Environment, user_id: int) -> list[ApiKey]:
    """A user's keys, oldest first."""
    return [one async for batch in env[ApiKeys].batches(user_id) for one in batch]


async def set_role(env: Environment, email: str, role: str, by: Author = OPERATOR) -> None:
    """Gives the account with this e-mail another role, as `portico users set-role` does."""
    await change_account(env, (await account(env, email)).id, {"role": role}, by)


async def set_plan(env: Environment, email: str, plan: str, by: Author = OPERATOR) -> None:
    """Moves the account with this e-mail to another plan, as `portico users set-plan` does."""
    await change_account(env, (await account(env, email)).id, {"plan": plan}, by)
