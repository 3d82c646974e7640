"""Whether a browser may be sent back, and with what (RFC 6749 §4.1.2.1, 7636, 8252, 9207, 9700)."""

from collections.abc import Sequence
from urllib.parse import parse_qsl, urlsplit

import pytest

from driving import Api
from portico.core.errors import BrokenRule
from portico.core.oauth import AuthorizationRefused, Client, redirect_allowed, redirect_uri
from portico.features.access.authorization import AuthorizationRequest, Returned, read_request
from portico.features.access.clients import Registered
from signing_in import CALLBACK, CHALLENGE, client_of

ISSUER = "https://localhost:8443/auth"


def client_with(*uris: str) -> Client:
    return Client(1, "client_x", None, None, "Shop", uris, frozenset({"read:products"}), 0)


GOOD_URIS = [
    "https://shop.example/callback",
    "https://shop.example",
    "https://shop.example:8443/callback?tenant=1&x=%C3%A9",
    "https://shop.example/*?x=*",
    "https://xn--bcher-kva.example/callback",
    "https://[2001:db8::1]/callback",
    "http://127.0.0.1/callback",
    "http://[::1]:8080/callback",
    "http://localhost:3000/callback",
    "com.example.app:/callback",
    "cursor://anysphere.cursor-retrieval/oauth/callback",
    "vscode://vscode.github-authentication/did-authenticate",
    "com.example.app://oauth/callback",
]


@pytest.fixture
def environ() -> dict[str, str]:
    """One engine: requests are judged by rules alone, once a client is found."""
    return {}


BAD_URIS = [
    "",
    "/callback",
    "//shop.example/callback",
    "https:///callback",
    "https:shop.example",
    "http://shop.example/callback",
    "http://127.0.0.2/callback",
    "http://127.1/callback",
    "http://2130706433/callback",
    "http://0.0.0.0/callback",
    "http://[::ffff:127.0.0.1]/callback",
    "http://localhost.evil.example/callback",
    "http://127.0.0.1@evil.example/callback",
    "http://localhost:65536/callback",
    "https://user:pass@shop.example/callback",
    "https://shop.example/callback#",
    "https://shop.example\\@evil.example/callback",
    "https://shop.example/call back",
    "https://shop.example/callback\n",
    "https://b\u00fccher.example/callback",
    "https://shop.example/\u202ecallback",
    "https://[::1/callback",
    "JavaScript:alert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "blob:https://shop.example/x",
    "about:blank",
    "urn:ietf:wg:oauth:2.0:oob",
    "https://*.shop.example/callback",
    "https://shop.example:*/callback",
    "https://" + "a" * 2000 + ".example/",
]


def test_valid_redirect_uri_is_registered_and_allowed_unchanged() -> None:
    for uri in GOOD_URIS:
        assert redirect_uri(uri) == uri
        assert redirect_allowed(client_with(uri), uri)


def test_invalid_redirect_uri_is_not_registered() -> None:
    for uri in BAD_URIS:
        with pytest.raises(BrokenRule):
            redirect_uri(uri)


TRICKS: list[tuple[str, str]] = [
    ("callback", "callback/"),
    ("callback", "callback/../evil"),
    ("callback", "callback?next=https://evil.example"),
    ("callback", "callback#@evil.example"),
    ("callback", "callback%00"),
    ("callback", "callback\\"),
    ("callback", "callback\n"),
    ("callback", "%63allback"),
    ("callback", "Callback"),
    ("/callback", "/x/../callback"),
    ("https", " https"),
    ("https", "HTTPS"),
    ("https", "http"),
    ("://", "://evil.example\\@"),
    ("://", "://evil.example@"),
    ("://", ":/\\"),
    ("shop", "SHOP"),
    ("shop", "\uff53hop"),
    ("shop", "sh\u043ep"),
    (".example", ".example."),
    (".example", ".example.evil.example"),
    (".example", ".example%2f@evil.example"),
    (".example", ".example:443"),
]


def test_only_the_registered_redirect_uri_is_allowed() -> None:
    for part, other in TRICKS:
        assert not redirect_allowed(client_with(CALLBACK), CALLBACK.replace(part, other)), other


