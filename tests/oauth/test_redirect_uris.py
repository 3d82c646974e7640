"""Where codes go: to what is registered, and for anything else nowhere (RFC 9700 §4.1)."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from oauth.authority import NATIVE_APP, WEB_APP, Authority, Registered
from oauth.visiting import Browser, Page

REGISTERED = (
    WEB_APP,
    "https://shop.example:8443/app?tenant=1",
    NATIVE_APP,
    "http://localhost/callback",
    "http://[::1]/callback",
    "com.example.till:/callback",
)

TRICKS = {
    "longer path": "https://shop.example/callbackx",
    "below": "https://shop.example/callback/x",
    "above": "https://shop.example/callback/../x",
    "root": "https://shop.example",
    "longer host": "https://shop.example.evil.example/callback",
    "longer name": "https://shop.exampleevil/callback",
    "other host": "https://evil.example/callback",
    "query of another": "https://evil.example/?https://shop.example/callback",
    "user is the host": "https://shop.example@evil.example/callback",
    "user is host and port": "https://shop.example:443@evil.example/callback",
    "user": "https://ada:secret@shop.example/callback",
    "default port": "https://shop.example:443/callback",
    "other port": "https://shop.example:8444/app?tenant=1",
    "no port": "https://shop.example/app?tenant=1",
    "other query": "https://shop.example:8443/app?tenant=2",
    "more query": "https://shop.example:8443/app?tenant=1&next=x",
    "added query": "https://shop.example/callback?x=1",
    "host in capitals": "https://SHOP.example/callback",
    "scheme in capitals": "HTTPS://shop.example/callback",
    "path in capitals": "https://shop.example/Callback",
    "empty fragment": "https://shop.example/callback#",
    "fragment": "https://shop.example/callback#x",
    "encoded fragment": "https://shop.example/callback%23x",
    "encoded letter": "https://shop.example/%63allback",
    "encoded slash": "https://shop.example%2Fcallback",
    "encoded twice": quote(WEB_APP, safe=""),
    "encoded line break": "https://shop.example/callback%0D%0ASet-Cookie:%20x=1",
    "line break": "https://shop.example/callback\r\nSet-Cookie: x=1",
    "null": "https://shop.example/callback\0",
    "encoded null": "https://shop.example/callback%00",
    "backslash and user": "https://shop.example\\@evil.example/callback",
    "backslash before the host": "https://evil.example\\.shop.example/callback",
    "backslashes": "https:\\\\shop.example\\callback",
    "dot behind the host": "https://shop.example./callback",
    "slash behind": "https://shop.example/callback/",
    "question mark behind": "https://shop.example/callback?",
    "dot behind": "https://shop.example/callback.",
    "two slashes": "https://shop.example//callback",
    "dot in the path": "https://shop.example/./callback",
    "dots in the path": "https://shop.example/x/../callback",
    "space before": " https://shop.example/callback",
    "space behind": "https://shop.example/callback ",
    "tab in the scheme": "ht\ttps://shop.example/callback",
    "other alphabet": "https://sh\u043ep.example/callback",
    "plain http": "http://shop.example/callback",
    "no scheme": "//shop.example/callback",
    "path alone": "/callback",
    "word": "callback",
    "javascript": "javascript:alert(1)",
    "javascript with the address": "javascript://shop.example/callback%0Aalert(1)",
    "data": "data:text/html,<script>alert(1)</script>",
    "loopback: path": "http://127.0.0.1:4711/other",
    "loopback: query": "http://127.0.0.1:4711/callback?x=1",
    "loopback: question mark": "http://127.0.0.1:4711/callback?",
    "loopback: fragment": "http://127.0.0.1:4711/callback#x",
    "loopback: https": "https://127.0.0.1:4711/callback",
    "loopback: port 0": "http://127.0.0.1:0/callback",
    "loopback: port 65536": "http://127.0.0.1:65536/callback",
    "loopback: no number": "http://127.0.0.1:x/callback",
    "loopback: other digits": "http://127.0.0.1:\u0664\u0667/callback",
    "loopback: user": "http://127.0.0.1:4711@evil.example/callback",
    "loopback: backslash": "http://127.0.0.1:4711\\@evil.example/callback",
    "loopback: longer": "http://localhost.evil.example:4711/callback",
    "loopback: capitals": "http://LOCALHOST:4711/callback",
    "loopback: neighbour": "http://127.0.0.2/callback",
    "loopback: short": "http://127.1/callback",
    "loopback: one number": "http://2130706433/callback",
    "loopback: long": "http://[0:0:0:0:0:0:0:1]/callback",
    "loopback: brackets": "http://[::1]:80.evil.example/callback",
    "native: slashes": "com.example.till://callback",
    "native: path": "com.example.till:/callback/x",
    "native: capitals": "com.example.Till:/callback",
}


@pytest.fixture(scope="module")
def many(authority: Authority) -> Registered:
    """A client with one redirect URI of each kind."""
    more = [flag for uri in REGISTERED[1:] for flag in ("--redirect-uri", uri)]
    return authority.register(REGISTERED[0], *more)


@pytest.fixture(scope="module")
def signed_in(authority: Authority, many: Registered) -> Iterator[tuple[Browser, Page]]:
    """A browser whose user is signed in, and a form that would grant a code."""
    with authority.browser() as browser:
        yield browser, browser.arrive(authority.asking(many))


def assert_nothing_goes_anywhere(
    authority: Authority, browser: Browser, form: Page, url: str
) -> None:
    """An error page answers the visit, and also a forged consent to it."""
    codes = authority.counted("authorization_codes")
    csrf = next(form.sent["csrf"] for form in form.forms if "decision" in form.buttons)
    consent = {"csrf": csrf, "decision": "allow"}
    for response in (
        browser.ask("GET", url),
        browser.ask("POST", url, data=consent, headers={"origin": browser.origin}),
        browser.ask("POST", url, data={**consent, "decision": "deny"}),
    ):
        assert response.status_code == 400
        assert "location" not in response.headers
        assert "refresh" not in response.headers
        assert response.headers["content-type"].startswith("text/html")
        assert "http-equiv" not in response.text
        assert "Authorization failed" in response.text
    assert authority.counted("authorization_codes") == codes


@pytest.mark.parametrize("trick", TRICKS.values(), ids=TRICKS)
def test_an_address_that_is_not_registered_gets_nothing(
    authority: Authority, many: Registered, signed_in: tuple[Browser, Page], trick: str
) -> None:
    assert_nothing_goes_anywhere(authority, *signed_in, authority.asking(many, trick))


DOUBLED = {
    "good, then bad": "&redirect_uri=https://evil.example/callback",
    "the same": f"&redirect_uri={WEB_APP}",
    "two clients": "&client_id=client_x",
    "an empty one": "&redirect_uri=",
}


@pytest.mark.parametrize("more", DOUBLED.values(), ids=DOUBLED)
def test_a_doubled_parameter_gets_nothing(
    authority: Authority, many: Registered, signed_in: tuple[Browser, Page], more: str
) -> None:
    assert_nothing_goes_anywhere(authority, *signed_in, authority.asking(many) + more)


LEFT_OUT = {
    "no address": {"redirect_uri": ""},
    "no client": {"client_id": ""},
    "unknown client": {"client_id": "client_000000000000000000000000"},
    "an array": {"redirect_uri": "", "redirect_uri[]": WEB_APP},
    "other case": {"redirect_uri": "", "Redirect_Uri": WEB_APP},
}


@pytest.mark.parametrize("wishes", LEFT_OUT.values(), ids=LEFT_OUT)
def test_a_request_without_client_or_address_gets_nothing(
    authority: Authority,
    many: Registered,
    signed_in: tuple[Browser, Page],
    wishes: dict[str, str],
) -> None:
    assert_nothing_goes_anywhere(authority, *signed_in, authority.asking(many, **wishes))


def test_an_address_that_cannot_be_read_gets_nothing(
    authority: Authority, many: Registered, signed_in: tuple[Browser, Page]
) -> None:
    for more in ("&state=%FF", "&a=1" * 60):
        assert_nothing_goes_anywhere(authority, *signed_in, authority.asking(many) + more)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
@pytest.mark.parametrize("port", ["", ":80", ":1024", ":65535"])
def test_a_native_application_chooses_its_port(
    authority: Authority, many: Registered, browser: Browser, host: str, port: str
) -> None:
    uri = f"http://{host}{port}/callback"
    page = browser.submit(browser.arrive(authority.asking(many, uri)), decision="allow")
    assert page.left_for.startswith(f"{uri}?code=")
    answer = authority.exchange(many, page.told["code"], f"http://{host}:1/callback")
    assert answer.json()["error"] == "invalid_grant", "the very address counts at the exchange"
    answer = authority.exchange(many, page.told["code"], uri)
    assert answer.status_code == 200


@pytest.mark.parametrize("uri", REGISTERED)
def test_every_registered_address_gets_codes(
    authority: Authority, many: Registered, browser: Browser, uri: str
) -> None:
    page = browser.submit(browser.arrive(authority.asking(many, uri)), decision="allow")
    join = "&" if "?" in uri else "?"
    assert page.left_for.startswith(f"{uri}{join}code=")
    assert authority.exchange(many, page.told["code"], uri).status_code == 200
