"""What may be mounted where."""

from types import SimpleNamespace

import pytest

from portico.api import oauth, products
from portico.http.measure import Measure
from portico.http.oauth_way import OAuthWay
from portico.http.routing import AnyRoute, Mount, Router
from portico.http.throttle import Throttle

LIVE = SimpleNamespace(name="live")


def mounted(*routes: AnyRoute) -> Router:
    """AnyRoutes on the way of clients."""
    way = OAuthWay(Throttle(Measure(None)))
    return Router([Mount("localhost", "/auth", LIVE, routes, "auth", way)])


def test_routes_are_mounted_on_a_way_that_can_tell_who_calls() -> None:
    place, _ = mounted(*oauth.ROUTES).find("/auth/token", {})
    assert place.methods.keys() == {"POST"}
    with pytest.raises(ValueError, match="GET /products: its way cannot tell who calls"):
        mounted(*products.ROUTES)
