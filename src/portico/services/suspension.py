"""Use cases of suspension: while an account is suspended, none of its credentials works."""

from portico.domain.audit import By
from portico.domain.errors import Conflict, PermissionDenied
from portico.domain.users import User
from portico.services.change import Change
from portico.services.endings import set_suspended
from portico.services.environment import Environment
from portico.services.letters import tell
from portico.services.mirrors import try_to_update_mirror
from portico.services.users import admins_only, keep_an_admin, locked_user


async def suspend(env: Environment, user_id: int, by: By) -> User:
    """Suspends an account and tells it by mail. Its sessions, logins and consents end for good; its
    API keys fail until it is resumed. An account that is already suspended stays as it is.

    Raises `NotFound`, `Conflict` for the last admin and for a mirror, and `PermissionDenied` for
    the caller's own account, and for an admin without the scope `admin`.
    """
    if by.actor.user_id == user_id:
        raise PermissionDenied("You cannot suspend yourself; ask another admin.")

    async def work(change: Change) -> User:
        user = await _locked(env, change, user_id)
        if user.suspended_at is not None:
            return user
        if user.role == "admin":
            await keep_an_admin(env, change, user_id)
        suspended = await set_suspended(env, change, user, change.now)
        await tell(env, change, suspended, "suspended")
        return suspended

    user = await env.change(by, work)
    await try_to_update_mirror(env, user_id)
    return user


async def resume(env: Environment, user_id: int, by: By) -> User:
    """Ends an account's suspension: its API keys work again. Raises what `suspend` raises, except
    for the caller's own account and the last admin."""

    async def work(change: Change) -> User:
        user = await _locked(env, change, user_id)
        if user.suspended_at is None:
            return user
        return await set_suspended(env, change, user, None)

    user = await env.change(by, work)
    await try_to_update_mirror(env, user_id)
    return user


async def _locked(env: Environment, change: Change, user_id: int) -> User:
    user = await locked_user(env, change, user_id)
    if user.account_id is not None:
        raise Conflict("This user mirrors a live account: suspend or resume that account instead.")
    if user.role == "admin" and not change.by.may("admin"):
        raise admins_only()
    return user
