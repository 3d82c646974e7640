"""Mirror users: the users of the mirroring environment that stand for an account.

A mirror has the fields of `core.users.Shared` from its account, such as e-mail, role and plan,
and is suspended with it. The two environments share no transaction, so a mirror that could not be
updated stays behind until `features.people.mirrors` updates it.
"""

import logging
from collections.abc import Sequence

import msgspec

from portico.change import Change
from portico.core.audit import SYSTEM, Author
from portico.core.errors import NotFound, Unavailable
from portico.core.users import AccountState, User, email_key
from portico.data.database import UniqueViolation
from portico.environment import Environment
from portico.features.access.backchannel import announce_ends
from portico.features.people.endings import set_suspended
from portico.features.people.rules import UserChanged, UserCreated, UserDeleted
from portico.features.people.storage import Users
from portico.jobs.runner import Lease

log = logging.getLogger(__name__)

_AT_ONCE = 1_000
"""How many mirrors are compared with one read of each database."""


async def mirror_of(env: Environment, account: User, by: Author) -> User:
    """The mirror user of an account of `env`, created if there is none.

    If another user there has the account's e-mail, it is freed: the mirror of another account gets
    the present e-mail of its account, and any other user is deleted. Raises `NotFound` for an
    account that was deleted, and `Unavailable`.
    """
    sandbox = _mirroring(env)
    known = await sandbox[Users].by_account(account.id)
    if known is not None:
        return known
    try:
        return await _create(env, sandbox, account.id, by)
    except UniqueViolation:  # another request has just created it
        return await _create(env, sandbox, account.id, by)


async def mirror_user(env: Environment, owner: User, by: Author) -> User:
    """As `mirror_of`, on behalf of an actor of `env`; also updates the mirror."""
    mirror = await mirror_of(env, owner, await mirrored(_mirroring(env), by))
    await try_to_update_mirror(env, owner.id)  # the account may have changed since it was read
    return mirror


async def mirrored(env: Environment, by: Author) -> Author:
    """`by` for a change in the mirroring environment `env`: the actor is the account's mirror user,
    under the same e-mail. The credential is not checked, since it belongs to the account's own
    environment."""
    if by.actor.user_id is None:
        return by
    mirror = await env[Users].by_account(by.actor.user_id)
    return Author(by.named(user_id=mirror and mirror.id).actor)


def _mirroring(env: Environment) -> Environment:
    if env.mirror is None:
        raise RuntimeError(f"{env.name} has no mirror users")
    return env.mirror


async def _create(env: Environment, sandbox: Environment, account_id: int, by: Author) -> User:
    # Read again: its e-mail may have been changed, and taken by another account.
    account = await env[Users].get(account_id)
    if account is None:
        raise NotFound("This account was deleted.")
    namesake = await sandbox[Users].by_email(account.email)
    if namesake is not None and namesake.account_id not in (None, account_id):
        await update_mirror(env, namesake.account_id)
    removed: list[int] = []

    async def work(change: Change) -> User:
        removed.clear()
        known = await sandbox[Users].by_account(account_id, change.tx)
        if known is not None:
            return known
        namesake = await sandbox[Users].by_email(account.email, change.tx)
        if namesake is not None and namesake.account_id is None:
            removed.append(await _remove(sandbox, change, namesake))
        mirror = msgspec.structs.replace(
            account,
            account_id=account_id,
            password_hash=None,
            external_id=None,
            metadata="{}",
            quota_month=0,
            quota_percent=0,
            created_at=change.now,
            updated_at=change.now,
        )
        mirror = await sandbox[Users].insert(change.tx, mirror)
        change.note(UserCreated(mirror))
        return mirror

    mirror = await sandbox.change(by, work)
    await _release(sandbox, removed)
    return mirror


async def _remove(sandbox: Environment, change: Change, user: User) -> int:
    await announce_ends(sandbox, change, user.id)
    await sandbox[Users].delete(change.tx, user.id)
    change.note(UserDeleted(user))
    return user.id


async def _release(sandbox: Environment, removed: Sequence[int]) -> None:
    """Clears or deletes what refers to users who are deleted, and stay so whatever rules say."""

    async def work(change: Change) -> None:
        for user_id in removed:
            await sandbox.release(change, "users", user_id)

    if removed:
        try:
            await sandbox.change(SYSTEM, work)
        except Exception:
            log.exception("what refers to the deleted users %s stays as it is", removed)


