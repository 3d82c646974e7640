"""Tokens of programs: a client's own, exchanged ones, and what a service is told of them."""

from typing import Any

import pytest

from driving import BASE, Api
from owned import set_role
from portico.core.audit import OPERATOR
from portico.core.errors import Invalid
from portico.core.oauth import ACCESS_TOKEN_KIND, CLIENT_CREDENTIALS, TOKEN_EXCHANGE
from portico.core.users import User
from portico.features.access.clients import Registered, Registration, register_client
from portico.features.people.accounts import suspend
from signing_in import Visitor, code_of, named, oauth_refused, read, tokens_of

pytestmark = pytest.mark.one_engine

API = BASE["live"]
INVOICES = f"{API}/invoices"
SCOPES = "read:products write:products read:invoices send:mail"


@pytest.fixture
def environ() -> dict[str, str]:
    """One engine: no statement is new."""
    return {}


@pytest.fixture
async def ada(api: Api) -> User:
    """Somebody who may read invoices."""
    return await api.account("viewer")


async def client(
    api: Api, owner: User | None = None, *, scopes: str = SCOPES, **more: Any
) -> Registered:
    uris = () if more else ("https://shop.example/callback",)
    wanted = Registration("Worker", uris, scopes, **more)
    return await register_client(api.live, owner, wanted, public=False, by=OPERATOR)


async def own(api: Api, worker: Registered, **more: str) -> Any:
    form = {"grant_type": CLIENT_CREDENTIALS, **named(worker), **more}
    return await Visitor(api).form("token", form)


async def exchange(api: Api, worker: Registered, token: str, **more: str) -> Any:
    form = {
        "grant_type": TOKEN_EXCHANGE,
        "subject_token": token,
        "subject_token_type": ACCESS_TOKEN_KIND,
        **named(worker),
        **more,
    }
    return await Visitor(api).form("token", form)


async def test_own_token_acts_as_the_owner_with_what_role_and_client_share(api: Api) -> None:
    owner = await api.account("viewer")
    worker = await client(api, owner, grants=("client_credentials",))
    given = (await own(api, worker)).json()
    assert given.keys() == {"access_token", "token_type", "expires_in", "scope"}
    assert given["scope"] == "read:products read:invoices"
    me = await Visitor(api).me(given["access_token"])
    assert me.json()["data"]["id"] == owner.id
    narrow = (await own(api, worker, scope="read:invoices openid")).json()
    assert narrow["scope"] == "read:invoices"
    assert read(narrow["access_token"])[1]["aud"] == INVOICES
    async with api.unchanged():
        oauth_refused(await own(api, worker, scope="write:products"), 400, "invalid_scope")
        oauth_refused(await own(api, worker, resource="https://x.test"), 400, "invalid_target")
    await suspend(api.live, owner.id, OPERATOR)
    oauth_refused(await own(api, worker), 400, "invalid_grant")
    assert (await Visitor(api).me(given["access_token"])).status_code == 401


async def test_grant_needs_a_client_that_is_registered_for_it(api: Api, ada: User) -> None:
    plain = await client(api, ada)
    token = (await tokens_of(api.live, plain.client, ada)).access_token
    async with api.unchanged():
        oauth_refused(await own(api, plain), 400, "unauthorized_client")
        oauth_refused(await exchange(api, plain, token), 400, "unauthorized_client")
        for more in ({"grants": ("client_credentials",)}, {"service": "invoices"}):
            wanted = Registration("Worker", (), SCOPES, **more)
            with pytest.raises(Invalid):
                await register_client(api.live, ada, wanted, public=True, by=OPERATOR)
        for more in ({"grants": ("password",)}, {"service": "unknown"}):
            with pytest.raises(Invalid):
                await client(api, ada, **more)


async def test_exchanged_token_has_no_more_than_both_and_names_who_acts(
    api: Api, ada: User
) -> None:
    shop = await client(api)
    worker = await client(
        api, scopes="read:invoices write:products", grants=("token_exchange",), service="mail"
    )
    code = await code_of(api.live, shop.client, ada, SCOPES, resource="urn:mail")
    token = (await Visitor(api).exchange(shop, code)).json()["access_token"]
    given = (await exchange(api, worker, token, resource=INVOICES)).json()
    assert given["issued_token_type"] == ACCESS_TOKEN_KIND
    assert (given["scope"], given["expires_in"]) == ("read:invoices", 600)
    claims = read(given["access_token"])[1]
    assert claims["act"] == {"sub": worker.client.client_id}
    assert (claims["sub"], claims["aud"]) == (str(ada.id), INVOICES)
    api.clock.advance(seconds=3_500)
    late = (await exchange(api, worker, token, audience=INVOICES)).json()
    assert late["expires_in"] == 100, "no longer than the token itself"
    foreign = (await tokens_of(api.live, shop.client, ada)).access_token
    async with api.unchanged():
        for more, error in (
            ({"resource": "urn:mail"}, "invalid_target"),
            ({"resource": "https://x.test"}, "invalid_target"),
            ({"resource": INVOICES, "audience": API}, "invalid_target"),
            ({"resource": INVOICES, "scope": "write:products"}, "invalid_scope"),
            ({"resource": INVOICES, "actor_token": "x"}, "invalid_request"),
            ({"requested_token_type": "urn:ietf:params:oauth:token-type:jwt"}, "invalid_request"),
        ):
            oauth_refused(await exchange(api, worker, token, **more), 400, error)
        for other in (
            "oat_unknown",
            late["access_token"][:-1],
            foreign,
        ):
            answer = await exchange(api, worker, other, resource=INVOICES)
            oauth_refused(answer, 400, "invalid_grant")


async def test_service_introspects_tokens_meant_for_it_whoever_they_are_of(
    api: Api, ada: User
) -> None:
    shop, service = await client(api), await client(api, service="invoices")

    async def told(resource: str | None) -> dict[str, Any]:
        code = await code_of(api.live, shop.client, ada, SCOPES, resource=resource)
        given = (await Visitor(api).exchange(shop, code)).json()
        seen = []
        for token in (given["access_token"], given["refresh_token"]):
            answer = await Visitor(api).form("introspect", {"token": token, **named(service)})
            seen.append(answer.json())
        assert seen[1] == {"active": False}, "refresh tokens are their client's alone"
        return dict(seen[0])

    facts = await told(INVOICES)
    assert (facts["active"], facts["aud"], facts["sub"]) == (True, INVOICES, str(ada.id))
    assert facts["client_id"] == shop.client.client_id
    await set_role(api.live, ada.email, "editor", OPERATOR)
    for resource in (None, "urn:mail", f"{API}/mcp"):
        assert await told(resource) == {"active": False}
