"""The ways to sign in to an account: its password, a linked provider, a passkey."""

from portico.domain.audit import By
from portico.domain.errors import Conflict
from portico.domain.users import User
from portico.services.change import Change
from portico.services.environment import Environment
from portico.services.letters import Kind, tell
from portico.storage.factors import FactorStore
from portico.storage.providers import ProviderStore


async def keep_a_way_in(env: Environment, change: Change, user: User) -> None:
    """Raises `Conflict` if the change leaves a locked user without a way to sign in. Links to a
    provider that is no longer configured do not count."""
    if user.password_hash is not None:
        return
    issuers = {provider.issuer for provider in env.sign_in_by.values()}
    links = await env[ProviderStore].links_of(user.id, change.tx)
    factors = await env[FactorStore].of_user(user.id, change.tx)
    if not factors.passkeys and all(link.issuer not in issuers for link in links):
        page = f"{env.addresses.dashboard}/forgot"
        raise Conflict(f"This is your only way to sign in: set a password first, at {page}.")


async def tell_of_ways_in(
    env: Environment, change: Change, user: User, kind: Kind, by: By, **values: str
) -> None:
    """Tells a user by mail about a change of their ways to sign in or second factors."""
    page = f"{env.addresses.dashboard}/security"
    await tell(env, change, user, kind, by=by, page=page, **values)