async def try_to_update_mirror(env: Environment, account_id: int) -> None:
    """Does as `update_mirror`. If the sandbox's database does not answer, a job tries again."""
    try:
        await update_mirror(env, account_id)
    except Unavailable as error:
        env.mirror_is_behind.set()
        log.warning("the mirror of user %d is behind: %s", account_id, error.message)


async def outdated_mirrors(env: Environment) -> list[int]:
    """The ids of accounts whose mirrors differ from them. Raises `Unavailable`."""
    found: list[int] = []
    last = 0
    while env.mirror is not None:
        mirrors = await env.mirror[Users].mirror_statuses(last, _AT_ONCE)
        if not mirrors:
            break
        accounts = await env[Users].statuses(list(mirrors))
        found += [number for number in mirrors if mirrors[number] != accounts.get(number)]
        last = max(mirrors)
    return found


async def update_mirror(env: Environment, account_id: int) -> None:
    """Updates the account's mirror, if it has one: its shared fields and its suspension. Deletes it
    if the account was deleted. Raises `Unavailable`."""
    sandbox = env.mirror
    if sandbox is None:
        return
    removed: list[int] = []

    async def work(change: Change) -> None:
        removed.clear()
        pairs: list[tuple[User, User]] = []
        next_id: int | None = account_id
        while next_id is not None:
            mirror = await sandbox[Users].by_account(next_id, change.tx)
            if mirror is None:
                break
            # Read after locking the mirror, so that of two concurrent changes the later one wins.
            account = await env[Users].get(next_id)
            if account is None:
                removed.append(await _remove(sandbox, change, mirror))
                break
            pairs.append((mirror, account))
            next_id = await _free_email(sandbox, change, mirror, account.email, removed)
        for mirror, account in reversed(pairs):  # the last one's new e-mail is free
            await _copy_shared(sandbox, change, mirror, account)

    try:
        await sandbox.change(SYSTEM, work)
    except UniqueViolation as error:
        raise Unavailable("Another user has just taken its e-mail; try again.") from error
    await _release(sandbox, removed)


async def _free_email(
    sandbox: Environment, change: Change, mirror: User, email: str, removed: list[int]
) -> int | None:
    """Frees the e-mail that a locked mirror must get; a user deleted for that is added to
    `removed`. If another mirror has it, returns the id of that mirror's account, which must be
    updated first, possibly to this mirror's old e-mail."""
    if email_key(email) == email_key(mirror.email):
        return None
    holder = await sandbox[Users].by_email(email, change.tx)
    if holder is None:
        return None
    if holder.account_id is None:
        removed.append(await _remove(sandbox, change, holder))
        return None
    aside = msgspec.structs.replace(mirror, email=f"mirror {mirror.id}")  # until the change ends
    await sandbox[Users].update(change.tx, aside)
    return holder.account_id


async def _copy_shared(sandbox: Environment, change: Change, mirror: User, account: User) -> None:
    shared = {name: getattr(account, name) for name in AccountState.__struct_fields__}
    shared["suspended_at"] = mirror.suspended_at  # `set_suspended` changes it, below
    changed = msgspec.structs.replace(mirror, **shared)
    if changed != mirror:
        changed = msgspec.structs.replace(changed, updated_at=change.now)
        await sandbox[Users].update(change.tx, changed)
        changes = UserChanged(changed, mirror)
        if changes.fields:
            change.note(changes)
        else:
            change.noted_elsewhere()
    if account.suspended_at != mirror.suspended_at:
        await set_suspended(sandbox, change, changed, account.suspended_at)


FOLLOW_PERIOD = 0.5

COMPARED_RUNS = 1_200
"""The runs, ten minutes, between two comparisons of all mirrors. They find mirrors left behind by a
process that has died."""


class FollowMirrors:
    """The mirrors of one environment's accounts. They are compared at the start, as soon as this
    process knows that one is behind, and every ten minutes."""

    def __init__(self, env: Environment, holder: str) -> None:
        """`holder` is a name that no other process uses."""
        self._env = env
        self._lease = Lease(env, "mirrors", holder)
        self._left = 0

    async def run(self) -> None:
        """Compares all mirrors if that is due. Raises `Unavailable`; then it stays due."""
        if self._left and not self._env.mirror_is_behind.is_set():
            self._left -= 1
            return
        self._left = 0
        # Before the comparison, so that a mirror that falls behind meanwhile is compared again.
        self._env.mirror_is_behind.clear()
        behind = await outdated_mirrors(self._env)
        if behind:
            async with self._lease.held() as mine:
                if not mine:  # the next run compares again
                    return
                for account_id in behind:
                    await update_mirror(self._env, account_id)
        self._left = COMPARED_RUNS
