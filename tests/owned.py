"""Everything of a kind that one user has."""

from portico.core.sessions import Session
from portico.environment import Environment
from portico.features.access.rules import ApiKey
from portico.features.access.storage import GRANTS, ApiKeys, Grant
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
