"""Counts requests against the plan of the account or address that makes them (specification §8).

A request is counted once, before any work is done for it. A request over the limit is not counted,
even on a route that is never refused.
"""

from portico.core.errors import PorticoError, Unavailable
from portico.core.plans import Plan, Use, is_full, judge_all, network_plan, over_limit
from portico.core.requests import NOBODY, Quotas
from portico.environment import Environment
from portico.limits.protocol import (
    ACCOUNT,
    ADDRESS,
    CLIENT,
    NETWORK,
    VISITOR,
    VISITOR_NETWORK,
    Caller,
    CallerKind,
    Claims,
    network_of,
)
from portico.web.messages import Request


async def account(
    request: Request, user_id: int, plan: str, *, never_refused: bool = False
) -> None:
    """Counts a request against an account. Raises `RateLimited` unless `never_refused`."""
    # Not through `_take`: every request passes here, and each further call costs 2 % of it.
    environment = request.environment
    now = request.now
    request.account_id = user_id
    limits = environment.plan(plan)
    verdict = await environment.limiter.take((ACCOUNT, user_id), limits, now)
    request.verdict = verdict
    request.cost = 1 if verdict.admitted else 0
    if verdict.month_used:
        environment[Quotas].used(user_id, limits, verdict.month_used, now)
    if not (verdict.admitted or never_refused):
        raise over_limit(verdict)


async def more(request: Request, count: int) -> None:
    """Counts a request that is under way as so many more of its account. Raises `RateLimited`."""
    environment, who = request.environment, request.caller
    plan = environment.plan(who.plan)
    claims = [((ACCOUNT, who.user_id), plan)]
    request.verdict = verdict = await environment.limiter.take_all(claims, request.now, [count])
    if verdict.month_used:
        environment[Quotas].used(who.user_id, plan, verdict.month_used, request.now)
    if not verdict.admitted:
        raise over_limit(verdict)
    request.cost += count


async def address(request: Request, *, cost: int = 1, never_refused: bool = False) -> None:
    """Counts a request against its address and the network around it, on the plan Free. Raises
    `RateLimited` unless `never_refused`."""
    request.account_id = NOBODY
    claims = _of_address(request)
    await _take(request, request.environment, claims, cost, never_refused=never_refused)


async def refusal(request: Request, error: PorticoError) -> None:
    """Counts a request with this error against its address, unless it was counted before or is not
    the client's fault. Raises `RateLimited`."""
    if request.verdict is None and not isinstance(error, Unavailable):
        await address(request)


async def check_address(request: Request) -> None:
    """Raises `RateLimited` if the address has reached its limit. Counts nothing: the request may
    yet be counted against an account."""
    environment, now = request.environment, request.now
    uses = [
        Use(plan, *await environment.limiter.used(caller, now))
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
    """Counts a request for a page against its address and the network around it. Raises
    `RateLimited` unless `never_refused`."""
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
    """Counts a request against the caller `who` in this environment. Raises `RateLimited` unless
    `never_refused`."""
    await _take(request, environment, [(who, plan)], never_refused=never_refused)


async def _take(
    request: Request,
    environment: Environment,
    claims: Claims,
    cost: int = 1,
    *,
    never_refused: bool = False,
) -> None:
    costs = [cost] * len(claims)
    request.verdict = verdict = await environment.limiter.take_all(claims, request.now, costs)
    if not (verdict.admitted or never_refused):
        raise over_limit(verdict)


def _of_address(request: Request) -> Claims:
    return _claims((ADDRESS, NETWORK), request.address, request.environment.plan("free"))


def _claims(kinds: tuple[CallerKind, CallerKind], address: str, plan: Plan) -> Claims:
    """The address, and for IPv6 the network around it, which has tens of thousands of them."""
    network = network_of(address)
    if network is None:
        return [((kinds[0], address), plan)]
    return [((kinds[0], address), plan), ((kinds[1], network), network_plan(plan))]
