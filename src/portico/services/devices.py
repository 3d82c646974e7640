"""Detects sign-ins from a new device, of which the user is told by mail.

A device is known by its address, if the account has signed in from there within a year (for IPv6
the /48 network, since the address in it changes daily), or by a cookie that the pages set in its
browser for a year. Either is enough: so a phone whose address keeps changing is reported once, and
so is a browser that drops cookies, while a thief of the password has neither. The `User-Agent` does
not count, because anyone can send the same. A program that logs in has no cookie, so only its
address counts. The first sign-in of an account is not reported, as no device is known yet.
"""

from portico.domain.agents import read_agent
from portico.domain.secrets import digest
from portico.domain.users import User
from portico.services.change import Change
from portico.services.environment import Environment
from portico.services.letters import tell
from portico.state.callers import network_of
from portico.storage.sessions import Sessions


async def remember_device(env: Environment, change: Change, user: User, device: str | None) -> bool:
    """Remembers the address that a locked user signs in from, and the secret of the `device`
    cookie, if any. Returns whether both are new to an account that has signed in before."""
    address, sessions, tx = change.by.address, env[Sessions], change.tx
    network = network_of(address)
    # The prefix length keeps a network apart from its first address, which may be a stranger's.
    places = [address] if network is None else [address, f"{network}/48"]
    known = user.last_login_at is None
    for place in places:
        known = known or await sessions.knows_address(user.id, place, tx)
        await sessions.know_address(tx, user.id, place, change.now)
    if device is not None:
        known = known or await sessions.knows_device(tx, user.id, digest(device))
        await sessions.know_device(tx, user.id, digest(device), change.now)
    return not known


async def tell_new_device(env: Environment, change: Change, user: User, user_agent: str) -> None:
    """Tells a user by mail about their sign-in on a new device."""
    page = f"{env.addresses.dashboard}/devices"
    device = read_agent(user_agent)
    await tell(env, change, user, "new-device", by=change.by, device=device, page=page)
