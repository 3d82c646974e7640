"""Signing users in by OAuth: a real server and a browser; callbacks that are forged."""

import dataclasses
import json
from collections.abc import Iterator
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from client.scripted import CASES, Scripted, answer
from client.test_client_sign_in import HOUR
from client.test_client_verifier import published, signed
from oauth.authority import WEB_APP, Authority, Registered
from oauth.visiting import Browser
from portico_client import (
    AsyncClient,
    AsyncOAuthApp,
    Authorization,
    CallbackRejected,
    Client,
    InvalidToken,
    OAuthApp,
    OAuthError,
    OAuthTokens,
)

AUTH = "https://portico.example/auth"
SCOPE = "openid profile read:products"


@pytest.fixture(scope="module")
def web_app(served: Authority) -> Registered:
    """A client with a secret."""
    return served.register()


@pytest.fixture
def app(served: Authority, web_app: Registered, ca: str) -> Iterator[OAuthApp]:
    """The library's side of it."""
    with OAuthApp(
        web_app.client_id,
        web_app.client_secret,
        redirect_uri=WEB_APP,
        auth_url=served.issuer,
        ca=ca,
    ) as app:
        yield app


@pytest.fixture
def browser(served: Authority) -> Iterator[Browser]:
    """A browser with a new editor before it."""
    with served.browser() as opened:
        yield opened


def kept(begun: Authorization) -> Authorization:
    """An authorization after it was kept as JSON in a session."""
    return Authorization(**json.loads(json.dumps(dataclasses.asdict(begun))))


def test_a_user_signs_in_and_the_tokens_work(
    served: Authority, ca: str, app: OAuthApp, browser: Browser
) -> None:
    begun = app.begin(SCOPE)
    tokens = app.complete(browser.decide(begun.url), kept(begun))
    assert tokens.identity is not None
    assert tokens.identity.user_id == browser.person.id
    assert tokens.scopes == {"openid", "profile", "read:products"}
    with Client(auth=tokens, base_url=served.api, ca=ca) as client:
        assert client.me().email == browser.person.email
        assert client.products.list().page(1).pagination.page == 1


def test_tokens_are_renewed_and_ended(
    served: Authority, web_app: Registered, ca: str, browser: Browser
) -> None:
    told: list[OAuthTokens] = []
    with OAuthApp(
        web_app.client_id,
        web_app.client_secret,
        redirect_uri=WEB_APP,
        auth_url=served.issuer,
        ca=ca,
        on_change=told.append,
    ) as app:
        begun = app.begin("read:products")
        tokens = app.complete(browser.decide(begun.url), begun)
        assert tokens.identity is None
        assert tokens.expires_at is not None
        later = tokens.expires_at.timestamp() + HOUR
        with Client(auth=tokens, base_url=served.api, ca=ca, clock=lambda: later) as client:
            client.me()
        (renewed,) = told
        app.revoke(renewed)
        with (
            Client(auth=renewed, base_url=served.api, ca=ca) as client,
            pytest.raises(OAuthError) as refused,
        ):
            client.me()
        assert (refused.value.status, refused.value.code) == (400, "invalid_grant")


async def test_the_asynchronous_face_does_the_same(
    served: Authority, web_app: Registered, ca: str, browser: Browser
) -> None:
    async with AsyncOAuthApp(
        web_app.client_id,
        web_app.client_secret,
        redirect_uri=WEB_APP,
        auth_url=served.issuer,
        ca=ca,
    ) as app:
        begun = app.begin(SCOPE)
        tokens = await app.complete(browser.decide(begun.url), begun)
        assert tokens.identity is not None
        async with AsyncClient(auth=tokens, base_url=served.api, ca=ca) as client:
            assert (await client.me()).id == tokens.identity.user_id
        await app.revoke(tokens)
        async with AsyncClient(auth=tokens, base_url=served.api, ca=ca) as client:
            with pytest.raises(OAuthError):
                await client.me()


def test_a_public_client_needs_no_secret(served: Authority, ca: str, browser: Browser) -> None:
    registered = served.register("http://127.0.0.1/callback", "--public")
    with OAuthApp(
        registered.client_id,
        redirect_uri="http://127.0.0.1:8123/callback",
        auth_url=served.issuer,
        ca=ca,
    ) as app:
        begun = app.begin("read:products")
        tokens = app.complete(browser.decide(begun.url), begun)
    with Client(auth=tokens, base_url=served.api, ca=ca) as client:
        assert client.me().id == browser.person.id


def test_a_user_who_says_no_is_an_error(app: OAuthApp, browser: Browser) -> None:
    begun = app.begin("read:products")
    with pytest.raises(OAuthError) as refused:
        app.complete(browser.decide(begun.url, "deny"), begun)
    assert refused.value.code == "access_denied"