@pytest.mark.parametrize("registered", ["", ":80", ":65535"])
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
def test_loopback_redirect_uri_is_allowed_with_any_port(host: str, registered: str) -> None:
    client = client_with(f"http://{host}{registered}/callback?a=b", "https://127.0.0.1/cb")
    for port in ("", ":1", ":51004", ":65535"):
        assert redirect_allowed(client, f"http://{host}{port}/callback?a=b")
    others = {"127.0.0.1", "[::1]", "localhost"} - {host}
    for uri in (
        *(f"http://{other}:1/callback?a=b" for other in sorted(others)),
        f"https://{host}:1/callback?a=b",
        "https://127.0.0.1:1/cb",
        f"HTTP://{host}:1/callback?a=b",
        f"http://{host}:1/callback",
        f"http://{host}:1/callback?a=b#",
        f"http://{host}:1@evil.example/callback?a=b",
        f"http://{host}:1.evil.example/callback?a=b",
        f"http://{host}:1\\@evil.example/callback?a=b",
        f"http://{host}:0/callback?a=b",
        f"http://{host}:65536/callback?a=b",
        f"http://user@{host}:1/callback?a=b",
        f"http://{host}%3a1/callback?a=b",
    ):
        assert not redirect_allowed(client, uri), uri


async def ask(api: Api, client: Registered, **more: str | None) -> AuthorizationRequest:
    """Reads a request of this client; None leaves a parameter out."""
    parameters: dict[str, str | None] = {
        "response_type": "code",
        "client_id": client.client.client_id,
        "redirect_uri": CALLBACK,
        "state": "of the client",
    }
    whole = {**parameters, **more}
    sent = [(name, value) for name, value in whole.items() if value is not None]
    return await read_request(api.live, sent)


async def told(api: Api, client: Registered, **more: str | None) -> tuple[str, dict[str, str]]:
    """What a client is told of a faulty request, and where."""
    with pytest.raises(Returned) as refusal:
        await ask(api, client, **more)
    address, _, query = refusal.value.answer.address.partition("?")
    return address, dict(parse_qsl(query))


async def test_valid_authorization_request_is_read(api: Api) -> None:
    shop = await client_of(api.live)
    asked = await ask(
        *(api, shop),
        scope="openid read:products",
        nonce="n",
        code_challenge=CHALLENGE,
        code_challenge_method="S256",
        prompt="login consent",
        max_age="60",
        unknown="ignored",
    )
    assert asked.wanted.scopes == {"openid", "read:products"}
    assert (asked.wanted.nonce, asked.wanted.code_challenge) == ("n", CHALLENGE)
    assert (asked.prompt, asked.max_age) == (frozenset({"login", "consent"}), 60)
    address = asked.answer(ISSUER, code="oac_x").address
    query = {"code": "oac_x", "state": "of the client", "iss": ISSUER}
    assert dict(parse_qsl(urlsplit(address).query)) == query
    assert address.startswith(f"{CALLBACK}?")
    assert (await ask(api, shop)).wanted.scopes == shop.client.scopes


async def test_redirect_keeps_the_query_of_the_registered_uri(api: Api) -> None:
    for uri in ("https://a.test/cb?tenant=1", "https://a.test/cb?", "https://a.test/cb?a=1&"):
        shop = await client_of(api.live, redirect_uris=(uri,))
        asked = await ask(api, shop, redirect_uri=uri)
        address = asked.answer(ISSUER, code="c").address
        assert address.startswith(uri.rstrip("&"))
        assert dict(parse_qsl(urlsplit(address).query))["code"] == "c"
        assert "?&" not in address
        assert "&&" not in address


async def refused_here(api: Api, parameters: Sequence[tuple[str, str]], error: str) -> None:
    with pytest.raises(AuthorizationRefused) as refusal:
        await read_request(api.live, parameters)
    assert not isinstance(refusal.value, Returned)
    assert refusal.value.error == error


async def test_unknown_or_repeated_client_or_redirect_uri_is_an_error_page(api: Api) -> None:
    shop = await client_of(api.live)
    client_id = ("client_id", shop.client.client_id)
    uri = ("redirect_uri", CALLBACK)
    for parameters in (
        [],
        [client_id],
        [uri],
        [client_id, uri, uri],
        [("client_id", "x"), client_id, uri],
        [client_id, ("redirect_uri", "")],
        [client_id, ("redirect_uri", f"{CALLBACK}/")],
    ):
        await refused_here(api, parameters, "invalid_request")
    for unknown in ("client_x", shop.client.client_id.upper(), "\0", "\ud800", "x" * 10_000):
        await refused_here(api, [("client_id", unknown), uri], "invalid_client")


