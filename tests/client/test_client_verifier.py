"""Verifying tokens: the server's own, forged ones, and keys that come and go."""

import asyncio
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from joserfc import jwt

from client.issuing import AUTH, BASE, GOOD, NOW, key, published, signed_token
from client.scripted import Scripted
from client.signing import PASSWORD, Watched
from driving import Api
from oauth.authority import Authority
from operating import TIMEOUT_SECONDS
from portico.core.audit import OPERATOR
from portico.features.access.signing import Signer
from portico_client import AsyncTokenVerifier, InvalidToken, TokenVerifier
from signing_in import Visitor


def verifier(*steps: Any) -> tuple[TokenVerifier, Scripted]:
    """A verifier before a script."""
    script = Scripted(*steps)
    own: dict[str, Any] = {"clock": lambda: NOW, "sleep": lambda _: None, "random": lambda: 0}
    return TokenVerifier(AUTH, BASE, transport=script, **own), script


def part(value: Any) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def tampered(token: str, **claims: Any) -> str:
    """A token with other claims and the signature as it was."""
    header, payload, signature = token.split(".")
    return (
        f"{header}.{part({**json.loads(urlsafe_b64decode(payload + '==')), **claims})}.{signature}"
    )


async def test_a_login_token_of_the_server_is_believed_by_both_faces(
    served: Authority, ca: str
) -> None:
    person = served.person()
    with served.client() as anybody:
        body = {"email": person.email, "password": person.password}
        token = anybody.post(f"{served.issuer}/login", json=body).json()["access_token"]
    with TokenVerifier(served.issuer, served.api, ca=ca) as mine:
        claims = mine.verify(token)
        assert (claims.name, claims.role, claims.user_id) == ("Grace Hopper", "editor", person.id)
        with pytest.raises(InvalidToken, match="signature"):
            mine.verify(tampered(token, role="admin"))
    with (
        TokenVerifier(served.issuer, f"{served.origin}/sandbox/v1", ca=ca) as other,
        pytest.raises(InvalidToken, match="another audience"),
    ):
        other.verify(token)
    async with AsyncTokenVerifier(served.issuer, served.api, ca=ca) as mine_too:
        found = await asyncio.gather(*(mine_too.verify(token) for _ in range(10)))
        assert {claims.role for claims in found} == {"editor"}
        with pytest.raises(InvalidToken):
            await mine_too.verify(tampered(token, role="admin"))


def with_public_key_as_secret() -> str:
    """A token whose HMAC has the published key as its secret."""
    signing_input = f"{part({'alg': 'HS256', 'kid': 'one'})}.{part(GOOD)}"
    secret = key("one").as_pem(private=False)
    signature = hmac.digest(secret, signing_input.encode(), "sha256")
    return f"{signing_input}.{urlsafe_b64encode(signature).decode().rstrip('=')}"


def with_its_own_key() -> str:
    """A token that brings the key along that it is signed with."""
    header = {"alg": "RS256", "kid": "one", "jwk": key("two").as_dict(private=False)}
    return jwt.encode(header, GOOD, key("two"), algorithms=["RS256"])


FORGED: dict[str, Callable[[], str]] = {  # the others are in clients/cases/tokens.json
    "the public key as a secret": with_public_key_as_secret,
    "its own key": with_its_own_key,
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_a_forged_token_is_not_believed(forge: Callable[[], str]) -> None:
    mine, _ = verifier(published("one"))
    with pytest.raises(InvalidToken) as refused:
        mine.verify(forge())
    assert "eyJ" not in str(refused.value)


class Answering(httpx.AsyncBaseTransport):
    """Publishes the keys, each time once it may."""

    def __init__(self) -> None:
        self.may = asyncio.Event()
        self.asked = asyncio.Semaphore(0)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.release()
        await self.may.wait()
        return httpx.Response(200, content=published("one").content, request=request)


async def test_of_many_who_come_at_once_with_a_key_that_holds_one_waits() -> None:
    issuer, token, now = Answering(), signed_token(exp=NOW + 9999), [float(NOW)]
    async with AsyncTokenVerifier(AUTH, BASE, transport=issuer, clock=lambda: now[0]) as mine:
        fetching = asyncio.gather(*(mine.verify(token) for _ in range(9)))
        await issuer.asked.acquire()
        issuer.may.set()
        await fetching
        assert issuer.asked.locked(), "nobody else fetched"
        issuer.may.clear()
        now[0] += 1000  # the keys still hold, and are old enough to be fetched anew
        first, *others = [asyncio.ensure_future(mine.verify(token)) for _ in range(9)]
        await asyncio.wait_for(asyncio.gather(*others), TIMEOUT_SECONDS)
        assert not first.done()
        await issuer.asked.acquire()
        first.cancel()
        await asyncio.wait([first])
        await asyncio.wait_for(mine.verify(token), TIMEOUT_SECONDS)
        issuer.may.set()
    assert issuer.asked.locked(), "nobody else fetched"


async def test_rotated_keys_of_the_server_are_followed(api: Api) -> None:
    user = await api.account("editor", password=PASSWORD)
    here, watched = api.live.addresses, Watched(api)

    async def token() -> str:
        return str((await Visitor(api).log_in(user.email, PASSWORD)).json()["access_token"])

    async with AsyncTokenVerifier(
        here.auth, here.base, transport=watched, clock=lambda: api.clock() / 1000
    ) as mine:
        leaked = await token()
        assert (await mine.verify(leaked)).user_id == user.id
        await api.live[Signer].rotate(OPERATOR, at_once=True)
        api.clock.advance(seconds=10)
        assert (await mine.verify(await token())).user_id == user.id
        with pytest.raises(InvalidToken):
            await mine.verify(leaked)
    assert watched.paths.count("/auth/.well-known/jwks.json") == 2
