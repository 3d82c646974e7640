"""What may be mounted where."""

import tracemalloc
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from driving import Headers
from portico.core.errors import Unreadable
from portico.features.access import oauth_endpoints
from portico.features.access.oauth_responder import OAuthResponder
from portico.features.catalogue.products import PRODUCTS
from portico.features.people import endpoints as people_endpoints
from portico.resource.routes import routes as routes_of
from portico.web.router import Router, host_name
from portico.web.routing import Access, AnyRoute, Mount

LIVE = SimpleNamespace(name="live")


def asked(*hosts: str, authority: str | None = None, version: str = "1.1") -> Any:
    """What the server tells of a request to these hosts."""
    headers = Headers([("host", host) for host in hosts])
    return SimpleNamespace(headers=headers, authority=authority, http_version=version)


def mounted(*routes: AnyRoute) -> Router:
    """AnyRoutes on the way of clients."""
    way = OAuthResponder()
    return Router([Mount("localhost", "/auth", LIVE, routes, "auth", way)])


def test_routes_are_mounted_on_a_responder_that_can_tell_who_calls() -> None:
    place, _ = mounted(*oauth_endpoints.ROUTES).find("/auth/token", asked("localhost"))
    assert place.methods.keys() == {"POST"}
    with pytest.raises(ValueError, match="GET /products: its responder cannot check its access"):
        mounted(*routes_of(PRODUCTS))


@pytest.mark.parametrize(
    "change", [{"access": Access.ANYONE}, {"access": Access.CLIENT}, {"shows": lambda _: "users"}]
)
def test_no_route_permits_something_that_nothing_asks_about(change: dict[str, Any]) -> None:
    (route,) = (
        route for route in people_endpoints.ROUTES if route.handler is people_endpoints.read_me
    )
    permitting = msgspec.structs.replace(route, permit=lambda _caller, _id: None)
    with pytest.raises(ValueError, match="its `permit` would never be called"):
        msgspec.structs.replace(permitting, **change)


def two_hosts() -> Router:
    """Mounts on two hosts, a.example and b.example."""
    responder = OAuthResponder()
    return Router(
        [
            Mount(f"{name}.example", "", LIVE, oauth_endpoints.ROUTES, "auth", responder)
            for name in "ab"
        ]
    )


@pytest.mark.parametrize(
    "hosts",
    [
        (),
        ("a.example", "b.example"),
        ("a.example/auth",),
        ("a.example, b.example",),
        ("user@a.example",),
        ("a.example/" + "x" * 300,),
    ],
)
@pytest.mark.parametrize(
    "router", [two_hosts(), mounted(*oauth_endpoints.ROUTES)], ids=["two", "one"]
)
def test_request_to_no_host_or_to_two_is_refused(router: Router, hosts: tuple[str, ...]) -> None:
    """RFC 9112 §3.2, also where one host is served alone, whose name makes no difference."""
    for authority in (None, "a.example"):
        with pytest.raises(Unreadable, match="Host header"):
            router.find("/auth/token", asked(*hosts, authority=authority))


@pytest.mark.parametrize("version", ["1", "2"])
def test_older_and_newer_versions_of_http_need_no_host_header(version: str) -> None:
    place, _ = mounted(*oauth_endpoints.ROUTES).find("/auth/token", asked(version=version))
    assert place.methods.keys() == {"POST"}


@pytest.mark.parametrize("host", ["a.example", ""])
def test_target_that_names_its_host_comes_before_the_header(host: str) -> None:
    """RFC 9112 §3.2.2 of an absolute form, RFC 9113 §8.3.1 of HTTP/2."""
    responder = OAuthResponder()
    router = Router(
        [
            Mount(f"{name}.example", f"/{name}", LIVE, oauth_endpoints.ROUTES, "auth", responder)
            for name in "ab"
        ]
    )
    found = [
        router.find("/b/token", asked(host)),
        router.find("/b/token", asked(host, authority="b.example")),
    ]
    assert [place.methods.keys() for place, _ in found] == [set(), {"POST"}]


def test_what_is_too_long_to_be_a_host_is_none_and_is_not_remembered() -> None:
    router = two_hosts()
    tracemalloc.start()
    try:
        for number in range(100):
            long = f"{number}.{'x' * 60_000}"
            for scope in (asked(long), asked("a.example", authority=long)):
                place, _ = router.find("/token", scope)
                assert place.methods == {}
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 1_000_000


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("API.example.com.:443", "api.example.com"),
        ("api.example.com:", "api.example.com"),
        ("api.example.com:8443", "api.example.com:8443"),
        ("api.example.com..", "api.example.com."),
        ("api.example.com:0443", "api.example.com:0443"),
        ("[::1]", "[::1]"),
        ("[2001:DB8::1]:443", "[2001:db8::1]"),
        ("", ""),
    ],
)
def test_spellings_of_a_host_are_one_name(spelling: str, name: str) -> None:
    assert host_name(spelling) == name
