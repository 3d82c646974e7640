"""Ending what a client has signed in for."""

import json
from typing import Any

import pytest

from client.scripted import KEY, PLACE, Scripted, answer, refusal
from client.test_client_sign_in import ME, PASSWORD, UNKNOWN, scripted, session, signing_in, tokens
from driving import Api
from owned import grants_of, sessions_of
from portico_client import Client, Login, OAuthTokens, ServiceUnavailable, SessionLogin

GONE = answer(204)


def test_a_login_ends_by_its_refresh_token_and_the_next_call_signs_in_again() -> None:
    client, script = scripted(tokens("one"), ME, GONE, tokens("two"), ME)
    client.logout()
    assert not script.requests, "there was none yet"
    client.me()
    client.logout()
    ending = script.requests[-1]
    assert (ending.method, ending.url.path) == ("POST", "/auth/logout")
    assert json.loads(ending.content) == {"refresh_token": "after-one"}
    assert "authorization" not in ending.headers
    client.logout()
    assert len(script.requests) == 3, "it has ended"
    client.me()
    assert [request.url.path for request in script.requests[3:]] == ["/auth/login", "/v1/users/me"]


@pytest.mark.parametrize("ended", [GONE, UNKNOWN])
def test_a_session_ends_by_its_cookie(ended: Any) -> None:
    login = SessionLogin("ada@example.com", PASSWORD)
    client, script = scripted(session("__Host-session=s3cr3t"), ME, ended, credential=login)
    client.me()
    client.logout()
    ending = script.requests[-1]
    assert (ending.method, ending.url.path) == ("DELETE", "/v1/sessions")
    assert ending.headers["cookie"] == "__Host-session=s3cr3t"


def test_a_login_that_could_not_be_ended_is_kept() -> None:
    outage = refusal(503, "SERVICE_UNAVAILABLE")
    client, script = scripted(tokens("one"), ME, outage, ME, GONE)
    client.me()
    with pytest.raises(ServiceUnavailable):
        client.logout()
    client.me()
    client.logout()
    assert json.loads(script.requests[-1].content) == {"refresh_token": "after-one"}


def test_what_is_no_login_cannot_be_ended() -> None:
    script, held = Scripted(), OAuthTokens("access", "refresh", "client")
    for client in (
        Client(KEY, base_url=PLACE, transport=script),
        Client(auth=held, base_url=PLACE, transport=script),
    ):
        with pytest.raises(ValueError, match="cannot be logged out"):
            client.logout()
        assert not script.requests


@pytest.mark.parametrize("kind", [Login, SessionLogin])
async def test_what_was_ended_is_gone_from_the_service(
    api: Api, kind: type[Login] | type[SessionLogin]
) -> None:
    user = await api.account("viewer", password=PASSWORD)
    async with signing_in(api, kind(user.email, PASSWORD)) as (client, watched):
        await client.me()
        await client.logout()
        assert not await grants_of(api.live, user.id, api.clock())
        assert not await sessions_of(api.live, user.id, api.clock())
        assert (await client.me()).id == user.id
        signing = "/auth/login" if kind is Login else "/v1/sessions"
        assert watched.paths[-2:] == [signing, "/v1/users/me"]
