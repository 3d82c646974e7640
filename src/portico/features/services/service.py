"""The decision about one request to a service: whose credential it is, whether it has the scope,
and what it takes from the account's limits. Proxies, programs and forwarding all ask here."""

from collections import OrderedDict
from typing import NamedTuple

from portico.core.caller import Principal, require
from portico.core.errors import AuthenticationRequired, PermissionDenied, PorticoError
from portico.core.plans import Verdict, over_limit
from portico.core.requests import Quotas
from portico.core.secrets import ACCESS_TOKEN
from portico.core.services import Needed, Service, needed_by
from portico.core.times import SECOND
from portico.environment import Environment
from portico.features.access.credentials import Credentials, other_resource
from portico.features.access.signing import Signer
from portico.limits.protocol import ACCOUNT, LIMITED, Claims
from portico.web import throttle
from portico.web.api_responder import outside
from portico.web.authenticate import Authenticators
from portico.web.messages import Origin, Request

Pairs = list[tuple[str, str]]
"""Names and values of headers."""

IDENTITY_TYPE = "portico-identity+jwt"
IDENTITY_SECONDS = 60
IDENTITIES = 10_000
"""The most identity tokens to keep."""


class Decision(NamedTuple):
    """What was decided. `caller` is None where the credential is none or was not looked at; `error`
    is None if the request may pass; `verdict` is None where nothing was counted."""

    caller: Principal | None
    error: PorticoError | None
    verdict: Verdict | None
    cost: int = 0
    """What was taken."""


class _Known(NamedTuple):
    """What a service may be told of a caller again until then."""

    caller: Principal
    headers: Pairs
    until: int


