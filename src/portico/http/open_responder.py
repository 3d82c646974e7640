"""The ways of what needs no credential and is counted nowhere: files, what operators ask, and the
refusal of plain HTTP. Errors are as specification §7 has them.
"""

from collections.abc import Sequence

from portico.domain.errors import PermissionDenied, PorticoError
from portico.domain.networks import Network, is_within
from portico.http.api_responder import nowhere
from portico.http.messages import Reply, Request
from portico.http.peers import FORWARDED_FOR
from portico.http.problems import problem
from portico.http.routing import Access, Endpoint, PathMatch


class OpenResponder:
    """The way of files, for anyone, and of what operators ask, some of it from their addresses
    alone."""

    def __init__(self, operators: Sequence[Network]) -> None:
        """`operators` are the addresses of `Access.OPERATOR`."""
        self._operators = operators

    def serves(self, access: str | Access) -> bool:
        """Whoever needs no credential."""
        return access in (Access.ANYONE, Access.OPERATOR)

    async def answer(
        self,
        request: Request,
        match: PathMatch,
        endpoint: Endpoint | None,
        _id_texts: Sequence[str],
    ) -> Reply:
        """Everything between the route and the reply."""
        if endpoint is None:
            raise nowhere(request, match)
        if endpoint.route.access is Access.OPERATOR:
            self._check_operator(request)
        return await endpoint.handler(request)

    def _check_operator(self, request: Request) -> None:
        """Raises `PermissionDenied` but for the operators. What tells of no forwarding was sent
        straight to the port, also where a proxy has its address in common with an operator."""
        origin = request.origin
        known = origin.known or FORWARDED_FOR not in request.headers
        if not (known and is_within(origin.address, self._operators)):
            raise PermissionDenied("This is not open to your address.")

    def problem(self, _request: Request, error: PorticoError) -> Reply:
        """The error body of specification §7."""
        return problem(error)


class PlainHttpResponder:
    """The way of all that comes over plain HTTP and must not: nowhere. It never redirects: the
    credential has leaked already."""

    def __init__(self, secure_address: str) -> None:
        """`secure_address` is where callers are told to go."""
        self._secure_address = secure_address

    def serves(self, _access: str | Access) -> bool:
        """Nobody."""
        return False

    async def answer(
        self,
        _request: Request,
        _match: PathMatch,
        _endpoint: Endpoint | None,
        _id_texts: Sequence[str],
    ) -> Reply:
        """Raises `PermissionDenied`."""
        raise PermissionDenied(
            f"Plain HTTP is refused; use {self._secure_address}."
            " If you sent a credential, replace it."
        )

    def problem(self, _request: Request, error: PorticoError) -> Reply:
        """The error body of specification §7."""
        return problem(error)
