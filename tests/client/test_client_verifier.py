"""Verifying tokens: the server's own, forged ones, and keys that come and go."""

import asyncio
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from client.scripted import Scripted, answer, refusal
from client.test_client_sign_in import PASSWORD, Watched
from driving import Api
from oauth.authority import Authority
from operating import PATIENCE_SECONDS
from portico.core.audit import OPERATOR
from portico.features.access.signing import Signer
from portico_client import (
    APIError,
    AsyncTokenVerifier,
    InvalidToken,
    TokenVerifier,
)

AUTH = "https://portico.example/auth"
BASE = "https://portico.example/v1"
NOW = 1_800_000_000
GOOD: dict[str, Any] = {
    "sub": "17",
    "name": "Ada Lovelace",
    "role": "editor",
    "iat": NOW - 60,
    "exp": NOW + 60,
    "iss": AUTH,
    "aud": BASE,
}


@cache
def key(_name: str) -> RSAKey:
    """A key of this name; making one takes a while."""
    return RSAKey.generate_key(2048, private=True)


def public(name: str, **changes: Any) -> dict[str, Any]:
    """What a key set says of a key."""
    own = key(name).as_dict(private=False)
    return {**own, "kid": name, "use": "sig", "alg": "RS256", **changes}


def published(*names: str) -> Any:
    """An answer with these keys."""
    return answer(200, {"keys": [public(name) for name in names]})


def signed(kid: str = "one", header: dict[str, Any] | None = None, /, **changes: Any) -> str:
    """A token; what is changed to None is left out."""
    claims = {k: v for k, v in {**GOOD, **changes}.items() if v is not None}
    whole = {"alg": "RS256", "typ": "JWT", "kid": kid, **(header or {})}
    return jwt.encode(whole, claims, key(kid), algorithms=["RS256"])


class Clock:
    """Unix seconds, which a test moves."""

    now = float(NOW)

    def __call__(self) -> float:
        """The time."""
        return self.now


def verifier(*steps: Any) -> tuple[TokenVerifier, Scripted, Clock]:
    """A verifier before a script."""
    script, clock = Scripted(*steps), Clock()
    made = TokenVerifier(
        AUTH, BASE, transport=script, clock=clock, sleep=lambda _: None, random=lambda: 0
    )
    return made, script, clock


def login_token(served: Authority) -> str:
    """A token of the server's own."""
    person = served.person()
    with served.client() as anybody:
        body = {"email": person.email, "password": person.password}
        answered = anybody.post(f"{served.issuer}/login", json=body)
    return str(answered.json()["access_token"])


def test_a_login_token_of_the_server_is_believed(served: Authority, ca: str) -> None:
    token = login_token(served)
    with TokenVerifier(served.issuer, served.api, ca=ca) as mine:
        claims = mine.verify(token)
        assert (claims.name, claims.role) == ("Grace Hopper", "editor")
        assert claims.user_id == int(claims.subject)
        with pytest.raises(InvalidToken, match="signature"):
            mine.verify(tampered(token, role="admin"))
    with (
        TokenVerifier(served.issuer, f"{served.origin}/sandbox/v1", ca=ca) as other,
        pytest.raises(InvalidToken, match="another audience"),
    ):
        other.verify(token)


async def test_the_asynchronous_face_believes_it_too(served: Authority, ca: str) -> None:
    token = login_token(served)
    async with AsyncTokenVerifier(served.issuer, served.api, ca=ca) as mine:
        found = await asyncio.gather(*(mine.verify(token) for _ in range(10)))
        assert {claims.role for claims in found} == {"editor"}
        with pytest.raises(InvalidToken):
            await mine.verify(tampered(token, role="admin"))


def tampered(token: str, **claims: Any) -> str:
    """A token with other claims and the signature as it was."""
    header, payload, signature = token.split(".")
    held = json.loads(urlsafe_b64decode(payload + "=="))
    changed = json.dumps({**held, **claims}).encode()
    return f"{header}.{urlsafe_b64encode(changed).decode().rstrip('=')}.{signature}"


def test_a_good_token_is_believed_and_its_key_kept() -> None:
    mine, script, _ = verifier(published("one"))
    claims = mine.verify(signed())
    assert (claims.subject, claims.user_id, claims.all["iat"]) == ("17", 17, NOW - 60)
    assert claims.expires_at.timestamp() == NOW + 60
    mine.verify(signed(aud=["elsewhere", BASE], name=None))
    (request,) = script.requests
    assert request.url == f"{AUTH}/.well-known/jwks.json"


def unproved(alg: str) -> str:
    """What would be signed by this algorithm."""
    parts = ({"alg": alg, "kid": "one"}, GOOD)
    texts = (urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts)
    return ".".join(texts)


def with_public_key_as_secret() -> str:
    """A token whose HMAC has the published key as its secret."""
    signing_input = unproved("HS256")
    secret = key("one").as_pem(private=False)
    signature = hmac.digest(secret, signing_input.encode(), "sha256")
    return f"{signing_input}.{urlsafe_b64encode(signature).decode().rstrip('=')}"


def with_its_own_key() -> str:
    """A token that brings the key along that it is signed with."""
    jwk = key("two").as_dict(private=False)
    header = {"alg": "RS256", "kid": "one", "jwk": jwk}
    return jwt.encode(header, GOOD, key("two"), algorithms=["RS256"])