FAULTS: list[tuple[dict[str, str | None], str]] = [
    ({"response_type": None}, "invalid_request"),
    ({"response_type": "token"}, "unsupported_response_type"),
    ({"response_mode": "fragment"}, "invalid_request"),
    ({"scope": "delete:everything offline_access"}, "invalid_scope"),
    ({"resource": "https://evil.example"}, "invalid_target"),
    ({"resource": ISSUER}, "invalid_target"),
    ({"scope": 'x"é\n'}, "invalid_request"),
    ({"scope": 'x"é'}, "invalid_scope"),
    ({"code_challenge": CHALLENGE}, "invalid_request"),
    ({"code_challenge": CHALLENGE, "code_challenge_method": "plain"}, "invalid_request"),
    ({"code_challenge": CHALLENGE + "x", "code_challenge_method": "S256"}, "invalid_request"),
    ({"code_challenge_method": "S256"}, "invalid_request"),
    ({"prompt": "none login"}, "invalid_request"),
    ({"prompt": "nonsense"}, "invalid_request"),
    ({"max_age": "-1"}, "invalid_request"),
    ({"max_age": "9" * 20}, "invalid_request"),
    ({"max_age": "\u0663"}, "invalid_request"),
    ({"nonce": "\0"}, "invalid_request"),
    ({"nonce": "\ud800"}, "invalid_request"),
    ({"nonce": "x" * 2_001}, "invalid_request"),
    ({"request": "eyJ"}, "request_not_supported"),
    ({"request_uri": "https://a.test"}, "request_uri_not_supported"),
    ({"registration": "{}"}, "registration_not_supported"),
]


async def test_other_faults_of_a_request_redirect_with_an_error(api: Api) -> None:
    shop = await client_of(api.live)
    for more, error in FAULTS:
        address, query = await told(api, shop, **more)
        assert address == CALLBACK
        assert query.keys() == {"error", "error_description", "state", "iss"}, more
        answer = (query["error"], query["state"], query["iss"])
        assert answer == (error, "of the client", ISSUER), more
        letters = query["error_description"]
        assert all(" " <= letter <= "~" and letter not in '"\\' for letter in letters)


async def test_empty_parameter_counts_as_missing(api: Api) -> None:
    shop = await client_of(api.live)
    names = "scope nonce code_challenge code_challenge_method prompt max_age acr_values"
    names += " response_mode request request_uri registration"
    without = await ask(api, shop)
    assert await ask(api, shop, **dict.fromkeys(names.split(), "")) == without
    assert without.wanted.nonce is None


async def test_pkce_is_required_of_public_clients_alone(api: Api) -> None:
    till = await client_of(api.live, public=True)
    _, query = await told(api, till)
    assert query["error"] == "invalid_request"
    proof = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}
    assert (await ask(api, till, **proof)).wanted.code_challenge == CHALLENGE
    assert await ask(api, await client_of(api.live))


async def test_repeated_parameter_is_refused_if_it_is_known(api: Api) -> None:
    shop = await client_of(api.live)
    base = [("client_id", shop.client.client_id), ("redirect_uri", CALLBACK)]
    base.append(("response_type", "code"))
    for name in ("scope", "nonce", "state"):
        with pytest.raises(Returned) as refusal:
            await read_request(api.live, [*base, (name, "a"), (name, "")])
        assert refusal.value.error == "invalid_request"
        assert "state" not in dict(parse_qsl(urlsplit(refusal.value.answer.address).query))
    unknown = [("foo", "1"), ("foo", "x" * 2_001), ("audience", "a\nb"), ("", "\0")]
    assert await read_request(api.live, [*base, *unknown]) == await read_request(api.live, base)


async def test_state_comes_back_unchanged_and_one_too_long_with_an_error(api: Api) -> None:
    shop = await client_of(api.live)
    nested = '{"é":"' * 682
    for state, is_told in (
        ("", False),
        (" +&=%00?#é\U0001f600", False),
        ("a\nb", True),
        (nested + "four", False),
        (nested + "four!", True),
    ):
        try:
            address = (await ask(api, shop, state=state)).answer(ISSUER, code="c").address
        except Returned as refusal:
            address = refusal.answer.address
        query = dict(parse_qsl(urlsplit(address).query, keep_blank_values=True))
        assert (query["state"], "error" in query) == (state, is_told)
        assert urlsplit(address).netloc == "shop.example"
        assert address.isascii()
        assert address.isprintable()
