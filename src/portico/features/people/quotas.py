"""Tells readers of events which accounts have used much of their month's limit."""

import msgspec

from portico.change import Change
from portico.core.audit import SYSTEM
from portico.core.plans import QUOTA_PERCENTS
from portico.core.requests import Quotas, Reached
from portico.environment import Environment
from portico.features.people.rules import QuotaReached
from portico.features.people.storage import Users

QUOTA_PERIOD = 1.0


async def tell_quotas(env: Environment) -> None:
    """Stores the events that are due, each once in all processes. Raises `Unavailable`; then the
    next run goes on."""
    waiting = env[Quotas].waiting
    for user_id, reached in list(waiting.items()):
        await _tell(env, user_id, reached)
        if waiting.get(user_id) == reached:  # it may have reached more meanwhile
            del waiting[user_id]


async def _tell(env: Environment, user_id: int, reached: Reached) -> None:
    month, percent = reached

    async def work(change: Change) -> None:
        user = await change.lock(env[Users], user_id)
        if user is None or reached <= (published := (user.quota_month, user.quota_percent)):
            return
        user = msgspec.structs.replace(user, quota_month=month, quota_percent=percent)
        await env[Users].update(change.tx, user)
        for one in QUOTA_PERCENTS:
            if one <= percent and (month, one) > published:
                change.note(QuotaReached(user, one))

    await env.change(SYSTEM, work)
