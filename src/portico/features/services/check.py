"""`GET /check/{service}`: a proxy asks before it lets a request pass."""

from collections.abc import Mapping, Sequence

from portico.core.errors import PermissionDenied, PorticoError, Unreadable
from portico.core.networks import is_loopback
from portico.core.services import Service, path_of
from portico.features.services.service import Decisions
from portico.web import throttle
from portico.web.api_responder import no_endpoint
from portico.web.authenticate import Authenticators
from portico.web.messages import Reply, Request
from portico.web.peers import Peers
from portico.web.problems import problem
from portico.web.routing import Access, AnyRoute, Endpoint, PathMatch, Route

_METHODS = ("x-forwarded-method", "x-original-method")
_TARGETS = ("x-forwarded-uri", "x-original-uri")
_NO_STORE = ("cache-control", "no-store")


class CheckResponder:
    """Answers the proxies in front of services."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    def serves(self, access: str | Access) -> bool:
        """Any caller, whom the handler authenticates."""
        return access is Access.ANY_CALLER

    def problem(self, _request: Request, error: PorticoError) -> Reply:
        """The error body of specification §7, which the proxy passes on."""
        return problem(error)

    async def answer(
        self, request: Request, match: PathMatch, endpoint: Endpoint | None, _ids: Sequence[str]
    ) -> Reply:
        """Answers proxies on this machine and trusted ones. Raises `PorticoError`."""
        peer = request.peer
        try:
            if not (is_loopback(peer) or self._peers.trusts(peer)):
                raise PermissionDenied(
                    "Only a proxy on this machine, or one in trusted_proxies, may ask this."
                )
            if endpoint is None:
                raise no_endpoint(request, match)
            return await endpoint.handler(request)
        except PorticoError as error:
            await throttle.refusal(request, error)
            raise


def routes(
    services: Mapping[str, Service], decisions: Decisions, authenticators: Authenticators
) -> tuple[AnyRoute, ...]:
    """A route for each service."""
    return tuple(_route(service, decisions, authenticators) for service in services.values())


def _route(service: Service, decisions: Decisions, authenticators: Authenticators) -> AnyRoute:
    label = f"check {service.name}"

    async def check(request: Request) -> Reply:
        request.label = label
        method, path = _header(request, _METHODS), path_of(_header(request, _TARGETS))
        told = await decisions.admit(request, authenticators, service, method, path)
        return Reply(200, b"", [_NO_STORE, *(told or ())])

    return Route(
        method="GET",
        path=f"/check/{service.name}",
        handler=check,
        access=Access.ANY_CALLER,
        summary=f"Check a request to {service.name}",
        no_store=True,
    )


def _header(request: Request, names: tuple[str, str]) -> str:
    """What the proxy says of the original request. A client may have sent the name that this proxy
    does not set, so two that differ are refused. Raises `Unreadable`."""
    sent = [value for name in names for value in request.headers.get_all(name)]
    if len(set(sent)) != 1 or len(sent) > len(names):
        raise Unreadable(f"The proxy must send {names[0]} or {names[1]} once.")
    return str(sent[0])
