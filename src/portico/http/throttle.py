"""Counting requests against the plan of whoever makes them (specification §8).

Each is counted once, before any work is done for it. One that is over the limit, and is not
refused, counts as little as one that is.
"""

from msgspec.structs import replace

from portico.domain.limits import Plan, is_full, judge_all, network_plan, over_limit
from portico.domain.requests import NOBODY
from portico.http.messages import Request
from portico.services.environment import Environment
from portico.state.callers import (
    ACCOUNT,
    ADDRESS,
    CLIENT,
    NETWORK,
    VISITOR,
    VISITOR_NETWORK,
    Caller,
    Kind,
    network_of,
)
from portico.state.protocol import Claims


async def account(
    request: Request, user_id: int, plan: str, *, never_refused: bool = False
) -> None:
    """Counts a request against an account. Raises `RateLimited`, unless it must not."""
    # Not by `_take`: every request comes this way, and each call more is 2 % of it.
    environment = request.environment
    now = request.now
    request.account_id = user_id
    verdict = await environment.limiter.take((ACCOUNT, user_id), environment.plan(plan), now)
    request.verdict = verdict
    if not (verdict.admitted or never_refused):
        raise over_limit(verdict)


async def address(request: Request, *, never_refused: bool = False) -> None:
    """Counts a request against its address, on the plan Free, and the network around it. Raises
    `RateLimited`, unless it must not."""
    request.account_id = NOBODY
    await _take(request, request.environment, _of_address(request), never_refused=never_refused)


async def check_address(request: Request) -> None:
    """Refuses a request whose address has used up what it may, and counts none: for one that may
    yet be counted against an account. Raises `RateLimited`."""
    environment, now = request.environment, request.now
    uses = [
        (plan, *await environment.limiter.used(caller, now))
        for caller, plan in _of_address(request)
    ]
    if any(map(is_full, uses)):
        request.account_id = NOBODY
        request.verdict = judge_all(uses, now, admitted=False)
        raise over_limit(request.verdict)


async def client(request: Request, client_id: int) -> None:
    """Counts a request against an OAuth client without an owner, on the plan Free. Raises
    `RateLimited`."""
    request.account_id = NOBODY
    environment = request.environment
    await _take(request, environment, [((CLIENT, client_id), environment.plan("free"))])


async def visitor(request: Request, plan: Plan, *, never_refused: bool = False) -> None:
    """Counts a request for a page against its address, and the network around it. Raises
    `RateLimited`, unless it must not."""
    claims = _claims((VISITOR, VISITOR_NETWORK), request.address, plan)
    await _take(request, request.environment, claims, never_refused=never_refused)


async def caller(
    request: Request,
    environment: Environment,
    who: Caller,
    plan: Plan,
    *,
    never_refused: bool = False,
) -> None:
    """Counts a request against whoever it is in that environment. Raises `RateLimited`, unless it
    must not."""
    await _take(request, environment, [(who, plan)], never_refused=never_refused)


async def _take(
    request: Request, environment: Environment, claims: Claims, *, never_refused: bool = False
) -> None:
    request.verdict = verdict = await environment.limiter.take_all(claims, request.now)
    if not (verdict.admitted or never_refused):
        raise over_limit(verdict)


async def give_back(request: Request) -> None:
    """Takes back the count of an account's request that is refused (429) by something else than its
    plan."""
    caller = (ACCOUNT, request.caller.user_id)
    await request.environment.limiter.give_back(caller, request.now)
    if request.verdict is not None:
        request.verdict = replace(request.verdict, remaining=request.verdict.remaining + 1)


def _of_address(request: Request) -> Claims:
    return _claims((ADDRESS, NETWORK), request.address, request.environment.plan("free"))


def _claims(kinds: tuple[Kind, Kind], address: str, plan: Plan) -> Claims:
    """An address, and of IPv6 the network that has tens of thousands of them."""
    network = network_of(address)
    if network is None:
        return [((kinds[0], address), plan)]
    return [((kinds[0], address), plan), ((kinds[1], network), network_plan(plan))]
