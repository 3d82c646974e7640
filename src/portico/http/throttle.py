"""Counting requests against the plan of whoever makes them (specification §8)."""

from portico.domain.errors import RateLimited
from portico.domain.limits import Plan, Verdict
from portico.domain.times import DAY
from portico.http.measure import Measure
from portico.http.messages import Request
from portico.services.environment import Environment


class Throttle:
    """Counts each request once, before any work is done for it."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure

    async def account(self, request: Request, user_id: int, plan: str) -> None:
        """Counts a request against an account. Raises `RateLimited`."""
        # Not by `take`: every request comes this way, and each call more is 2 % of it.
        environment = request.environment
        now = request.now
        verdict = await environment.limiter.take(f"user:{user_id}", environment.plan(plan), now)
        request.verdict = verdict
        if not verdict.admitted:
            raise self._refusal(environment, verdict)
        use = environment.use
        day = (user_id, now // DAY)
        use[day] = use.get(day, 0) + 1

    async def address(self, request: Request) -> None:
        """Counts a request against its address, on the plan Free. Raises `RateLimited`."""
        await self.take(request, f"address:{request.address}", request.environment.plan("free"))

    async def take(self, request: Request, key: str, plan: Plan) -> None:
        """Counts a request under a name. Raises `RateLimited`."""
        environment = request.environment
        verdict = await environment.limiter.take(key, plan, request.now)
        request.verdict = verdict
        if not verdict.admitted:
            raise self._refusal(environment, verdict)

    def _refusal(self, environment: Environment, verdict: Verdict) -> RateLimited:
        self._measure.refused(environment.name)
        return RateLimited(
            f"Too many requests; try again in {verdict.retry_after} seconds.",
            retry_after=verdict.retry_after,
        )
