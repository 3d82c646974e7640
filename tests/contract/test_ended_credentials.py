"""Every ending of every credential: for its next request, for one whose body is coming in, and for
its open stream (decisions §5, §12)."""

from collections.abc import Awaitable, Callable

import httpx
import pytest

from driving import Api, Caller, InProcess, challenge, json_bytes, refused
from event_streams import streaming
from kinds import KINDS, create
from portico.core.audit import OPERATOR
from portico.core.users import User
from portico.features.access.api_keys import revoke_key
from portico.features.access.signing import Signer
from portico.features.access.storage import ApiKeys
from portico.features.catalogue.products import PRODUCTS
from portico.features.catalogue.storage import Products
from portico.features.people.accounts import suspend
from portico.features.signin.service import sign_out_everywhere
from signing_in import AUTH, COOKIE, client_of, login_of, session_of, tokens_of

End = Callable[[Api, Caller, User, httpx.AsyncClient], Awaitable[object]]


async def header_of(api: Api, credential: str, user: User) -> tuple[str, str]:
    """The header of a new credential of a user."""
    if credential == "session":
        return "cookie", f"{COOKIE}={await session_of(api.live, user)}"
    if credential == "key":
        token = (await api.caller(user=user, expires_at=api.clock() + 60_000)).key
    elif credential == "login":
        token = (await login_of(api.live, user)).access_token
    else:
        client = (await client_of(api.live, user)).client
        token = (
            await tokens_of(api.live, client, user, "read:products write:products")
        ).access_token
    return "authorization", f"Bearer {token}"


async def revoke(api: Api, _admin: Caller, user: User, _client: httpx.AsyncClient) -> None:
    async for keys in api.live[ApiKeys].batches(user.id):
        for key in keys:
            await revoke_key(api.live, key.id, OPERATOR)


async def expire(api: Api, *_: object) -> None:
    api.clock.advance(days=1)


async def sign_out(_api: Api, _admin: Caller, _user: User, client: httpx.AsyncClient) -> None:
    by_cookie = "cookie" in client.headers
    method, url = ("DELETE", "/sessions") if by_cookie else ("POST", f"{AUTH['live']}/logout")
    assert (await client.request(method, url)).status_code == 204


ENDINGS: dict[str, End] = {
    "revoked": revoke,
    "expired": expire,
    "signed out": sign_out,
    "signed out everywhere": lambda api, _a, user, _c: sign_out_everywhere(
        api.live, user.id, OPERATOR
    ),
    "signing key rotated": lambda api, *_: api.live[Signer].rotate(OPERATOR, at_once=True),
    "account deleted": lambda _, admin, user, _c: admin.delete(f"/users/{user.id}"),
    "account suspended": lambda api, _a, user, _c: suspend(api.live, user.id, OPERATOR),
    "account demoted": lambda _, admin, user, _c: admin.patch(
        f"/users/{user.id}", json={"role": "viewer"}
    ),
}
OF_ACCOUNT = [ending for ending in ENDINGS if ending.startswith("account")]
PAIRS = [
    *(("key", ending) for ending in ("revoked", "expired", *OF_ACCOUNT)),
    *(("session", e) for e in ("expired", "signed out", "signed out everywhere", *OF_ACCOUNT)),
    *(("login", e) for e in ("expired", "signed out", "signed out everywhere", *OF_ACCOUNT)),
    ("login", "signing key rotated"),
    *(("consent", ending) for ending in ("expired", "signed out everywhere", *OF_ACCOUNT)),
]


FIRST = {ending: credential for credential, ending in reversed(PAIRS)}
CASES = [
    pytest.param(*pair, marks=() if FIRST[pair[1]] == pair[0] else pytest.mark.one_engine)
    for pair in PAIRS
]
"""On both engines each ending once: what differs is how others are told."""


@pytest.mark.parametrize(("credential", "ending"), CASES)
async def test_an_ended_credential_writes_reads_and_streams_no_more(
    api: Api, credential: str, ending: str
) -> None:
    admin, lasting = await api.caller("admin"), await api.caller("editor")
    user = await api.account("editor")
    header = await header_of(api, credential, user)
    client = api.stranger(**dict([header]))

    async def end() -> None:
        await ENDINGS[ending](api, admin, user, client)

    headers = [header, ("content-type", "application/json"), ("idempotency-key", "order-17")]
    body = json_bytes(KINDS["/products"].new(0))
    async with streaming(client) as ended, streaming(lasting, type="product.*") as other:
        answer = await InProcess(api).exchange(
            "POST", "/v1/products", headers, body[:5], end, body[5:]
        )
        refused(answer, 401, "AUTHENTICATION_REQUIRED")
        if credential != "session":
            assert challenge(answer) == 'Bearer error="invalid_token"'
        await ended.end()
        status = 403 if ending == "account demoted" else 401
        refused(await client.post("/products", content=body, headers=dict(headers[1:])), status)
        assert (await api.state())["live idempotency_keys"] == []
        drafts = PRODUCTS.query(status="draft")
        assert (await api.live[Products].listed(drafts, 0, None)).total == 0
        made = await create(lasting, "/products")
        assert made == f"/products/{(await other.event())['data']['id']}"
