"""What may be mounted where."""

from types import SimpleNamespace

import pytest

from driving import Headers
from portico.api import oauth, products
from portico.domain.errors import Unreadable
from portico.http.measure import Measure
from portico.http.oauth_responder import OAuthResponder
from portico.http.routing import AnyRoute, Mount, Router
from portico.http.throttle import Throttle

LIVE = SimpleNamespace(name="live")


def mounted(*routes: AnyRoute) -> Router:
    """AnyRoutes on the way of clients."""
    way = OAuthResponder(Throttle(Measure(None)))
    return Router([Mount("localhost", "/auth", LIVE, routes, "auth", way)])


def test_routes_are_mounted_on_a_responder_that_can_tell_who_calls() -> None:
    place, _ = mounted(*oauth.ROUTES).find("/auth/token", {})
    assert place.methods.keys() == {"POST"}
    with pytest.raises(ValueError, match="GET /products: its responder cannot tell who calls"):
        mounted(*products.ROUTES)


def test_a_request_to_two_hosts_is_refused_where_they_matter() -> None:
    responder = OAuthResponder(Throttle(Measure(None)))
    router = Router(
        [Mount(f"{name}.example", "", LIVE, oauth.ROUTES, "auth", responder) for name in "ab"]
    )
    place, _ = router.find("/token", Headers([("host", "B.example:443")]))
    assert place.methods.keys() == {"POST"}
    with pytest.raises(Unreadable, match="once"):
        router.find("/token", Headers([("host", "a.example"), ("host", "b.example")]))
