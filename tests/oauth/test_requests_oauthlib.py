"""requests-oauthlib, as it is, against the server."""

import warnings
from typing import Any

import pytest
from oauthlib.oauth2 import AccessDeniedError, InvalidClientError, InvalidGrantError
from oauthlib.oauth2.rfc6749.errors import MismatchingStateError
from requests_oauthlib import OAuth2Session

from oauth.authority import NATIVE_APP, SCOPES, WEB_APP, Authority, Registered
from oauth.visiting import Browser

pytestmark = pytest.mark.usefixtures("trusted")

SCOPE = ["openid", "profile", "email", *SCOPES.split()]


class Application:
    """A program that uses the library as its documentation says."""

    def __init__(self, authority: Authority, client: Registered, redirect_uri: str) -> None:
        self.session = OAuth2Session(
            client.client_id, redirect_uri=redirect_uri, scope=SCOPE, pkce="S256"
        )
        self.issuer = authority.issuer
        self.url, self.state = self.session.authorization_url(f"{self.issuer}/authorize")

    def fetch(self, callback: str, **credentials: Any) -> Any:
        """Exchanges the code of a callback."""
        return self.session.fetch_token(
            f"{self.issuer}/token", authorization_response=callback, **credentials
        )


@pytest.mark.parametrize("in_the_body", [False, True], ids=["basic", "post"])
def test_a_web_application_gets_and_renews_tokens(
    authority: Authority, web_app: Registered, browser: Browser, *, in_the_body: bool
) -> None:
    application = Application(authority, web_app, WEB_APP)
    secret = {"client_secret": web_app.client_secret, "include_client_id": in_the_body}
    token = application.fetch(browser.decide(application.url), **secret)
    assert set(token["scope"]) == set(SCOPE)
    assert (token["token_type"], token["expires_in"]) == ("Bearer", 3600)
    session = application.session
    userinfo = session.get(f"{authority.issuer}/userinfo").json()
    assert userinfo["sub"] == str(browser.person.id)
    assert userinfo["email"] == browser.person.email
    basic = (web_app.client_id, web_app.client_secret)
    renewed = session.refresh_token(f"{authority.issuer}/token", auth=basic)
    assert renewed["refresh_token"] != token["refresh_token"]
    assert session.get(f"{authority.api}/products").status_code == 200
    with pytest.raises(InvalidGrantError):
        session.refresh_token(f"{authority.issuer}/token", token["refresh_token"], auth=basic)
    assert session.get(f"{authority.api}/products").status_code == 401


@pytest.mark.parametrize("in_the_body", [False, True], ids=["empty basic", "id alone"])
def test_a_public_client_gets_and_renews_tokens(
    authority: Authority, native_app: Registered, browser: Browser, *, in_the_body: bool
) -> None:
    application = Application(authority, native_app, NATIVE_APP.replace("1/", "1:4711/"))
    told = browser.submit(browser.arrive(application.url), decision="allow").told
    assert (told["state"], told["iss"]) == (application.state, authority.issuer)
    session = application.session
    # The library takes no callback over plain HTTP, which a loopback address has.
    token = session.fetch_token(
        f"{authority.issuer}/token", code=told["code"], include_client_id=in_the_body or None
    )
    assert session.get(f"{authority.api}/products").status_code == 200
    renewed = session.refresh_token(f"{authority.issuer}/token", client_id=native_app.client_id)
    assert renewed["access_token"] != token["access_token"]


def test_a_code_is_good_for_one_exchange(
    authority: Authority, web_app: Registered, browser: Browser
) -> None:
    application = Application(authority, web_app, WEB_APP)
    callback = browser.decide(application.url)
    application.fetch(callback, client_secret=web_app.client_secret)
    bought = application.session.token
    with pytest.raises(InvalidGrantError):
        application.fetch(callback, client_secret=web_app.client_secret)
    application.session.token = bought
    assert application.session.get(f"{authority.api}/products").status_code == 401


def test_a_wrong_secret_gets_nothing_and_spends_nothing(
    authority: Authority, web_app: Registered, browser: Browser
) -> None:
    application = Application(authority, web_app, WEB_APP)
    callback = browser.decide(application.url)
    with pytest.raises(InvalidClientError):
        application.fetch(callback, client_secret=f"{web_app.client_secret}x")
    assert application.fetch(callback, client_secret=web_app.client_secret)["access_token"]


def test_a_user_who_denies_and_a_foreign_state_are_told(
    authority: Authority, web_app: Registered, browser: Browser
) -> None:
    application = Application(authority, web_app, WEB_APP)
    denied = browser.decide(application.url, "deny")
    with pytest.raises(AccessDeniedError):
        application.fetch(denied, client_secret=web_app.client_secret)
    callback = browser.decide(application.url)
    with pytest.raises(MismatchingStateError):
        application.fetch(callback.replace(application.state, "another"))


def test_scopes_beyond_the_role_of_the_user_are_narrowed_and_told(
    authority: Authority, web_app: Registered
) -> None:
    application = Application(authority, web_app, WEB_APP)
    with authority.browser("viewer") as browser:
        callback = browser.decide(application.url)
    with warnings.catch_warnings(), pytest.raises(Warning, match="Scope has changed") as told:
        application.fetch(callback, client_secret=web_app.client_secret)
    assert set(told.value.new_scope) == set(SCOPE) - {"write:products"}  # type: ignore[attr-defined]
