"""Shortcuts to sessions, logins and OAuth tokens, and to the endpoints that issue them."""

import itertools
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

import httpx
import valkey

from driving import BASE, Api, InProcess, json_bytes
from operating import eventually
from portico.change import Change
from portico.core.audit import Actor, Author
from portico.core.oauth import Client
from portico.core.scopes import SCOPES as EVERY_SCOPE
from portico.core.secrets import digest, mint
from portico.core.sessions import BY_PASSWORD, MAX_SECONDS, Proof, Session
from portico.core.users import User
from portico.environment import Environment
from portico.features.access.authorization import (
    ConsentRequest,
    exchange_code,
    grant_code,
)
from portico.features.access.clients import Registered, Registration, register_client
from portico.features.access.tokens import Pair, begin, issue, login_token
from portico.features.operations.requests import RateCounters
from portico.features.signin.storage import Sessions
from portico.limits.protocol import CallerKind

AUTH = {"live": "https://localhost:8443/auth", "sandbox": "https://localhost:8443/sandbox/auth"}
COOKIE = "__Host-session"
PASSWORD = "Passw0rdd"
FORM = "application/x-www-form-urlencoded"
CALLBACK = "https://shop.example/callback"
SCOPES = " ".join(EVERY_SCOPE)
VERIFIER = "v" * 43
CHALLENGE = urlsafe_b64encode(sha256(VERIFIER.encode()).digest()).decode().rstrip("=")


_ADDRESSES = itertools.count()


def somewhere(api: Api) -> InProcess:
    """A transport with its own client address, since addresses with many failures must wait."""
    number = next(_ADDRESSES)
    return InProcess(api, f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}:1000")


WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


async def waits(env: Environment) -> bool:
    """Whether a transaction waits for a lock."""
    if env.db.engine == "sqlite":
        return env.db.pools()["write"].waiting > 0
    return await env.db.one(WAITING) is not None


async def session_of(env: Environment, user: User) -> str:
    """Inserts a session into the database, and returns its secret."""
    secret = mint("", env.random)
    now = env.clock()
    async with env.db.transaction() as tx:
        session = Session(
            id=0,
            user_id=user.id,
            address="127.0.0.1",
            user_agent="",
            created_at=now,
            last_seen_at=now,
            expires_at=now + MAX_SECONDS * 1000,
            amr=BY_PASSWORD,
            proved_at=now,
            sid=env.random(16).hex(),
        )
        await env[Sessions].insert(tx, digest(secret), session)
    return secret


async def login_of(env: Environment, user: User) -> Pair:
    """Inserts a login into the database, and returns its tokens."""

    async def work(change: Change) -> Pair:
        change.noted_elsewhere()
        proof = Proof(BY_PASSWORD, change.now)
        grant = await begin(env, change, None, user.id, scopes=frozenset(), proof=proof)
        token = login_token(env, user.id, user.name, user.role, change.now)
        return await issue(env, change, grant, token, frozenset())

    return await env.change(Author(Actor(address="127.0.0.1")), work)


async def client_of(
    env: Environment,
    owner: User | None = None,
    *,
    scopes: str = SCOPES,
    redirect_uris: tuple[str, ...] = (CALLBACK,),
    public: bool = False,
) -> Registered:
    """A new OAuth client."""
    wanted = Registration("Shop", redirect_uris, scopes)
    return await register_client(env, owner, wanted, public=public, by=Author(Actor()))


async def code_of(
    env: Environment,
    client: Client,
    user: User,
    scopes: str = "read:products",
    *,
    redirect_uri: str = CALLBACK,
    challenge: str | None = None,
    nonce: str | None = None,
    resource: str | None = None,
) -> str:
    """An authorization code, as after the user's consent to these scopes."""
    asked = frozenset(scopes.split())
    wanted = ConsentRequest(client, redirect_uri, asked, nonce, challenge, resource)
    by = Author(Actor(user.id, user.email, "session"))
    proof = Proof(BY_PASSWORD, env.clock(), env.random(16).hex())
    return await grant_code(env, wanted, proof, by)


async def tokens_of(
    env: Environment, client: Client, user: User, scopes: str = "read:products"
) -> Pair:
    """The tokens of a new consent to these scopes."""
    code = await code_of(env, client, user, scopes)
    exchanged = await exchange_code(env, client, Author(Actor()), code=code, redirect_uri=CALLBACK)
    return exchanged.pair


