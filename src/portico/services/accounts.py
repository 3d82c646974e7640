"""Use cases of operators: roles and plans of accounts, and keys for either environment."""

from base64 import urlsafe_b64encode
from collections.abc import Sequence

import msgspec

from portico.domain.audit import By
from portico.domain.errors import Conflict, NotFound
from portico.domain.events.users import UserCreated
from portico.domain.new_keys import NewKey
from portico.domain.secrets import Random
from portico.domain.users import User, new_user, typed_email
from portico.services.api_keys import Made, add_key, create_key
from portico.services.change import Change
from portico.services.environment import Environment
from portico.services.mirrors import mirror_user, mirrored, try_to_update_mirror
from portico.services.passwords import Passwords
from portico.services.users import keep_an_admin, store_change, taken, tell_changed
from portico.storage.database import UniqueViolation
from portico.storage.users import Users


def random_password(random: Random) -> str:
    """A password of 144 random bits that satisfies `domain.users.password`."""
    while True:
        password = urlsafe_b64encode(random(18)).decode()
        kinds = (str.isupper, str.islower, str.isdigit)
        if all(any(kind(letter) for letter in password) for kind in kinds):
            return password


async def account(env: Environment, email: str) -> User:
    """The user with this e-mail, which may be typed in any way. Raises `NotFound`."""
    user = await env[Users].by_email(typed_email(email))
    if user is None:
        raise NotFound(f"There is no user with the e-mail {email}.")
    return user


async def set_plan(env: Environment, email: str, plan: str, by: By) -> User:
    """Sets an account's plan. Raises `NotFound` for an unknown account or plan, and `Conflict` for
    a mirror user, whose plan is its account's."""
    if plan not in env.settings.plans:
        raise NotFound(
            f"There is no plan {plan}; there are {', '.join(sorted(env.settings.plans))}."
        )
    return await _set(env, email, by, plan=plan)


async def set_role(env: Environment, email: str, role: str, by: By) -> User:
    """Sets an account's role. Raises `NotFound`, and `Conflict` for the last admin and for a mirror
    user, whose role is its account's."""
    return await _set(env, email, by, role=role)


async def _set(env: Environment, email: str, by: By, **values: str) -> User:
    found = await account(env, email)

    async def work(change: Change) -> User:
        user = await change.lock(env[Users], found.id)
        if user is None:
            raise NotFound(f"There is no user with the e-mail {email}.")
        if user.account_id is not None:
            raise Conflict("This user mirrors a live account; change that account instead.")
        changed = msgspec.structs.replace(user, **values)
        if changed == user:
            return user
        if user.role == "admin" and changed.role != "admin":
            await keep_an_admin(env, change, user.id)
        after = await store_change(env, change, user, changed)
        await tell_changed(env, change, user, after)
        return after

    user = await env.change(by, work)
    await try_to_update_mirror(env, user.id)
    return user


async def create_admin(
    env: Environment, *, name: str, email: str, password: str, key_name: str, by: By
) -> tuple[User, Made]:
    """Creates an admin on the plan Enterprise and a live key, in one change and without a mail.
    Raises `Duplicate` if the e-mail is taken."""
    password_hash = await env[Passwords].hash(password)

    async def work(change: Change) -> tuple[User, Made]:
        user = new_user(
            name=name,
            email=email,
            role="admin",
            plan="enterprise",
            password_hash=password_hash,
            now=change.now,
        )
        user = await env[Users].insert(change.tx, user)
        change.note(UserCreated(user))
        new = NewKey(name=key_name, type="live", scopes=None, networks=None, expires_at=None)
        return user, await add_key(env, change, user.id, new, told=False)

    try:
        return await env.change(by, work)
    except UniqueViolation as error:
        raise taken() from error


async def give_key(
    env: Environment,
    owner: User,
    *,
    name: str,
    key_type: str,
    expires_at: int | None,
    by: By,
    scopes: Sequence[str] | None = None,
    networks: Sequence[str] | None = None,
    told: bool = True,
) -> Made:
    """Creates a key with the values of a `NewKey` for an account of `env`. A key type that belongs
    to the mirroring environment is created there, for the account's mirror user. `told` says
    whether the owner is told by mail. Raises `Invalid` with every fault."""
    user_id = owner.id
    if key_type in env.foreign and env.mirror is not None:
        user_id = (await mirror_user(env, owner, by)).id
        by = await mirrored(env.mirror, by)
        env = env.mirror
    new = NewKey(name=name, type=key_type, scopes=scopes, networks=networks, expires_at=expires_at)
    return await create_key(env, user_id, new, by, told=told)
