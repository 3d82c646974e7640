"""Authlib, as it is, against the server: its client for Flask, and its session for Requests."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from authlib.integrations.base_client import OAuthError
from authlib.integrations.flask_client import OAuth
from authlib.integrations.requests_client import OAuth2Session
from authlib.oauth2.rfc7523 import PrivateKeyJWT
from flask import Flask, jsonify, session, url_for
from flask.testing import FlaskClient
from joserfc.jwk import RSAKey

from oauth.authority import GOODBYE, SCOPES, VERIFIER, WEB_APP, Authority, Registered
from oauth.visiting import Browser

pytestmark = pytest.mark.usefixtures("trusted")

SCOPE = f"openid profile email {SCOPES}"


def web_site(authority: Authority, client: Registered) -> Flask:
    """A site that signs its users in with Portico."""
    site = Flask("shop")
    site.secret_key = "of this test"
    portico = OAuth(site).register(
        "portico",
        client_id=client.client_id,
        client_secret=client.client_secret,
        server_metadata_url=f"{authority.issuer}/.well-known/openid-configuration",
        client_kwargs={"scope": SCOPE, "code_challenge_method": "S256"},
    )

    @site.get("/login")
    def login() -> Any:
        return portico.authorize_redirect(url_for("callback", _external=True, _scheme="https"))

    @site.get("/callback")
    def callback() -> Any:
        try:
            token = portico.authorize_access_token()
        except OAuthError as error:
            return jsonify(error=error.error), 403
        session["id_token"] = token["id_token"]
        products = portico.get(f"{authority.api}/products", token=token)
        asked = portico.userinfo(token=token)
        return jsonify(told=token["userinfo"], asked=asked, products=products.json())

    @site.get("/logout")
    def logout() -> Any:
        return portico.logout_redirect(
            post_logout_redirect_uri=GOODBYE, id_token_hint=session.pop("id_token")
        )

    @site.get("/goodbye")
    def goodbye() -> Any:
        return jsonify(portico.validate_logout_response())

    return site


@pytest.fixture
def shop(authority: Authority, web_app: Registered) -> Iterator[FlaskClient]:
    """The browser's side of the site."""
    with web_site(authority, web_app).test_client() as client:
        yield client


def brought_back(shop: FlaskClient, browser: Browser) -> str:
    """The path at the site to which the server sends the browser that wants to sign in."""
    begun = shop.get("/login", base_url="https://shop.example")
    callback = browser.decide(begun.location)
    assert callback.startswith(f"{WEB_APP}?")
    return callback.removeprefix("https://shop.example")


def test_a_site_signs_its_users_in_by_discovery_with_pkce_and_nonce(
    authority: Authority, shop: FlaskClient, browser: Browser
) -> None:
    path = brought_back(shop, browser)
    answer = shop.get(path, base_url="https://shop.example")
    assert answer.status_code == 200
    facts = answer.json
    assert facts is not None
    assert facts["told"]["iss"] == authority.issuer
    assert facts["told"]["sub"] == facts["asked"]["sub"] == str(browser.person.id)
    assert facts["told"]["nonce"]
    assert facts["asked"]["email"] == browser.person.email
    assert facts["asked"]["email_verified"] is False
    assert "pagination" in facts["products"]


def test_a_site_signs_its_users_out(shop: FlaskClient, browser: Browser) -> None:
    shop.get(brought_back(shop, browser), base_url="https://shop.example")
    left = shop.get("/logout", base_url="https://shop.example")
    page = browser.visit(left.location)
    assert page.left_for.startswith(f"{GOODBYE}?state=")
    path = page.left_for.removeprefix("https://shop.example")
    assert shop.get(path, base_url="https://shop.example").status_code == 200
    again = shop.get("/login", base_url="https://shop.example")
    assert browser.visit(again.location).has("email", "password")


def test_a_session_renews_introspects_and_revokes(
    authority: Authority, web_app: Registered, browser: Browser
) -> None:
    session = OAuth2Session(
        web_app.client_id,
        web_app.client_secret,
        token_endpoint=f"{authority.issuer}/token",
        scope=SCOPE,
        redirect_uri=WEB_APP,
        code_challenge_method="S256",
    )
    url, session.state = session.create_authorization_url(
        f"{authority.issuer}/authorize", code_verifier=VERIFIER
    )
    session.fetch_token(authorization_response=browser.decide(url), code_verifier=VERIFIER)
    first = dict(session.token)
    session.refresh_token()
    assert session.token["refresh_token"] != first["refresh_token"]
    assert session.get(f"{authority.api}/products").status_code == 200
    introspection = f"{authority.issuer}/introspect"
    facts = session.introspect_token(introspection, session.token["access_token"]).json()
    assert (facts["active"], facts["client_id"]) == (True, web_app.client_id)
    assert set(facts["scope"].split()) == set(SCOPE.split())
    revoked = session.revoke_token(f"{authority.issuer}/revoke", session.token["refresh_token"])
    assert revoked.status_code == 200
    assert session.get(f"{authority.api}/products").status_code == 401
    seen = session.introspect_token(introspection, session.token["access_token"])
    assert seen.json() == {"active": False}


def test_a_program_signs_instead_of_sending_a_secret(authority: Authority, tmp_path: Path) -> None:
    key = RSAKey.generate_key(2048, private=True)
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [key.as_dict(private=False)]}))
    worker = authority.register(WEB_APP, "--grant", "client_credentials", "--jwks", str(keys))
    assert not worker.client_secret
    token_endpoint = f"{authority.issuer}/token"
    method = PrivateKeyJWT(token_endpoint, alg="RS256")
    session = OAuth2Session(
        worker.client_id,
        key,
        token_endpoint_auth_method=method,
        revocation_endpoint_auth_method=method,
        scope="read:products",
    )
    for _ in range(2):
        token = session.fetch_token(token_endpoint, grant_type="client_credentials")
        assert token["scope"] == "read:products"
    assert session.get(f"{authority.api}/products").status_code == 200
    facts = session.introspect_token(f"{authority.issuer}/introspect", token["access_token"])
    assert facts.json()["active"] is True
    session.revoke_token(f"{authority.issuer}/revoke", token["access_token"])
    assert session.get(f"{authority.api}/products").status_code == 401
