"""Which sign-ins come from a new device, and are told by mail.

A device is known by where it is or by what it holds: by an address that the account has signed in
from within a year (of IPv6 by the network of 48 bits, since the address in it changes daily), or by
a cookie that the pages leave in a browser for as long. Either will do. So a phone whose address
changes with each cell is told of once, by its cookie, and so is a browser that forgets cookies, by
its address; whoever has stolen a password has neither. The words of a `User-Agent` do not count,
for anybody can say the same. A program that signs in for a login has no cookie: its address must
do. The first sign-in of an account tells nothing, as there is nothing to be new beside.
"""

from portico.domain.agents import read_agent
from portico.domain.audit import By
from portico.domain.secrets import digest
from portico.domain.users import User
from portico.services.change import Change
from portico.services.environment import Environment
from portico.services.letters import tell
from portico.state.callers import network_of


async def meet_device(env: Environment, change: Change, user: User, device: str | None) -> bool:
    """Remembers where a locked user signs in from, and the secret of the `device`'s cookie, if it
    has one. Whether that is new to an account that has signed in before."""
    address, sessions, tx = change.by.address, env.sessions, change.tx
    network = network_of(address)
    # By its length no network is taken for the first address in it, which may be a stranger's.
    places = [address] if network is None else [address, f"{network}/48"]
    known = user.last_login_at is None
    for place in places:
        known = known or await sessions.knows_address(user.id, place, tx)
        await sessions.know_address(tx, user.id, place, change.now)
    if device is not None:
        known = known or await sessions.knows_device(tx, user.id, digest(device))
        await sessions.know_device(tx, user.id, digest(device), change.now)
    return not known


async def tell_new_device(
    env: Environment, change: Change, user: User, by: By, user_agent: str
) -> None:
    """Tells a user by mail that somebody has signed in on a new device."""
    page = f"{env.addresses.dashboard}/devices"
    by, device = by.named(user_id=user.id), read_agent(user_agent)
    await tell(env, change, user, "new-device", by=by, device=device, page=page)
