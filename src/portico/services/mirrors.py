"""Mirror users: an account of one environment as it appears in the one that mirrors it.

A mirror carries its account's role and plan. The two environments share no transaction, so a
mirror that could not be reached is made good by `follow_all`, at every start and until it works.
"""

import logging

import msgspec

from portico.domain.errors import Unavailable
from portico.domain.users import User
from portico.services.environment import Environment

log = logging.getLogger(__name__)

_SHARED = ("role", "plan")


async def mirror_of(env: Environment, account: User) -> User:
    """The account's user in the mirroring environment `env`, made where there is none.

    A user of `env` who has the account's e-mail already becomes its mirror.
    """
    async with env.db.transaction() as tx:
        known = await env.users.by_account(account.id, tx)
        if known is not None:
            return known
        namesake = await env.users.by_email(account.email, tx)
        now = env.clock()
        if namesake is not None:
            await env.users.delete(tx, namesake.id)
        mirror = msgspec.structs.replace(
            account, account_id=account.id, password_hash=None, created_at=now, updated_at=now
        )
        return await env.users.insert(tx, mirror)


async def follow(env: Environment, account: User) -> None:
    """Brings the account's mirror, if it has one, to its role and plan."""
    if env.mirror is None:
        return
    try:
        await _bring(env.mirror, account)
    except Unavailable as error:
        env.mirror_is_behind = True
        log.warning("the mirror of user %d is behind: %s", account.id, error.message)


async def forget(env: Environment, account_id: int) -> None:
    """Removes the mirror, if any, of an account that is gone."""
    if env.mirror is None:
        return
    try:
        await _remove(env.mirror, account_id)
    except Unavailable as error:
        env.mirror_is_behind = True
        log.warning("the mirror of user %d is behind: %s", account_id, error.message)


async def follow_all(env: Environment) -> None:
    """Brings every mirror to its account's role and plan, and removes those without an account."""
    if env.mirror is None:
        return
    env.mirror_is_behind = False
    for mirror in await env.mirror.users.mirrors():
        account_id = mirror.account_id or 0
        account = await env.users.get(account_id)
        if account is None:
            await _remove(env.mirror, account_id)
        else:
            await _bring(env.mirror, account)


async def _bring(env: Environment, account: User) -> None:
    async with env.db.transaction() as tx:
        mirror = await env.users.by_account(account.id, tx)
        if mirror is None or all(
            getattr(mirror, name) == getattr(account, name) for name in _SHARED
        ):
            return
        await env.users.update(
            tx,
            msgspec.structs.replace(
                mirror, role=account.role, plan=account.plan, updated_at=env.clock()
            ),
        )


async def _remove(env: Environment, account_id: int) -> None:
    async with env.db.transaction() as tx:
        mirror = await env.users.by_account(account_id, tx)
        if mirror is not None:
            await env.users.delete(tx, mirror.id)