FORGED: dict[str, Callable[[], str]] = {
    "unsigned": lambda: f"{unproved('none')}.",
    "the public key as a secret": with_public_key_as_secret,
    "its own key": with_its_own_key,
    "another key": lambda: signed("two", {"kid": "one"}),
    "RS512": lambda: jwt.encode(
        {"alg": "RS512", "kid": "one"}, GOOD, key("one"), algorithms=["RS512"]
    ),
    "without a key": lambda: jwt.encode({"alg": "RS256"}, GOOD, key("one"), algorithms=["RS256"]),
    "a critical header": lambda: signed().replace(
        signed().split(".")[0],
        urlsafe_b64encode(b'{"alg":"RS256","kid":"one","crit":["exp"]}').decode().rstrip("="),
    ),
    "no signature": lambda: f"{signed().rpartition('.')[0]}.",
    "two parts": lambda: signed().rpartition(".")[0],
    "four parts": lambda: f"{signed()}.x",
    "nothing": lambda: "",
    "no header": lambda: "..",
    "no base64": lambda: "ü.ü.ü",
    "too long": lambda: signed(name="x" * 20_000),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_a_forged_token_is_not_believed(forge: Callable[[], str]) -> None:
    mine, _, _ = verifier(published("one"))
    with pytest.raises(InvalidToken) as refused:
        mine.verify(forge())
    assert "eyJ" not in str(refused.value)


@pytest.mark.parametrize("name", ["unsigned", "the public key as a secret", "a critical header"])
def test_what_cannot_be_good_has_no_keys_fetched(name: str) -> None:
    mine, script, _ = verifier()
    with pytest.raises(InvalidToken):
        mine.verify(FORGED[name]())
    assert script.requests == []


def test_an_issuer_that_cannot_be_asked_is_no_reason_to_disbelieve() -> None:
    mine, script, _ = verifier(refusal(404, "RESOURCE_NOT_FOUND"))
    for _ in range(2):
        with pytest.raises(APIError):
            mine.verify(signed())
    assert len(script.requests) == 1


async def test_many_tasks_fetch_the_keys_once() -> None:
    script = Scripted(published("one"))
    async with AsyncTokenVerifier(AUTH, BASE, transport=script, clock=Clock()) as mine:
        await asyncio.gather(*(mine.verify(signed()) for _ in range(20)))
    assert len(script.requests) == 1


class Answering(httpx.AsyncBaseTransport):
    """Publishes the keys, each time once it may."""

    def __init__(self) -> None:
        self.may = asyncio.Event()
        self.asked = asyncio.Semaphore(0)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See `httpx.AsyncBaseTransport`."""
        self.asked.release()
        await self.may.wait()
        return httpx.Response(200, content=published("one").content, request=request)


@asynccontextmanager
async def with_a_key(issuer: Answering, token: str) -> AsyncIterator[AsyncTokenVerifier]:
    """A verifier whose keys hold and are old enough to be fetched anew, of an issuer that does not
    answer any more."""
    clock = Clock()
    issuer.may.set()
    async with AsyncTokenVerifier(AUTH, BASE, transport=issuer, clock=clock) as mine:
        await mine.verify(token)
        await issuer.asked.acquire()
        issuer.may.clear()
        clock.now += 1000
        yield mine


async def test_who_has_a_key_that_holds_does_not_wait_for_who_fetches() -> None:
    issuer, token = Answering(), signed(exp=NOW + 9999)
    async with with_a_key(issuer, token) as mine:
        fetching = asyncio.ensure_future(mine.verify(token))
        await issuer.asked.acquire()
        claims = await asyncio.wait_for(mine.verify(token), PATIENCE_SECONDS)
        assert (claims.user_id, fetching.done()) == (17, False)
        issuer.may.set()
        assert (await fetching).user_id == 17
        assert issuer.asked.locked(), "nobody else fetched"


async def test_of_many_who_come_at_once_with_a_key_that_holds_one_waits() -> None:
    issuer, token = Answering(), signed(exp=NOW + 9999)
    async with with_a_key(issuer, token) as mine:
        first, *others = [asyncio.ensure_future(mine.verify(token)) for _ in range(9)]
        await asyncio.wait_for(asyncio.gather(*others), PATIENCE_SECONDS)
        assert not first.done()
        await issuer.asked.acquire()
        first.cancel()
        await asyncio.wait([first])
        await asyncio.wait_for(mine.verify(token), PATIENCE_SECONDS)
        issuer.may.set()
    assert issuer.asked.locked(), "nobody else fetched"


def test_an_interrupted_fetch_is_made_again_by_whoever_comes_next() -> None:
    def interrupt(_: httpx.Request) -> httpx.Response:
        raise KeyboardInterrupt

    mine, script, _ = verifier(interrupt, published("one"))
    with pytest.raises(KeyboardInterrupt):
        mine.verify(signed())
    assert mine.verify(signed()).user_id == 17
    assert len(script.requests) == 2


async def test_rotated_keys_of_the_server_are_followed(api: Api) -> None:
    user = await api.account("editor", password=PASSWORD)
    base = api.live.addresses.base
    watched = Watched(api)
    anybody = api.stranger()

    async def token() -> str:
        body = {"email": user.email, "password": PASSWORD}
        answered = await anybody.post("https://localhost:8443/auth/login", json=body)
        return str(answered.json()["access_token"])

    async with AsyncTokenVerifier(
        api.live.addresses.auth, base, transport=watched, clock=lambda: api.clock() / 1000
    ) as mine:
        leaked = await token()
        assert (await mine.verify(leaked)).user_id == user.id
        await api.live[Signer].rotate(OPERATOR, at_once=True)
        api.clock.advance(seconds=10)
        assert (await mine.verify(await token())).user_id == user.id
        with pytest.raises(InvalidToken):
            await mine.verify(leaked)
    assert watched.count("/auth/.well-known/jwks.json") == 2
