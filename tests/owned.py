"""Everything of a kind that one user has."""

from portico.core.sessions import Session
from portico.environment import Environment
from portico.features.access.rules import ApiKey
from portico.features.access.storage import ApiKeys, Grant, Grants
from portico.features.signin.storage import Sessions

_MANY = 1_000


async def sessions_of(env: Environment, user_id: int, now: int) -> list[Session]:
    """A user's valid sessions, newest first."""
    return [one async for batch in env[Sessions].batches(now, user_id) for one in batch]


async def grants_of(env: Environment, user_id: int, now: int) -> list[Grant]:
    """A user's valid logins and consents, newest first."""
    consents = await env[Grants].of_clients(user_id, now, offset=0, limit=_MANY)
    logins = [one async for batch in env[Grants].logins(now, user_id) for one in batch]
    return sorted([*consents.rows, *logins], key=lambda grant: grant.id, reverse=True)


async def keys_of(env: Environment, user_id: int) -> list[ApiKey]:
    """A user's keys, oldest first."""
    return [one async for batch in env[ApiKeys].batches(user_id) for one in batch]
