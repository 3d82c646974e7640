"""What works once does so, whichever of an installation's servers it comes to, and how often."""

import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from html import unescape

import pyotp
import pytest

from operating import Answer, Service, at_once
from portico.core.oauth import DEVICE_CODE
from reliability.boundless import beside, boundless
from reliability.crash.truth import of_postgres
from servers import PostgresServer, RedisServer

pytestmark = pytest.mark.xdist_group("works once")  # they share their servers

TIMES = 30
PASSWORD, ANOTHER = "Correct horse 1", "Another horse 2"
PATHS = {"base": "v1", "sandbox": "sandbox/v1", "auth": "auth", "dashboard": "dashboard"}
CODE = re.compile(r"[a-z2-7]{4}(?:-[a-z2-7]{4}){5}")
HIDDEN = re.compile(r'name="(csrf|secret|step_up)" value="(.*?)"')
COOKIE = re.compile(r"(__Host-[\w-]+)=([^;]*);")


class Cluster:
    """Three servers on the same stores."""

    def __init__(self, services: list[Service], url: str) -> None:
        self.services = services
        self.read = of_postgres(url).read
        self.command = services[0].installation.told

    def winner(
        self, browsers: "list[Browser]", path: str, won: Callable[[Answer], bool], **form: str
    ) -> Answer:
        """The one answer that `won`, of many to the same request from these browsers at once, on
        all servers; none of the others may be a failure of the service's."""
        services = [self.services[number % len(self.services)] for number in range(TIMES)]
        with ExitStack() as stack:
            connections = [stack.enter_context(service.connect()) for service in services]

            def send(number: int) -> Answer:
                browser = browsers[number % len(browsers)]
                return browser.send(services[number], path, form, connections[number])

            answers: list[Answer] = at_once(send, TIMES)
        assert len({answer.worker for answer in answers}) == len(self.services)
        (one,) = [answer for answer in answers if won(answer)]
        assert max(answer.status for answer in answers) < 500
        return one


class Browser:
    """Somebody's browser, each of whose requests comes to the next server."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.cookies: dict[str, str] = {}
        self.requests = 0

    def send(
        self,
        service: Service,
        path: str,
        form: dict[str, str],
        connection: socket.socket | None = None,
    ) -> Answer:
        """A page, or what comes of a form, at this server. Whoever is told that too many wait
        before them, or that the store of limits is silent, asks again."""

        def send() -> Answer:
            return service.ask(
                path,
                method="POST" if form else "GET",
                headers={"cookie": "; ".join("=".join(cookie) for cookie in self.cookies.items())},
                form=form or None,
                connection=connection,
            )

        answer = send()
        while answer.status == 503:
            time.sleep(int(answer.headers["retry-after"]))
            answer = send()
        return answer

    def ask(self, path: str, **form: str) -> Answer:
        """The same at the next one; the cookies of the answer are kept."""
        self.requests += 1
        services = self.cluster.services
        answer = self.send(services[self.requests % len(services)], path, form)
        self.cookies |= dict(COOKIE.findall(answer.headers.get("set-cookie", "")))
        return answer

    def hidden(self, answer: Answer) -> dict[str, str]:
        """What the forms of a page carry unseen."""
        return {name: unescape(value) for name, value in HIDDEN.findall(answer.text)}


@pytest.fixture(scope="module")
def cluster(
    postgres: PostgresServer, redis: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Three servers, as they are behind one address."""
    url = postgres.fresh_database()
    stores = {"database_url": url, "valkey_url": redis.url.removesuffix("0") + "9"}
    shared = {f"{name}_url": f"https://localhost/{path}" for name, path in PATHS.items()}
    first = boundless(tmp_path_factory.mktemp("first"), **stores, **shared)
    installations = [first]
    for name in ("second", "third"):
        other = beside(first, tmp_path_factory.mktemp(name))
        other.data.mkdir(mode=0o700)
        (other.data / "secret.key").write_bytes((first.data / "secret.key").read_bytes())
        (other.data / "secret.key").chmod(0o600)
        installations.append(other)
    with ExitStack() as stack:
        yield Cluster([stack.enter_context(one.serving()) for one in installations], url)


def signs_in(answer: Answer) -> bool:
    """Whether an answer opens a session."""
    return "__Host-session=" in answer.headers.get("set-cookie", "")


