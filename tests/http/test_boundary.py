"""Whatever is raised below becomes an answer."""

from types import SimpleNamespace
from typing import Any

import pytest

from driving import Headers
from portico.core.errors import Conflict, PermissionDenied, PorticoError
from portico.features.access.oauth_responder import refusal
from portico.web.cors import Cors, Sharing
from portico.web.measure import Measure
from portico.web.messages import Reply, Request
from portico.web.peers import Peers
from portico.web.pipeline import Pipeline
from portico.web.problems import problem
from portico.web.router import Router
from portico.web.routing import Access, Mount, Route


class Nearer(Conflict):
    """One level below an error that has a status."""


class Farther(Nearer):
    """Two levels below it."""


def test_error_has_the_status_of_the_nearest_class_above_it() -> None:
    assert problem(Farther("No.")).status == 409
    assert refusal(Farther("No.")).status == 409


class FailingWay:
    """Raises what it was made with, and cannot show errors."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def serves(self, _access: str | Access) -> bool:
        return True

    async def answer(self, *_: Any) -> Reply:
        raise self._error

    def problem(self, _request: Request, error: PorticoError) -> Reply:
        """Fails too, but for what it knows."""
        if isinstance(error, PermissionDenied):
            return problem(error)
        raise RuntimeError("the renderer is broken")


class Proto:
    """Keeps the response."""

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.told = status, dict(headers), body


@pytest.mark.parametrize("error", [Farther("No."), ValueError("No.")])
async def test_boundary_holds_where_an_error_cannot_be_shown(error: Exception) -> None:
    environment = SimpleNamespace(name="live")

    async def handler(_: Request) -> Reply:
        return Reply(200)

    route = Route(method="GET", path="/x", handler=handler, access=Access.ANYONE, summary="X")
    cors = {Sharing.LISTED: Cors(["https://app.example"])}
    mount = Mount("localhost", "/v1", environment, [route], "v1", FailingWay(error), cors=cors)
    router = Router([mount])
    pipeline = Pipeline(router, router, Peers(()), Measure(None), clock=lambda: 0, random=bytes)
    scope: Any = SimpleNamespace(
        client="192.0.2.1:1",
        http_version="1.1",
        authority=None,
        scheme="https",
        method="GET",
        path="/v1/x",
        query_string="",
        headers=Headers([("host", "localhost"), ("origin", "https://app.example")]),
    )
    proto = Proto()
    await pipeline.__rsgi__(scope, proto)
    status, headers, body = proto.told
    assert status == 500
    assert b'"code":"INTERNAL_ERROR"' in body
    assert headers["content-type"] == "application/json"
    assert headers["x-request-id"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["access-control-allow-origin"] == "https://app.example"
