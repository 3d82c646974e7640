"""Signing users in by OAuth: a real server and a browser; what is forged is in clients/cases."""

import dataclasses
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from client.issuing import AUTH, published, signed_token
from client.scripted import TOKENS, Scripted, answer
from oauth.authority import WEB_APP, Authority, Registered
from oauth.visiting import Browser
from portico_client import (
    Authorization,
    CallbackRejected,
    Client,
    InvalidToken,
    OAuthApp,
    OAuthError,
    OAuthTokens,
)

SCOPE = "openid profile read:products"


@pytest.fixture(scope="module")
def web_app(served: Authority) -> Registered:
    """A client with a secret."""
    return served.register()


@pytest.fixture
def facts(served: Authority, web_app: Registered, ca: str) -> dict[str, Any]:
    """What the library's side of it is told."""
    own = {"client_id": web_app.client_id, "client_secret": web_app.client_secret}
    return {**own, "redirect_uri": WEB_APP, "auth_url": served.issuer, "ca": ca}


@pytest.fixture
def app(facts: dict[str, Any]) -> Iterator[OAuthApp]:
    """The library's side of it."""
    with OAuthApp(**facts) as app:
        yield app


@pytest.fixture
def browser(served: Authority) -> Iterator[Browser]:
    """A browser with a new editor before it."""
    with served.browser() as opened:
        yield opened


def test_a_user_signs_in_and_tokens_are_renewed_and_ended(
    served: Authority, facts: dict[str, Any], ca: str, browser: Browser
) -> None:
    told: list[OAuthTokens] = []
    with OAuthApp(**facts, on_change=told.append) as app:
        begun = app.begin(SCOPE)
        kept = Authorization(**json.loads(json.dumps(dataclasses.asdict(begun))))
        tokens = app.complete(browser.decide(begun.url), kept)
        assert tokens.identity is not None
        assert tokens.identity.user_id == browser.person.id
        assert tokens.scopes == {"openid", "profile", "read:products"}
        assert tokens.expires_at is not None
        later = tokens.expires_at.timestamp() + 3600
        with Client(auth=tokens, base_url=served.api, ca=ca, clock=lambda: later) as client:
            assert client.me().email == browser.person.email
        (renewed,) = told
        app.revoke(renewed)
        with (
            Client(auth=renewed, base_url=served.api, ca=ca) as client,
            pytest.raises(OAuthError) as refused,
        ):
            client.me()
        assert (refused.value.status, refused.value.code) == (400, "invalid_grant")


def test_a_public_client_needs_no_secret(served: Authority, ca: str, browser: Browser) -> None:
    registered = served.register("http://127.0.0.1/callback", "--public")
    here = "http://127.0.0.1:8123/callback"
    with OAuthApp(registered.client_id, redirect_uri=here, auth_url=served.issuer, ca=ca) as app:
        begun = app.begin("read:products")
        tokens = app.complete(browser.decide(begun.url), begun)
    assert tokens.identity is None
    with Client(auth=tokens, base_url=served.api, ca=ca) as client:
        assert client.me().id == browser.person.id


def test_a_user_who_says_no_and_what_was_begun_otherwise_are_errors(
    app: OAuthApp, browser: Browser
) -> None:
    begun, other = app.begin(SCOPE), app.begin(SCOPE)
    with pytest.raises(OAuthError, match="access_denied"):
        app.complete(browser.decide(begun.url, "deny"), begun)
    callback = browser.decide(begun.url)
    with pytest.raises(CallbackRejected, match="state"):
        app.complete(callback, other)
    assert app.complete(callback, begun).access_token, "nobody has sent the code before"
    for forged, kind, why in (
        (dataclasses.replace(begun, code_verifier="x" * 43), OAuthError, "invalid_grant"),
        (dataclasses.replace(begun, nonce="another"), InvalidToken, "nonce"),
    ):
        with pytest.raises(kind, match=why):
            app.complete(browser.decide(begun.url), forged)


def stand_in(*steps: Any) -> tuple[OAuthApp, Scripted]:
    """An application before a script."""
    script = Scripted(*steps)
    own: dict[str, Any] = {"redirect_uri": WEB_APP, "auth_url": AUTH, "clock": lambda: 0}
    return OAuthApp("client", "secret", transport=script, **own), script


def test_an_authorization_asks_for_a_code_with_state_nonce_and_pkce() -> None:
    app, _ = stand_in()
    one, two = app.begin("read:users write:products"), app.begin("read:users write:products")
    parameters = dict(parse_qsl(urlsplit(one.url).query, strict_parsing=True))
    assert one.url.startswith(f"{AUTH}/authorize?")
    assert parameters.pop("code_challenge") not in ("", one.code_verifier)
    assert parameters == {
        "response_type": "code",
        "client_id": "client",
        "redirect_uri": WEB_APP,
        "scope": "read:users write:products",
        "state": one.state,
        "nonce": one.nonce,
        "code_challenge_method": "S256",
    }
    secrets = [(each.state, each.nonce, each.code_verifier) for each in (one, two)]
    assert all(len(text) == 43 for text in secrets[0])
    assert not {*secrets[0]} & {*secrets[1]}


GOOD = {"code": "c0de", "state": "right", "iss": AUTH}
BEGUN = Authorization("", "openid", "right", "nonce", "verifier")


def test_an_id_token_that_is_missing_or_of_another_access_token_is_refused() -> None:
    forged = signed_token(aud="client", nonce="nonce", at_hash="another")
    for bought, why in (({}, "no ID token"), ({"id_token": forged}, "another access token")):
        app, _ = stand_in(answer(200, {**TOKENS, **bought}), published("one"))
        with pytest.raises(InvalidToken, match=why):
            app.complete(f"{WEB_APP}?{urlencode(GOOD)}", BEGUN)
