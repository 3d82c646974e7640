"""No secret that is sent to the server shows up where it does not belong.

Real ones and wrong ones go through every endpoint, wherever a client might put them. Afterwards
they are looked for in every answer, the log, the audit log and the bytes of the databases.
"""

import json
from base64 import b64encode
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from oauth.authority import ROOMY, Authority
from operating import Answer, Installation, Service, read_answer
from portico.features.access import oauth_endpoints
from portico.features.signin import endpoints as signin_endpoints
from portico.mounts import V1
from portico.web.routing import ID

PAGES = (
    *("sign-in", "forgot", "reset", "verify", "invitation", "sign-up", "new-email"),
    *("keys", "clients/new", "users/new", "users/invitations", "password", "email"),
)
HANDING_ON = ("/reset", "/verify", "/invitation", "/new-email")
SECRET_FIELDS = ("password", "current_password", "refresh_token", "token", "code", "client_secret")
GOOD = {"name": "Somebody", "email": "somebody@example.com", "category": "light", "price": 1}


@dataclass
class Canaries:
    """Every kind of secret, as this server has issued it."""

    password: str
    key: str
    session: str
    login: str
    login_refresh: str
    client_secret: str
    code: str
    access_token: str
    refresh_token: str

    @property
    def all(self) -> dict[str, str]:
        """By what they are."""
        return dict(vars(self))

    @property
    def prefixed(self) -> list[str]:
        """Those that anyone recognises, and so may leave out of a path."""
        return [secret for name, secret in self.all.items() if name not in ("password", "session")]


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """A prepared installation that logs all there is to log."""
    directory = tmp_path_factory.mktemp("canaries")
    (directory / "portico.toml").write_text(ROOMY)
    variables = {"log_level": "debug"}
    empty = Installation(directory, variables)
    return Installation(directory, variables, empty.told("init"), empty.port)


def issued(service: Service, installation: Installation) -> Canaries:
    """One secret of each kind."""
    authority = Authority(installation)
    registered = authority.register()
    with authority.browser("admin") as browser:
        codes = []
        for _ in range(2):
            left_for = browser.decide(authority.asking(registered))
            codes.append(left_for.partition("code=")[2].partition("&")[0])
        person = browser.person
    tokens = authority.exchange(registered, codes[0]).json()
    body = {"email": person.email, "password": person.password}
    login = service.ask("/auth/login", method="POST", body=body).json
    session = service.ask("/v1/sessions", method="POST", body=body).headers["set-cookie"]
    return Canaries(
        password=person.password,
        key=installation.key,
        session=session.partition("=")[2].partition(";")[0],
        login=login["access_token"],
        login_refresh=login["refresh_token"],
        client_secret=registered.client_secret,
        code=codes[1],
        access_token=tokens["access_token"],
        refresh_token=tokens["refresh_token"],
    )


def targets() -> list[tuple[str, str]]:
    """Method and path of everything that answers."""
    found = [(route.method, f"/v1{route.path}") for route in V1]
    found += [
        (route.method, f"/auth{route.path}")
        for route in (*signin_endpoints.SIGN_IN_ROUTES, *oauth_endpoints.ROUTES)
    ]
    found += [(method, f"/dashboard/{page}") for page in PAGES for method in ("GET", "POST")]
    found += [("GET", "/auth/authorize"), ("POST", "/auth/authorize"), ("GET", "/nowhere")]
    return [(method, path.replace(ID, "1")) for method, path in found]


def exposed(secret: str) -> list[dict[str, str]]:
    """The headers in which a client may send a secret, right or by mistake."""
    basic = b64encode(f"client:{secret}".encode()).decode()
    return [
        {"authorization": f"Bearer {secret}"},
        {"authorization": f"Bearer {secret}x"},
        {"authorization": secret},
        {"authorization": f"Basic {basic}"},
        {"cookie": f"__Host-session={secret}"},
        {"idempotency-key": "a key", "cookie": f"__Host-session={secret}x"},
    ]


def bodies(secret: str) -> list[tuple[str, str]]:
    """Media types and bodies that hold a secret where one may stand, and broken ones."""
    fields = dict.fromkeys(SECRET_FIELDS, secret)
    form = {**fields, "grant_type": "authorization_code", "client_id": secret, "csrf": secret}
    return [
        ("application/json", json.dumps({**GOOD, "password": secret})),
        ("application/json", json.dumps({"email": secret, "password": secret})),
        ("application/json", json.dumps(fields)),
        ("application/json", json.dumps(fields)[:-1]),
        ("application/x-www-form-urlencoded", urlencode(form)),
        ("application/x-www-form-urlencoded", f"{urlencode(form)}&{urlencode(form)}"),
    ]


class Line:
    """A connection to the server, made again where the server ended it."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._connection = service.connect()

    def send(self, method: str, target: str, headers: dict[str, str], body: str) -> Answer:
        """One request as it is."""
        fields = {"host": "localhost", "content-length": str(len(body.encode())), **headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self._connection.sendall(f"{method} {target} HTTP/1.1\r\n{lines}\r\n{body}".encode())
        answer = read_answer(self._connection, method)
        if answer.headers.get("connection") == "close" or answer.is_stream:
            self.close()
            self._connection = self._service.connect()
        return answer

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()


def shown(text: str | bytes, canaries: dict[str, str]) -> list[str]:
    """Which of the secrets stand in a text."""
    data = text if isinstance(text, bytes) else text.encode()
    return [name for name, secret in canaries.items() if secret.encode() in data]


def files(data: Path) -> dict[str, bytes]:
    """What the databases consist of."""
    return {path.name: path.read_bytes() for path in data.glob("*.db*")}


def test_secrets_stay_out_of_answers_logs_audit_and_databases(installation: Installation) -> None:
    with installation.serving() as service, closing(Line(service)) as line:
        canaries = issued(service, installation)
        every = canaries.all
        # Each endpoint gets three of the secrets, and each secret goes to a third of them.
        for number, (method, path) in enumerate(targets()):
            for secret in list(every.values())[number % 3 :: 3]:
                tries: list[tuple[str, dict[str, str], str]] = [
                    (path, h, "") for h in exposed(secret)
                ]
                tries.append((f"{path}?token={quote(secret)}&next={quote(secret)}", {}, ""))
                if method == "POST":
                    tries += [(path, {"content-type": t}, text) for t, text in bodies(secret)]
                for target, headers, body in tries:
                    answer = line.send(method, target, headers, body)
                    assert answer.status < 500, (method, target.partition("?")[0])
                    told: Any = shown(answer.body, every)
                    # A page may hand the token of its address, or of its form, on to its form.
                    if "?" not in target and not (body and path.endswith(HANDING_ON)):
                        assert told == [], (method, path, answer.text[:300])
        for secret in canaries.prefixed:
            answer = line.send("GET", f"/v1/products/{secret}", {}, "")
            assert shown(answer.body, every) == []
        audit = installation.run("audit", "--limit", "1000", "--json").stdout
        assert shown(audit, every) == []
        assert "sign_in.refused" in audit
        service.stop()
        assert shown(service.text, every) == []
        assert len(service.lines) > 1000
    for file, content in files(installation.data).items():
        assert shown(content, every) == [], file