class Decisions:
    """Decides for one environment."""

    def __init__(self, env: Environment, credentials: Credentials, others: Credentials) -> None:
        """`others` are the credentials of the other environment."""
        self.env = env
        self._credentials = credentials
        self._others = others
        self._identities: OrderedDict[tuple[str, int, str], _Known] = OrderedDict()

    def service(self, name: str) -> Service | None:
        """The service with this name."""
        return self.env.settings.declared.services.get(name)

    def audience(self, service: Service) -> str:
        """What tokens for this service name, here."""
        return service.audience_at(self.env.addresses.base)

    async def caller_of(self, credential: str, service: Service | None, now: int) -> Principal:
        """Whose credential this is: a bearer credential, or the value of a session cookie. A token
        must be for the API or for this service. Raises `AuthenticationRequired`, which says where
        else it is valid."""
        caller = await self._caller_of(credential, now)
        if caller.resource is not None and (
            service is None or caller.resource != self.audience(service)
        ):
            raise other_resource(caller)
        return caller

    async def _caller_of(self, credential: str, now: int) -> Principal:
        ours = self._credentials
        if _is_bearer(credential):
            if known := ours.known(credential, now):
                return known
            look_up = ours.look_up(credential, now)
        else:
            if known := ours.known_session(credential, now):
                return known
            look_up = ours.look_up_session(credential, now)
        try:
            return await look_up
        except AuthenticationRequired:
            if not await self._others.holds(credential, now, session=not _is_bearer(credential)):
                raise
            where = self._others.base
            raise AuthenticationRequired(f"This credential is only valid at {where}.") from None

    async def admit(
        self,
        request: Request,
        authenticators: Authenticators,
        service: Service,
        method: str,
        path: str,
    ) -> Pairs | None:
        """Authenticates, counts and permits a request to a service; returns the headers that say
        who asks, None if nobody is asked. `path` is the rest behind the service's own. Raises
        `PorticoError`."""
        needed = needed_at(service, method, path)
        if needed.public:
            await throttle.address(request, cost=needed.cost)
            return None
        try:
            caller = await authenticators.of_request(request, method, self.audience(service))
        except AuthenticationRequired as refusal:
            refusal.scope = " ".join(needed.scopes) or None
            raise
        decision = await self.decide(caller, needed, method, request.origin, request.now)
        request.caller, request.account_id = caller, caller.user_id
        request.verdict, request.cost = decision.verdict, decision.cost
        if decision.error is not None:
            raise decision.error
        return await self._who_asks(caller, service, request.now)

    async def decide(
        self,
        caller: Principal,
        needed: Needed,
        method: str | None,
        origin: Origin | None,
        now: int,
    ) -> Decision:
        """Counts the request against its account, then checks the credential's networks (if
        `origin` is given), the method (likewise) and the scope."""
        verdict = await self._count(caller, needed, now)
        if verdict.month_used:
            plan = self.env.plan(caller.plan)
            self.env[Quotas].used(caller.user_id, plan, verdict.month_used, now)
        error: PorticoError | None = None
        if not verdict.admitted:
            error = over_limit(verdict)
        else:
            try:
                _check(caller, needed, method, origin)
            except PermissionDenied as refusal:
                error = refusal
        return Decision(caller, error, verdict, needed.cost if verdict.admitted else 0)

    async def _count(self, caller: Principal, needed: Needed, now: int) -> Verdict:
        """Takes what the request costs from the plan's windows, and one from its named limit."""
        limiter, account = self.env.limiter, (ACCOUNT, caller.user_id)
        plan = self.env.plan(caller.plan)
        if needed.limit is None and needed.cost == 1:
            return await limiter.take(account, plan, now)
        claims: Claims = [(account, plan)]
        if needed.limit is not None:
            limit = self.env.settings.declared.limits[needed.limit]
            claims = [*claims, ((LIMITED, f"{caller.user_id}:{needed.limit}"), limit)]
        return await limiter.take_all(claims, now, [needed.cost, 1][: len(claims)])

    async def _who_asks(self, caller: Principal, service: Service, now: int) -> Pairs:
        """The headers that tell the service who asks, with a token that is valid for a minute. They
        are sent again for half of that, unless the caller has changed; they must not be changed."""
        key = (caller.credential, caller.credential_id, service.name)
        known = self._identities.get(key)
        if known is not None and known.caller == caller and now < known.until:
            return known.headers
        env, issued = self.env, now // SECOND
        claims = {
            "aud": self.audience(service),
            "sub": str(caller.user_id),
            "role": caller.role,
            "scope": " ".join(sorted(caller.scopes)),
            "plan": caller.plan,
            "credential": f"{caller.credential}:{caller.credential_id}",
            "iat": issued,
            "exp": issued + IDENTITY_SECONDS,
        }
        await env[Signer].ready()
        headers = _of_caller(caller, env.name, env[Signer].sign(claims, now, IDENTITY_TYPE))
        until = now + IDENTITY_SECONDS * SECOND // 2
        self._identities[key] = _Known(caller, headers, until)
        if len(self._identities) > IDENTITIES:
            self._identities.popitem(last=False)
        return headers


def needed_at(service: Service, method: str, path: str) -> Needed:
    """What a request needs at a service. `path` is the rest behind the service's own. Raises
    `Unreadable`."""
    try:
        return needed_by(service.rule(method, path))
    except PermissionDenied as refusal:
        return Needed(refused=refusal.message)


def _is_bearer(credential: str) -> bool:
    """Whether this is sent as `Authorization: Bearer`; a session's secret has no prefix or dots."""
    return credential.startswith(("sk_", ACCESS_TOKEN)) or credential.count(".") == 2


def _check(caller: Principal, needed: Needed, method: str | None, origin: Origin | None) -> None:
    """Raises `PermissionDenied`."""
    if origin is not None and not origin.is_within(caller.admits):
        raise outside(origin)
    if needed.refused:
        raise PermissionDenied(needed.refused)
    for scope in needed.scopes or (None,):
        require(caller, scope, method or "GET")


def _of_caller(caller: Principal, environment: str, identity: str) -> Pairs:
    """Who asks, for the service."""
    return [
        ("x-portico-user", str(caller.user_id)),
        ("x-portico-role", caller.role),
        ("x-portico-scopes", " ".join(sorted(caller.scopes))),
        ("x-portico-plan", caller.plan),
        ("x-portico-credential", f"{caller.credential}:{caller.credential_id}"),
        ("x-portico-environment", environment),
        ("x-portico-identity", identity),
    ]
