"""Mirror users: an account of one environment as it appears in the one that mirrors it.

A mirror carries what `domain.users.Shared` names of its account, such as e-mail, role and plan; it
is suspended with it. The two environments share no transaction, so a mirror that could not be
reached is behind until `jobs.mirrors` finds it and brings it up.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import msgspec

from portico.domain.audit import SYSTEM, By
from portico.domain.errors import NotFound, Unavailable
from portico.domain.events.users import UserChanged, UserCreated, UserDeleted
from portico.domain.secrets import digest, mint
from portico.domain.times import MINUTE
from portico.domain.users import Shared, User, email_key
from portico.services.change import Change
from portico.services.endings import set_suspended
from portico.services.environment import Environment
from portico.storage.database import UniqueViolation

log = logging.getLogger(__name__)

_AT_ONCE = 1_000
"""Mirrors that are compared by one read of either database."""


async def mirror_of(env: Environment, account: User, by: By) -> User:
    """The user of an account of `env` in the environment that mirrors it, made where there is none.

    A user there who has the account's e-mail makes room for it: another account's mirror goes on
    with the e-mail that its account has by now, anybody else is removed. Raises `NotFound` for an
    account that is gone, and `Unavailable`.
    """
    sandbox = _mirroring(env)
    known = await sandbox.users.by_account(account.id)
    if known is not None:
        return known
    try:
        return await _make(env, sandbox, account.id, by)
    except UniqueViolation:  # another request made it in this moment
        return await _make(env, sandbox, account.id, by)


async def mirror_user(env: Environment, owner: User, by: By) -> User:
    """As `mirror_of`, for what somebody does in `env`, and brought up to the account."""
    mirror = await mirror_of(env, owner, await mirrored(_mirroring(env), by))
    await follow(env, owner.id)  # the account may have changed since it was read
    return mirror


async def mirrored(env: Environment, by: By) -> By:
    """An account's actor as the mirroring environment `env` knows it; its e-mail stays. Its
    credential is the account's own environment's, where nobody is asked again."""
    if by.actor.user_id is None:
        return by
    mirror = await env.users.by_account(by.actor.user_id)
    return By(by.named(user_id=mirror and mirror.id).actor)


@asynccontextmanager
async def lent_session(env: Environment, account: User, by: By) -> AsyncIterator[str]:
    """The secret of a session of the account's mirror user, for one request within the block. It
    ends with that, and where nobody ends it, after a minute. Raises `NotFound` for an account that
    is gone."""
    sandbox = _mirroring(env)
    mirror = await sandbox.users.by_account(account.id)
    if mirror is None:
        mirror = await mirror_user(env, account, by)
    by = await mirrored(sandbox, by)
    secret = mint("", sandbox.random)

    async def lend(change: Change) -> int:
        change.told_elsewhere()  # by what is done with it
        if await change.lock(sandbox.users, mirror.id) is None:
            raise NotFound("This account is gone.")
        session = await sandbox.sessions.insert(
            change.tx,
            user_id=mirror.id,
            token_hash=digest(secret),
            address=by.address,
            user_agent="",
            amr=(),
            now=change.now,
            expires_at=change.now + MINUTE,
            proved_at=0,
        )
        return session.id

    session_id = await sandbox.change(by, lend)

    async def end(change: Change) -> None:
        change.told_elsewhere()
        await sandbox.sessions.delete(change.tx, session_id)

    try:
        yield secret
    finally:
        with suppress(Unavailable):  # then time ends it
            await sandbox.change(by, end)


def _mirroring(env: Environment) -> Environment:
    if env.mirror is None:
        raise RuntimeError(f"{env.name} has no mirror users")
    return env.mirror


async def _make(env: Environment, sandbox: Environment, account_id: int, by: By) -> User:
    # Read anew: the e-mail that it had may be another account's by now.
    account = await env.users.get(account_id)
    if account is None:
        raise NotFound("This account is gone.")
    namesake = await sandbox.users.by_email(account.email)
    if namesake is not None and namesake.account_id not in (None, account_id):
        await bring(env, namesake.account_id)

    async def work(change: Change) -> User:
        known = await sandbox.users.by_account(account_id, change.tx)
        if known is not None:
            return known
        namesake = await sandbox.users.by_email(account.email, change.tx)
        if namesake is not None and namesake.account_id is None:
            await _remove(sandbox, change, namesake)
        mirror = msgspec.structs.replace(
            account,
            account_id=account_id,
            password_hash=None,
            created_at=change.now,
            updated_at=change.now,
        )
        mirror = await sandbox.users.insert(change.tx, mirror)
        change.note(UserCreated(mirror))
        return mirror

    return await sandbox.change(by, work)


async def _remove(sandbox: Environment, change: Change, user: User) -> None:
    await sandbox.users.delete(change.tx, user.id)
    change.note(UserDeleted(user))


async def follow(env: Environment, account_id: int) -> None:
    """Brings the account's mirror, if it has one, to what it shares with the account, and suspends
    or resumes it; removes it where the account is gone."""
    try:
        await bring(env, account_id)
    except Unavailable as error:
        env.mirror_is_behind.set()
        log.warning("the mirror of user %d is behind: %s", account_id, error.message)


async def lagging(env: Environment) -> list[int]:
    """The accounts whose mirrors differ from them. Raises `Unavailable`."""
    found: list[int] = []
    last = 0
    while env.mirror is not None:
        mirrors = await env.mirror.users.standing_of_mirrors(last, _AT_ONCE)
        if not mirrors:
            break
        accounts = await env.users.standing(list(mirrors))
        found += [number for number in mirrors if mirrors[number] != accounts.get(number)]
        last = max(mirrors)
    return found


async def bring(env: Environment, account_id: int) -> None:
    """As `follow`, but raises `Unavailable`."""
    sandbox = env.mirror
    if sandbox is None:
        return

    async def work(change: Change) -> None:
        pairs: list[tuple[User, User]] = []
        next_id: int | None = account_id
        while next_id is not None:
            mirror = await sandbox.users.by_account(next_id, change.tx)
            if mirror is None:
                break
            # Read once the mirror is locked: of two changes at once, the later one stays.
            account = await env.users.get(next_id)
            if account is None:
                await _remove(sandbox, change, mirror)
                break
            pairs.append((mirror, account))
            next_id = await _make_way(sandbox, change, mirror, account.email)
        for mirror, account in reversed(pairs):  # the last one's e-mail is free
            await _share(sandbox, change, mirror, account)

    try:
        await sandbox.change(SYSTEM, work)
    except UniqueViolation as error:
        raise Unavailable("Another user got its e-mail in this moment; try again.") from error


async def _make_way(sandbox: Environment, change: Change, mirror: User, email: str) -> int | None:
    """Frees the e-mail that a locked mirror is to have. Where it is another mirror's, answers with
    the account of that, which is to be brought first, and maybe to the e-mail that this one had."""
    if email_key(email) == email_key(mirror.email):
        return None
    holder = await sandbox.users.by_email(email, change.tx)
    if holder is None:
        return None
    if holder.account_id is None:
        await _remove(sandbox, change, holder)
        return None
    aside = msgspec.structs.replace(mirror, email=f"mirror {mirror.id}")  # until the change ends
    await sandbox.users.update(change.tx, aside)
    return holder.account_id


async def _share(sandbox: Environment, change: Change, mirror: User, account: User) -> None:
    shared = {name: getattr(account, name) for name in Shared.__struct_fields__}
    shared["suspended_at"] = mirror.suspended_at  # which ends more than a value
    changed = msgspec.structs.replace(mirror, **shared)
    if changed != mirror:
        changed = msgspec.structs.replace(changed, updated_at=change.now)
        await sandbox.users.update(change.tx, changed)
        told = UserChanged(changed, mirror)
        if told.fields:
            change.note(told)
        else:
            change.told_elsewhere()
    if account.suspended_at != mirror.suspended_at:
        await set_suspended(sandbox, change, changed, account.suspended_at)
