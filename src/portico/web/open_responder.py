"""How requests without a credential or a limit are answered: files, operators' routes such as
`/metrics`, and the refusal of plain HTTP. Errors have the body of specification §7.
"""

from collections.abc import Sequence

from portico.core.errors import PermissionDenied, PorticoError
from portico.core.networks import Network, is_within
from portico.web.api_responder import no_endpoint
from portico.web.messages import Reply, Request
from portico.web.peers import FORWARDED_FOR
from portico.web.problems import problem
from portico.web.routing import Access, Endpoint, PathMatch


class OpenResponder:
    """Answers requests for files, and for operators' routes, some of which are open to operators'
    addresses only."""

    def __init__(self, operators: Sequence[Network]) -> None:
        """`operators` are the addresses that have `Access.OPERATOR`."""
        self._operators = operators

    def serves(self, access: str | Access) -> bool:
        """Only accesses that need no credential."""
        return access in (Access.ANYONE, Access.OPERATOR)

    async def answer(
        self,
        request: Request,
        match: PathMatch,
        endpoint: Endpoint | None,
        _id_texts: Sequence[str],
    ) -> Reply:
        """Checks an operator's address, then calls the handler. Raises `PorticoError`."""
        if endpoint is None:
            raise no_endpoint(request, match)
        if endpoint.route.access is Access.OPERATOR:
            self._check_operator(request)
        reply = await endpoint.handler(request)
        if endpoint.cache_control:  # files say it for themselves
            reply.headers.append(("cache-control", endpoint.cache_control))
        return reply

    def _check_operator(self, request: Request) -> None:
        """Raises `PermissionDenied` unless the address is an operator's. A request without
        forwarding headers came directly to the port, even from an address that a trusted proxy
        uses too."""
        origin = request.origin
        known = origin.known or FORWARDED_FOR not in request.headers
        if not (known and is_within(origin.address, self._operators)):
            raise PermissionDenied(
                "This is not open to your address; an operator can add it to metrics_allow."
            )

    def problem(self, _request: Request, error: PorticoError) -> Reply:
        """The error body of specification §7."""
        return problem(error)


class PlainHttpResponder(OpenResponder):
    """Refuses every request over plain HTTP. It never redirects: a credential in the request has
    leaked already."""

    def __init__(self, secure_address: str) -> None:
        """`secure_address` is the HTTPS address that the refusal names."""
        super().__init__(())
        self._secure_address = secure_address

    async def answer(self, *_: object) -> Reply:
        """Raises `PermissionDenied`."""
        raise PermissionDenied(
            f"Plain HTTP is refused; use {self._secure_address}."
            " If you sent a credential, replace it."
        )
