"""Logins for a JSON Web Token, and their refresh tokens (specification §5.3; decisions §5)."""

import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from driving import BASE, NOON, Api, challenge, refused
from signing_in import AUTH, PASSWORD, Visitor, client_of, decoded, read, tokens_of

pytestmark = pytest.mark.one_engine

HOUR = 3_600
NOW = NOON // 1000


@pytest.mark.parametrize("env", ["live", "sandbox"])
async def test_login_answers_four_fields_and_a_token_with_the_claims(
    api: Api, visitor: Visitor, env: str
) -> None:
    environment = api.live if env == "live" else api.sandbox
    ada = await api.account("editor", env=environment, password=PASSWORD, name="Ada Lovelace")
    api.clock.advance(milliseconds=999)
    answer = await visitor.log_in(ada.email, env=env)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    body = answer.json()
    assert body.keys() == {"access_token", "refresh_token", "expires_in", "token_type"}
    assert (body["expires_in"], body["token_type"]) == (HOUR, "Bearer")
    header, claims = read(body["access_token"])
    assert header.keys() == {"alg", "typ", "kid"}
    assert (header["alg"], header["typ"]) == ("RS256", "JWT")
    assert len(claims.pop("jti")) == 32
    assert claims == {
        "sub": str(ada.id),
        "name": "Ada Lovelace",
        "role": "editor",
        "iat": NOW,
        "exp": NOW + HOUR,
        "iss": AUTH[env],
        "aud": BASE[env],
    }
    me = await visitor.me(body["access_token"], env=env)
    assert me.json()["data"]["id"] == ada.id
    assert me.json()["data"]["last_login_at"] == "2026-03-15T12:00:00.999Z"


async def test_published_keys_verify_a_login_token(api: Api, visitor: Visitor) -> None:
    ada = await api.account(password=PASSWORD)
    token = (await visitor.log_in(ada.email)).json()["access_token"]
    answer = await visitor.send("GET", f"{AUTH['live']}/.well-known/jwks.json")
    assert answer.headers["cache-control"] == "public, max-age=900"
    keys = answer.json()
    for key in keys["keys"]:
        assert key.keys() == {"kid", "kty", "use", "alg", "n", "e"}
        assert (key["kty"], key["use"], key["alg"]) == ("RSA", "sig", "RS256")
        assert len(decoded(key["n"])) == 256
    assert jwt.decode(token, KeySet.import_key_set(keys), algorithms=["RS256"])


async def test_refresh_answers_like_a_login_and_rotates(api: Api, visitor: Visitor) -> None:
    ada = await api.account("editor", password=PASSWORD)
    first = (await visitor.log_in(ada.email)).json()
    api.clock.advance(seconds=HOUR)
    answer = await visitor.refresh(first["refresh_token"])
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    second = answer.json()
    assert second.keys() == first.keys()
    assert second["refresh_token"] != first["refresh_token"]
    claims = read(second["access_token"])[1]
    assert (claims["iat"], claims["exp"]) == (NOW + HOUR, NOW + 2 * HOUR)
    assert (claims["sub"], claims["role"]) == (str(ada.id), "editor")
    refused(await visitor.me(first["access_token"]), 401)
    assert (await visitor.me(second["access_token"])).status_code == 200
    third = (await visitor.refresh(second["refresh_token"])).json()
    # Those that were issued before hold until their own end.
    for token in (second, third):
        assert (await visitor.me(token["access_token"])).status_code == 200


@pytest.mark.parametrize("env", ["live", "sandbox"])
async def test_refresh_by_any_other_token_is_refused(api: Api, visitor: Visitor, env: str) -> None:
    ada = await api.account(password=PASSWORD)
    login = (await visitor.log_in(ada.email)).json()
    client = (await client_of(api.live)).client
    of_client = await tokens_of(api.live, client, ada)
    tokens = ["", "ort_", "x" * 10_000, login["access_token"], of_client.refresh_token]
    if env == "sandbox":
        tokens.append(login["refresh_token"])
    async with api.unchanged():
        for token in tokens:
            answer = await visitor.refresh(token, env=env)
            refused(answer, 401, "AUTHENTICATION_REQUIRED")
            assert challenge(answer) == "Bearer"
    assert (await visitor.refresh(login["refresh_token"])).status_code == 200


async def test_login_tokens_are_not_stored(api: Api, visitor: Visitor) -> None:
    ada = await api.account(password=PASSWORD)
    login = (await visitor.log_in(ada.email)).json()
    held = repr(await api.state())
    for token in (login["access_token"], login["refresh_token"]):
        assert token not in held
        assert token.removeprefix("ort_") not in held


async def test_refused_login_has_the_error_body_of_the_api(visitor: Visitor) -> None:
    answer = await visitor.log_in("nobody@example.com")
    refused(answer, 401, "AUTHENTICATION_REQUIRED")
    assert challenge(answer) == "Bearer"
    missing = await visitor.send("POST", f"{AUTH['live']}/login", {"email": "a"})
    assert refused(missing, 400, "VALIDATION_ERROR").keys() == {"password"}
    more = {"email": "a", "password": "b", "role": "admin"}
    unknown = await visitor.send("POST", f"{AUTH['live']}/login", more)
    assert refused(unknown, 400, "VALIDATION_ERROR").keys() == {"role"}


async def test_login_accepts_an_email_in_any_spelling(api: Api, visitor: Visitor) -> None:
    for email in ("zoë@example.com", "ada@münchen.de"):
        await api.account(password=PASSWORD, email=email)
    for spelled in (
        "ZOË@EXAMPLE.COM",
        " \u00a0zoe\u0308@example.com\t\r\n",
        "ADA@XN--MNCHEN-3YA.DE",  # as Chromium sends it
    ):
        assert (await visitor.log_in(spelled)).status_code == 200
        assert (await visitor.open_session(spelled)).status_code == 201