def test_the_callback_of_another_browser_is_rejected_and_its_code_stays_unused(
    app: OAuthApp, browser: Browser
) -> None:
    mine, theirs = app.begin("read:products"), app.begin("read:products")
    callback = browser.decide(theirs.url)
    with pytest.raises(CallbackRejected, match="state"):
        app.complete(callback, mine)
    assert app.complete(callback, theirs).access_token, "nobody has sent the code before"


def test_the_code_is_bound_to_the_verifier(app: OAuthApp, browser: Browser) -> None:
    begun = app.begin("read:products")
    forged = dataclasses.replace(begun, code_verifier="x" * 43)
    with pytest.raises(OAuthError) as refused:
        app.complete(browser.decide(begun.url), forged)
    assert refused.value.code == "invalid_grant"


def test_an_id_token_for_another_nonce_is_refused(app: OAuthApp, browser: Browser) -> None:
    begun = app.begin(SCOPE)
    forged = dataclasses.replace(begun, nonce="another")
    with pytest.raises(InvalidToken, match="nonce"):
        app.complete(browser.decide(begun.url), forged)


def stand_in(*steps: object) -> tuple[OAuthApp, Scripted]:
    """An application before a script."""
    script = Scripted(*steps)  # type: ignore[arg-type]  # answers, all of them
    app = OAuthApp(
        "client", "secret", redirect_uri=WEB_APP, auth_url=AUTH, transport=script, clock=lambda: 0
    )
    return app, script


def callback(**parameters: str) -> str:
    """An address at the application."""
    return f"{WEB_APP}?{urlencode(parameters)}"


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
    assert all(len(text) == 43 for text in (one.state, one.nonce, one.code_verifier))
    assert {one.state, one.nonce, one.code_verifier} & {
        *(two.state, two.nonce, two.code_verifier)
    } == set()


GOOD = {"code": "c0de", "state": "right", "iss": AUTH}


@CASES
@example(GOOD, "")
@example({**GOOD, "state": "other"}, "&state=right")
@example({**GOOD, "iss": "other"}, f"&iss={AUTH}")
@example(GOOD, "&code=other")
@given(
    st.fixed_dictionaries(
        {"code": st.text()},
        optional={
            "state": st.sampled_from(["right", "Right", "righ", "right ", ""]) | st.text(),
            "iss": st.sampled_from([AUTH, f"{AUTH}/", "https://evil.example/auth", ""]) | st.text(),
            "error": st.just("access_denied"),
        },
    ),
    st.sampled_from(["", "", "", "&state=right", "&code=other", "&iss=x"]),
)
def test_no_code_is_sent_unless_state_and_issuer_are_ours(
    parameters: dict[str, str], added: str
) -> None:
    app, script = stand_in(answer(400, {"error": "invalid_grant"}))
    begun = Authorization("", "read:users", "right", "nonce", "verifier")
    url = callback(**parameters) + added
    sent = parse_qsl(urlsplit(url).query, keep_blank_values=True)
    once = len({name for name, _ in sent}) == len(sent)
    ours = once and {("state", "right"), ("iss", AUTH)} <= set(sent)
    coded = ours and "error" not in parameters and parameters["code"] != ""
    with pytest.raises(
        OAuthError if coded or (ours and "error" in parameters) else CallbackRejected
    ):
        app.complete(url, begun)
    assert len(script.requests) == (1 if coded else 0)


def test_the_code_is_sent_once_in_the_body() -> None:
    app, script = stand_in(httpx.ReadTimeout("slow"))
    begun = Authorization("", "read:users", "right", "nonce", "verifier")
    with pytest.raises(Exception, match="slow"):
        app.complete(callback(**GOOD), begun)
    (request,) = script.requests
    assert request.url == f"{AUTH}/token"
    assert dict(parse_qsl(request.content.decode())) == {
        "grant_type": "authorization_code",
        "code": "c0de",
        "redirect_uri": WEB_APP,
        "code_verifier": "verifier",
        "client_id": "client",
        "client_secret": "secret",
    }


def test_an_id_token_of_another_access_token_is_refused() -> None:
    claims = {"aud": "client", "nonce": "nonce", "at_hash": "another"}
    bought = {"access_token": "a", "token_type": "Bearer", "expires_in": 3600}
    app, _ = stand_in(answer(200, {**bought, "id_token": signed(**claims)}), published("one"))
    begun = Authorization("", "openid", "right", "nonce", "verifier")
    with pytest.raises(InvalidToken, match="another access token"):
        app.complete(callback(**GOOD), begun)


def test_a_missing_id_token_is_missed() -> None:
    bought = {"access_token": "a", "token_type": "Bearer", "expires_in": 3600}
    app, _ = stand_in(answer(200, bought))
    begun = Authorization("", "openid", "right", "nonce", "verifier")
    with pytest.raises(InvalidToken, match="no ID token"):
        app.complete(callback(**GOOD), begun)
