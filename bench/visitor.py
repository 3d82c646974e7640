"""A client that signs in and consents as a browser does, to get credentials for measurements."""

import json
import re
from dataclasses import replace
from http.client import HTTPConnection
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from bench import portico
from bench.portico import Prepared
from bench.servers import BenchError, Running

CALLBACK = "https://app.example/callback"
SCOPES = "read:products"


class Visitor:
    """The first admin with a session, and an OAuth client to consent to."""

    def __init__(self, server: Running, data: Prepared) -> None:
        """Signs in. `data` is that of the server."""
        self._server = server
        self._headers = {
            name: value for name, value in server.address.headers.items() if name[0] == "X"
        }
        self._connection: HTTPConnection = server.address.connect()
        self._sign_in = {"email": portico.ADMIN, "password": data.password}
        headers, _ = self._post("/v1/sessions", json.dumps(self._sign_in), 201)
        self.cookie = headers["set-cookie"].partition(";")[0]
        registered = ("--redirect-uri", CALLBACK, "--scope", SCOPES)
        self.client = portico.told(data, "clients", "create", "--name", "Bench", *registered)
        asked = {"response_type": "code", "redirect_uri": CALLBACK, "scope": SCOPES}
        asked["client_id"] = self.client["client_id"]
        self._authorize = f"/auth/authorize?{urlencode(asked)}"
        self._csrf = ""

    def with_header(self, name: str, value: str) -> Running:
        """The server, for requests with this credential instead of the key."""
        address = replace(self._server.address, headers={**self._headers, name: value})
        return replace(self._server, address=address)

    def login_token(self) -> str:
        """The access token of a new login: a JWT."""
        _, body = self._post("/auth/login", json.dumps(self._sign_in), 200)
        return str(json.loads(body)["access_token"])

    def tokens(self) -> dict[str, str]:
        """The tokens of a new consent."""
        form = urlencode({"csrf": self._form(), "decision": "allow"})
        headers, _ = self._post(self._authorize, form, 303, cookie=True)
        (code,) = parse_qs(urlsplit(headers["location"]).query)["code"]
        exchange = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK}
        _, body = self._post("/auth/token", urlencode({**exchange, **self.secret()}), 200)
        return dict(json.loads(body))

    def secret(self) -> dict[str, str]:
        """The parameters that authenticate the client in the body."""
        return {name: self.client[name] for name in ("client_id", "client_secret")}

    def _form(self) -> str:
        """The token that every form of the session must send."""
        if not self._csrf:
            _, page = self._send("GET", self._authorize, None, 200, {"Cookie": self.cookie})
            found = re.search(r'name="csrf" value="([^"]+)"', page.decode())
            if found is None:
                raise BenchError("the consent page has no form")
            self._csrf = found[1]
        return self._csrf

    def _post(self, path: str, body: str, status: int, *, cookie: bool = False) -> Any:
        media = "application/json" if body[0] == "{" else "application/x-www-form-urlencoded"
        headers = {"Content-Type": media, **({"Cookie": self.cookie} if cookie else {})}
        return self._send("POST", path, body, status, headers)

    def _send(
        self, method: str, path: str, body: str | None, status: int, headers: dict[str, str]
    ) -> Any:
        self._connection.request(method, path, body, {**self._headers, **headers})
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != status:
            raise BenchError(f"{method} {path[:40]} answered {answer.status}: {content[:200]!r}")
        return {name.lower(): value for name, value in answer.getheaders()}, content