class Visitor:
    """A client with its own address, for all endpoints."""

    def __init__(self, api: Api, address: str | None = None) -> None:
        """Without `address`, the client has one that no other client has."""
        self._transport = InProcess(api, f"{address}:1000") if address else somewhere(api)

    async def send(
        self,
        method: str,
        url: str,
        body: Any = None,
        *,
        bearer: str | None = None,
        cookie: str | None = None,
        **headers: str,
    ) -> httpx.Response:
        """Sends a request with `body` as JSON. `_` in the name of a header stands for `-`."""
        sent = [(name.replace("_", "-"), value) for name, value in headers.items()]
        if bearer is not None:
            sent.append(("authorization", f"Bearer {bearer}"))
        if cookie is not None:
            sent.append(("cookie", f"{COOKIE}={cookie}"))
        content = []
        if body is not None:
            sent.append(("content-type", "application/json"))
            content.append(json_bytes(body))
        target = url.removeprefix("https://localhost:8443")
        return await self._transport.exchange(method, target, sent, *content)

    async def log_in(
        self, email: str, password: str = PASSWORD, env: str = "live", **headers: str
    ) -> httpx.Response:
        """POST /login."""
        body = {"email": email, "password": password}
        return await self.send("POST", f"{AUTH[env]}/login", body, **headers)

    async def refresh(self, refresh_token: str, env: str = "live") -> httpx.Response:
        """POST /refresh."""
        return await self.send("POST", f"{AUTH[env]}/refresh", {"refresh_token": refresh_token})

    async def open_session(
        self,
        email: str,
        password: str = PASSWORD,
        env: str = "live",
        *,
        cookie: str | None = None,
        **headers: str,
    ) -> httpx.Response:
        """POST /sessions."""
        body = {"email": email, "password": password}
        return await self.send("POST", f"{BASE[env]}/sessions", body, cookie=cookie, **headers)

    async def me(
        self, bearer: str | None = None, *, cookie: str | None = None, env: str = "live"
    ) -> httpx.Response:
        """GET /users/me."""
        return await self.send("GET", f"{BASE[env]}/users/me", bearer=bearer, cookie=cookie)

    async def form(
        self,
        endpoint: str,
        parameters: str | dict[str, str],
        *,
        basic: tuple[str, str] | None = None,
        env: str = "live",
        **headers: str,
    ) -> httpx.Response:
        """POST of a form to an OAuth endpoint."""
        sent = [("content-type", FORM)]
        sent += [(name.replace("_", "-"), value) for name, value in headers.items()]
        if basic is not None:
            request = httpx.Request("POST", "https://a.test")
            request = next(httpx.BasicAuth(*basic).auth_flow(request))
            sent.append(("authorization", request.headers["authorization"]))
        text = parameters if isinstance(parameters, str) else urlencode(parameters)
        path = f"{AUTH[env]}/{endpoint}".removeprefix("https://localhost:8443")
        return await self._transport.exchange("POST", path, sent, text.encode())

    async def exchange(
        self, client: Registered, code: str, redirect_uri: str = CALLBACK, **more: str
    ) -> httpx.Response:
        """POST /token with a code."""
        parameters = {"grant_type": "authorization_code", "code": code}
        parameters |= {"redirect_uri": redirect_uri, **named(client), **more}
        return await self.form("token", parameters)

    async def renew(self, client: Registered, refresh_token: str, **more: str) -> httpx.Response:
        """POST /token with a refresh token."""
        parameters = {"grant_type": "refresh_token", "refresh_token": refresh_token}
        return await self.form("token", {**parameters, **named(client), **more})


def named(client: Registered) -> dict[str, str]:
    """A client's id, and its secret if it has one, as parameters."""
    secret = {"client_secret": client.secret} if client.secret else {}
    return {"client_id": client.client.client_id, **secret}


def cookie_of(answer: httpx.Response) -> str:
    """The session's secret in the cookie that an answer sets."""
    value = answer.headers["set-cookie"].partition(";")[0].partition("=")[2]
    assert value
    return str(value)


def oauth_refused(answer: httpx.Response, status: int, error: str) -> None:
    """Asserts that a response has the error body of RFC 6749 §5.2."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    body = answer.json()
    assert body.keys() == {"error", "error_description"}
    assert body["error"] == error, body
    description = body["error_description"]
    # RFC 6749 §5.2 allows no other characters.
    assert all(" " <= letter <= "~" and letter not in '"\\' for letter in description)


def decoded(part: str) -> bytes:
    """The bytes of one part of a token."""
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def read(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims of a token, unverified."""
    header, claims, _ = token.split(".")
    return json.loads(decoded(header)), json.loads(decoded(claims))


async def counted(api: Api, kind: CallerKind, count: int = 1) -> list[str]:
    """Waits until the store has so many counters of one kind, and returns their names."""

    async def found() -> list[str] | None:
        if api.settings.valkey_url is None:
            names = [row[0] for row in await api.live[RateCounters].since(0)]
        else:
            with valkey.Valkey.from_url(api.settings.valkey_url) as client:
                names = [key.decode() for key in client.scan_iter()]
        names = [name for name in names if f"{kind.spelling}:" in name]
        return names if len(names) >= count else None

    return list(await eventually(found, f"a count of {kind.spelling}"))


async def published(visitor: Visitor) -> list[str]:
    """The ids of the published keys, in their order."""
    answer = await visitor.send("GET", f"{AUTH['live']}/.well-known/jwks.json")
    return [key["kid"] for key in answer.json()["keys"]]


async def forget_keys(api: Api) -> None:
    """Removes every key."""
    for env in api.portico.environments:
        async with env.db.transaction() as tx:
            tx.invalidate_all()
            await tx.run("DELETE FROM signing_keys")
