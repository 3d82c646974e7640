"""An authorization server with real TLS, the clients that are registered with it, and its users."""

import secrets
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import httpx
from authlib.oauth2.rfc7636 import create_s256_code_challenge

from oauth.visiting import Browser, Person
from operating import TIMEOUT_SECONDS, Installation, in_database

ROOMY = """
webhooks_allow = "127.0.0.0/8"
[plans.free]
per_minute = 100000
per_day = 1000000
[plans.enterprise]
per_minute = 100000
per_day = 1000000
"""
"""Everything in these tests comes from one address, or from clients of the first admin."""

SCOPES = "read:products write:products"
WEB_APP = "https://shop.example/callback"
GOODBYE = "https://shop.example/goodbye"
NATIVE_APP = "http://127.0.0.1/callback"
STATE = "a state with & and = and é"
VERIFIER = "an-example-of-a-verifier-that-is-long-enough-for-it"


@dataclass(frozen=True)
class Registered:
    """A client as `portico clients create` made it; `client_secret` is empty for a public one."""

    client_id: str
    client_secret: str


@dataclass(frozen=True)
class Authority:
    """The server, as everybody sees it, and its operator."""

    installation: Installation

    @property
    def origin(self) -> str:
        """The scheme, host and port of everything."""
        return f"https://localhost:{self.installation.port}"

    @property
    def issuer(self) -> str:
        """The address of the authorization server."""
        return f"{self.origin}/auth"

    @property
    def api(self) -> str:
        """The address of the API."""
        return f"{self.origin}/v1"

    @property
    def certificate(self) -> Path:
        """What clients must trust."""
        return self.installation.data / "tls" / "ca.pem"

    def register(
        self,
        redirect_uri: str = WEB_APP,
        *flags: str,
        scope: str = SCOPES,
        name: str = "Storefront",
    ) -> Registered:
        """A new client."""
        facts = self.installation.told(
            *("clients", "create", "--name", name, "--redirect-uri", redirect_uri),
            *("--scope", scope, *flags),
        )
        return Registered(facts["client_id"], facts.get("client_secret", ""))

    def asking(self, client: Registered, redirect_uri: str = WEB_APP, **wishes: str) -> str:
        """The address that a client sends the browser to, with PKCE; an empty wish goes without."""
        parameters = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": redirect_uri,
            "scope": SCOPES,
            "state": STATE,
            "code_challenge": create_s256_code_challenge(VERIFIER),
            "code_challenge_method": "S256",
            **wishes,
        }
        wanted = {name: value for name, value in parameters.items() if value}
        return f"{self.issuer}/authorize?{urlencode(wanted)}"

    def exchange(
        self, client: Registered, code: str, redirect_uri: str = WEB_APP
    ) -> httpx.Response:
        """What the token endpoint answers to a client that has a code."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": VERIFIER,
            "client_id": client.client_id,
            "client_secret": client.client_secret,
        }
        with self.client() as program:
            return program.post(f"{self.issuer}/token", data=form)

    def counted(self, table: str) -> int:
        """How many rows the live database has in a table."""
        return int(in_database(self.installation.data / "live.db", f"SELECT count(*) FROM {table}"))  # noqa: S608 - a constant

    def client(self, token: str = "") -> httpx.Client:
        """A program that trusts the server, and may have a bearer token."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        trusting = ssl.create_default_context(cafile=self.certificate)
        return httpx.Client(verify=trusting, headers=headers, timeout=TIMEOUT_SECONDS)

    def person(self, role: str = "editor") -> Person:
        """A new account."""
        mark = secrets.token_hex(6)
        email, password = f"{mark}@example.com", f"Aa1-{mark}"
        body = {"name": "Grace Hopper", "email": email, "password": password, "role": role}
        with self.client(self.installation.key) as admin:
            answer = admin.post(f"{self.api}/users", json=body)
        assert answer.status_code == 201, answer.text
        return Person(answer.json()["data"]["id"], email, password)

    @contextmanager
    def browser(self, role: str = "editor") -> Iterator[Browser]:
        """A browser with a new user before it."""
        opened = Browser(self.origin, self.certificate, self.person(role))
        try:
            yield opened
        finally:
            opened.close()


@contextmanager
def serving(directory: Path, settings: str = "") -> Iterator[Authority]:
    """A running server of its own."""
    (directory / "portico.toml").write_text(f"{settings}\n{ROOMY}")
    empty = Installation(directory)
    prepared = Installation(directory, facts=empty.told("init"), port=empty.port)
    with prepared.serving():
        yield Authority(prepared)
