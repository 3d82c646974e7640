"""requests-oauthlib, as it is, against the server."""

import pytest
from oauthlib.oauth2 import AccessDeniedError, InvalidClientError, InvalidGrantError
from requests_oauthlib import OAuth2Session

from oauth.authority import NATIVE_APP, SCOPES, WEB_APP, Authority, Registered
from oauth.visiting import Browser

pytestmark = pytest.mark.usefixtures("trusted")

SCOPE = ["openid", "profile", "email", *SCOPES.split()]


def session_of(client: Registered, uri: str) -> OAuth2Session:
    """A session as the library's documentation has it."""
    return OAuth2Session(client.client_id, redirect_uri=uri, scope=SCOPE, pkce="S256")


@pytest.mark.parametrize("in_the_body", [False, True], ids=["basic", "post"])
def test_a_web_application_gets_and_renews_tokens(
    authority: Authority, web_app: Registered, browser: Browser, *, in_the_body: bool
) -> None:
    session, token_url = session_of(web_app, WEB_APP), f"{authority.issuer}/token"
    url, _ = session.authorization_url(f"{authority.issuer}/authorize")
    with pytest.raises(AccessDeniedError):
        session.fetch_token(token_url, authorization_response=browser.decide(url, "deny"))
    sent = {"authorization_response": browser.decide(url), "include_client_id": in_the_body}
    with pytest.raises(InvalidClientError):
        session.fetch_token(token_url, client_secret=f"{web_app.client_secret}x", **sent)
    token = session.fetch_token(token_url, client_secret=web_app.client_secret, **sent)
    assert set(token["scope"]) == set(SCOPE)
    userinfo = session.get(f"{authority.issuer}/userinfo").json()
    assert userinfo["sub"] == str(browser.person.id)
    basic = (web_app.client_id, web_app.client_secret)
    renewed = session.refresh_token(token_url, auth=basic)
    assert renewed["refresh_token"] != token["refresh_token"]
    assert session.get(f"{authority.api}/products").status_code == 200
    with pytest.raises(InvalidGrantError):
        session.refresh_token(token_url, token["refresh_token"], auth=basic)
    assert session.get(f"{authority.api}/products").status_code == 401


def test_a_public_client_gets_and_renews_tokens(
    authority: Authority, native_app: Registered, browser: Browser
) -> None:
    session = session_of(native_app, NATIVE_APP.replace("1/", "1:4711/"))
    token_url = f"{authority.issuer}/token"
    url, state = session.authorization_url(f"{authority.issuer}/authorize")
    told = browser.submit(browser.arrive(url), decision="allow").told
    assert told["state"] == state
    # The library takes no callback over plain HTTP, which a loopback address has.
    token = session.fetch_token(token_url, code=told["code"], include_client_id=True)
    renewed = session.refresh_token(token_url, client_id=native_app.client_id)
    assert renewed["access_token"] != token["access_token"]
    assert session.get(f"{authority.api}/products").status_code == 200
