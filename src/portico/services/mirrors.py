"""Mirror users: an account of one environment as it appears in the one that mirrors it.

A mirror carries its account's role and plan. The two environments share no transaction, so a
mirror that could not be reached is made good by `follow_all`, at every start and until it works.
"""

import logging

import msgspec

from portico.domain.errors import Unavailable
from portico.domain.users import User
from portico.services.environment import Environment
from portico.storage.database import UniqueViolation

log = logging.getLogger(__name__)

_SHARED = ("role", "plan")


async def mirror_of(env: Environment, account: User) -> User:
    """The account's user in the mirroring environment `env`, made where there is none.

    A user of `env` who has the account's e-mail already becomes its mirror.
    """
    try:
        return await _make(env, account)
    except UniqueViolation:  # another request made it in this moment
        return await _make(env, account)


async def _make(env: Environment, account: User) -> User:
    async with env.db.transaction() as tx:
        known = await env.users.by_account(account.id, tx)
        if known is not None:
            return known
        namesake = await env.users.by_email(account.email, tx)
        if namesake is not None and namesake.account_id == account.id:
            return namesake  # made since the first look
        now = env.clock()
        if namesake is not None:
            await env.users.delete(tx, namesake.id)
        mirror = msgspec.structs.replace(
            account, account_id=account.id, password_hash=None, created_at=now, updated_at=now
        )
        return await env.users.insert(tx, mirror)


async def follow(env: Environment, account_id: int) -> None:
    """Brings the account's mirror, if it has one, to the account's role and plan; removes it where
    the account is gone."""
    if env.mirror is None:
        return
    try:
        await _bring(env, env.mirror, account_id)
    except Unavailable as error:
        env.mirror_is_behind = True
        log.warning("the mirror of user %d is behind: %s", account_id, error.message)


async def follow_all(env: Environment) -> None:
    """Brings every mirror up to its account, as `follow` does. Raises `Unavailable`."""
    if env.mirror is None:
        return
    env.mirror_is_behind = False
    try:
        for mirror in await env.mirror.users.mirrors():
            await _bring(env, env.mirror, mirror.account_id or 0)
    except Unavailable:
        env.mirror_is_behind = True
        raise


async def _bring(env: Environment, sandbox: Environment, account_id: int) -> None:
    async with sandbox.db.transaction() as tx:
        mirror = await sandbox.users.by_account(account_id, tx)
        if mirror is None:
            return
        # Read once the mirror is locked: of two changes at once, the later one stays.
        account = await env.users.get(account_id)
        if account is None:
            await sandbox.users.delete(tx, mirror.id)
        elif any(getattr(mirror, name) != getattr(account, name) for name in _SHARED):
            shared = {name: getattr(account, name) for name in _SHARED}
            changed = msgspec.structs.replace(mirror, **shared, updated_at=sandbox.clock())
            await sandbox.users.update(tx, changed)
