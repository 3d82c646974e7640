"""An OpenID Connect provider for tests, over loopback HTTP, which can give wrong answers."""

import asyncio
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from html import unescape
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote_plus, urlencode, urlsplit
from warnings import catch_warnings

import httpx
from aiohttp import web
from joserfc import jws, jwt
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from driving import NOON, Api
from portico.core.oauth import challenge_of
from portico.core.users import User
from second_factor import DASHBOARD, Person

CLIENT = "portico at work"
SECRET = "a:secret/with+all of it"

FIRST_KEY = RSAKey.generate_key(2048, {"kid": "first", "use": "sig"}, private=True)
OTHER_KEY = RSAKey.generate_key(2048, {"kid": "other", "use": "sig"}, private=True)

with catch_warnings(action="ignore", category=SecurityWarning):
    SHORT_KEY = RSAKey.generate_key(1024, {"kid": "first", "use": "sig"}, private=True)

KEYS: dict[str, Any] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), FIRST_KEY),
    "ES256": ECKey.generate_key("P-256"),
    "ES384": ECKey.generate_key("P-384"),
    "ES512": ECKey.generate_key("P-521"),
    **dict.fromkeys(("Ed25519", "EdDSA"), OKPKey.generate_key("Ed25519")),
}
"""A signing key for each algorithm."""


class OpenIdProvider:
    """Signs in the user of `claims`. The attributes replace parts of the correct answers."""

    def __init__(self) -> None:
        self.issuer = ""
        self.claims: dict[str, Any] = {}
        self.userinfo: dict[str, Any] | None = None
        self.metadata: dict[str, Any] = {}
        self.key: Any = FIRST_KEY
        self.header: dict[str, Any] = {"alg": "RS256", "kid": "first"}
        self.keys: list[Any] = [FIRST_KEY]
        self.bodies: dict[str, bytes] = {}
        """Bodies that replace the answer, by path."""
        self.statuses: dict[str, int] = {}
        """Statuses that replace the answer, without a body, by path."""
        self.hangs: set[str] = set()
        self.asked: list[str] = []
        self._codes: dict[str, dict[str, str]] = {}

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Answers one request."""
        path = request.path.removeprefix("/here")
        self.asked.append(path)
        if path in self.hangs:
            await asyncio.sleep(60)
        if path in self.statuses:
            return web.Response(status=self.statuses[path])
        if path in self.bodies:
            return web.Response(body=self.bodies[path], content_type="application/json")
        if path == "/.well-known/openid-configuration":
            return web.json_response(self._metadata())
        if path == "/keys":
            return web.json_response({"keys": [key.as_dict(private=False) for key in self.keys]})
        if path == "/token":
            return self._token(request, await request.text())
        if path == "/userinfo" and request.headers.get("authorization") == "Bearer opaque":
            return web.json_response(self.userinfo or {"sub": self.claims["sub"]})
        return web.Response(status=404)

    def visit(self, address: str, **more: str) -> str:
        """Signs in as a browser does, and returns the address that the browser is redirected to.
        `more` adds or replaces parameters; empty ones are left out."""
        parts = urlsplit(address)
        assert address.startswith(f"{self.issuer}/authorize?")
        asked = dict(parse_qsl(parts.query))
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT
        assert asked["scope"].split()[0] == "openid"
        assert asked["code_challenge_method"] == "S256"
        code = f"code-{len(self._codes)}"
        self._codes[code] = asked
        told = {"code": code, "state": asked["state"], "iss": self.issuer, **more}
        sent = {name: value for name, value in told.items() if value}
        return f"{asked['redirect_uri']}?{urlencode(sent)}"

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "authorization_response_iss_parameter_supported": True,
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            **self.metadata,
        }

    def _token(self, request: web.BaseRequest, text: str) -> web.Response:
        form = {name: values[0] for name, values in parse_qs(text).items()}
        if "authorization" in request.headers:
            pair = request.headers["authorization"].removeprefix("Basic ")
            known = b64encode(b"portico+at+work:a%3Asecret%2Fwith%2Ball+of+it").decode()
            assert pair == known, unquote_plus(pair)
        else:
            assert (form["client_id"], form["client_secret"]) == (CLIENT, SECRET)
        asked = self._codes.pop(form["code"], None)
        if asked is None or challenge_of(form["code_verifier"]) != asked["code_challenge"]:
            return web.json_response({"error": "invalid_grant"}, status=400)
        assert form["redirect_uri"] == asked["redirect_uri"]
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "iat": NOON // 1000,
            "exp": NOON // 1000 + 300,
            "nonce": asked["nonce"],
            **self.claims,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        registry = jws.JWSRegistry(algorithms=[self.header["alg"]], strict_check_header=False)
        with catch_warnings(action="ignore", category=SecurityWarning):  # of the name EdDSA
            token = jwt.encode(self.header, claims, self.key, registry=registry)
        answer = {"id_token": token, "access_token": "opaque", "token_type": "Bearer"}
        return web.json_response(answer)


def client_secret_key() -> OctKey:
    """The client's secret as a symmetric key."""
    return OctKey.import_key(SECRET.ljust(32))


def for_encryption() -> RSAKey:
    """The first key, published for encryption instead of signing."""
    told = {**FIRST_KEY.as_dict(private=False), "use": "enc"}
    return RSAKey.import_key(told)


@asynccontextmanager
async def answering_at(
    answer: Callable[[web.BaseRequest], Awaitable[web.Response]],
) -> AsyncIterator[str]:
    """Runs a server that answers so; yields its address."""
    # With 0, stopping would wait for requests that hang.
    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def providing() -> AsyncIterator[OpenIdProvider]:
    """Runs a provider."""
    provider = OpenIdProvider()
    async with answering_at(provider.answer) as address:
        provider.issuer = f"{address}/here"
        yield provider


class Traveller(Person):
    """Somebody with a browser, at one site, and the provider that they go to."""

    def __init__(self, api: Api, provider: Any, at: str = DASHBOARD, name: str = "corp") -> None:
        super().__init__(api, at)
        self.provider = provider
        self.way = f"/sign-in/with/{name}"

    async def post(self, path: str, **form: str) -> httpx.Response:
        return await super().post(path, **{"next": "", **form})

    async def leave(self, path: str = "", **form: str) -> str:
        """Goes to the provider: the address there."""
        page = await self.post(path or self.way, **form)
        assert page.status_code == 200, page.text
        found = re.search(r'<a class="button primary wide" href="(.*?)"', page.text)
        assert found
        assert f'content="0; url={found[1]}"' in page.text
        return unescape(found[1])

    async def arrive(self, **more: str) -> httpx.Response:
        """Goes there and comes back."""
        return await self.browser.get(self.provider.visit(await self.leave(), **more))

    async def sign_in(self, user: User) -> httpx.Response:
        """As before: by the password."""
        return await self.password(user)

    async def decide(self, decision: str, **form: str) -> httpx.Response:
        """Answers whether to link the account that has just signed in."""
        csrf = await self.csrf("/sign-in/link")
        return await self.post("/sign-in/link", decision=decision, csrf=csrf, **form)