def test_what_works_once_does_so_on_any_of_three_servers(cluster: Cluster) -> None:
    email = "ada@example.com"

    def token(*command: str) -> str:
        return str(cluster.command("users", *command, email)["link"]).partition("?token=")[2]

    def half_signed_in(password: str) -> list[Browser]:
        browsers = [Browser(cluster) for _ in range(5)]
        for one in browsers:
            one.ask("/dashboard/sign-in", email=email, password=password)
            assert "__Host-second-step" in one.cookies
        return browsers

    def moves_on(answer: Answer) -> bool:
        return answer.status == 303

    invitation = {"token": token("invite"), "name": "Ada", "password": PASSWORD}
    cluster.winner([Browser(cluster)], "/dashboard/invitation", moves_on, **invitation)

    ada = Browser(cluster)
    ada.ask("/dashboard/sign-in", email=email, password=PASSWORD)
    page = ada.ask("/dashboard/security/app")
    key = re.search(r"secret=([A-Z2-7]{32})&", page.text)
    assert key
    app = pyotp.TOTP(key[1])
    form = {**ada.hidden(page), "name": "Phone", "otp": app.now()}
    shown_at = ada.ask("/dashboard/security/app", **form).headers["location"]
    shown = ada.ask(shown_at)
    codes = CODE.findall(shown.text)
    assert len(codes) == 10

    new_key = {**ada.hidden(ada.ask("/dashboard/keys/new")), "name": "Till", "type": "live"}
    cluster.read("UPDATE sessions SET proved_at = 0 RETURNING id")
    asked = ada.hidden(ada.ask("/dashboard/keys/new", **new_key, expiry="90d"))
    proven = {**new_key, **asked, "expiry": "90d", "current_password": PASSWORD}
    cluster.winner([ada], "/dashboard/keys/new", moves_on, **proven)
    assert cluster.read("SELECT count(*) FROM api_keys WHERE name = 'Till'") == [(1,)]

    browsers = half_signed_in(PASSWORD)
    cluster.winner(browsers, "/dashboard/sign-in/code", signs_in, otp=app.at(int(time.time()) + 30))
    link = {"token": token("reset-password"), "password": ANOTHER}
    cluster.winner([Browser(cluster)], "/dashboard/reset", moves_on, **link)
    browsers = half_signed_in(ANOTHER)
    cluster.winner(browsers, "/dashboard/sign-in/code", signs_in, otp=codes[0])


def test_device_is_let_in_once_by_one_decision_on_three_servers(cluster: Cluster) -> None:
    email = "bob@example.com"
    account = ("--email", email, "--name", "Bob", "--role", "viewer", "--plan", "enterprise")
    password = cluster.command("users", "create", *account)["password"]
    till = ("--name", "Till", "--scope", "read:products", "--grant", "device_code", "--public")
    client = {"client_id": cluster.command("clients", "create", *till)["client_id"]}
    bob = Browser(cluster)
    bob.ask("/auth/sign-in", email=email, password=password)

    def begin() -> tuple[dict[str, str], str]:
        begun = json.loads(bob.ask("/auth/device_authorization", **client).text)
        grant = {"grant_type": DEVICE_CODE, "device_code": begun["device_code"]}
        return {**client, **grant}, begun["user_code"]

    def error(form: dict[str, str]) -> str:
        return str(json.loads(bob.ask("/auth/token", **form).text)["error"])

    def decision(code: str, decision: str) -> dict[str, str]:
        page = bob.ask("/auth/device", **bob.hidden(bob.ask("/auth/device")), user_code=code)
        assert code in page.text
        boxes = {"scopes": "read:products", "may-read:products": "yes"}
        return {**bob.hidden(page), **boxes, "user_code": code, "decision": decision}

    form, code = begin()
    assert [error(form) for _ in range(2)] == ["authorization_pending", "slow_down"]
    wrong = bob.ask("/auth/device", **bob.hidden(bob.ask("/auth/device")), user_code="BBBB-BBBB")
    assert wrong.status == 422
    assert bob.ask("/auth/device", **decision(code, "allow")).status == 303
    bought = json.loads(
        cluster.winner([bob], "/auth/token", lambda answer: answer.status == 200, **form).text
    )
    assert (bought["scope"], error(form)) == ("read:products", "invalid_grant")
    assert cluster.read("SELECT count(*) FROM grants") == [(1,)]

    form, code = begin()
    assert bob.ask("/auth/device", **decision(code, "deny")).status == 303
    assert error(form) == "access_denied"
    form, code = begin()
    cluster.read("UPDATE device_codes SET expires_at = 0 WHERE decision IS NULL RETURNING 1")
    assert error(form) == "expired_token"

    form, code = begin()
    allowing = decision(code, "allow")
    cluster.winner([bob], "/auth/device", lambda answer: answer.status == 303, **allowing)
    noted = "SELECT count(*) FROM audit WHERE action = 'client.authorized'"
    assert cluster.read(noted) == [(2,)]
    assert bob.ask("/auth/token", **form).status == 200
