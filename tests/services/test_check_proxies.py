"""The proxies of `deploy/check`, as they are but for names, ports and files, before a service."""

import json
import os
import re
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import httpx
import pytest
import yaml  # type: ignore[import-untyped] # it ships none

from declared_services import DECLARED
from documents import ROOT
from operating import TIMEOUT_SECONDS, Installation, free_port, until

pytestmark = pytest.mark.xdist_group("proxies of checks")  # they share their server

CHECK = ROOT / "deploy/check"
PLANS = """
[plans.enterprise]
per_minute = 100000
per_day = 1000000
[plans.tiny]
per_minute = 2
per_day = 2
"""


class Echo(BaseHTTPRequestHandler):
    """A service that says what it got."""

    protocol_version = "HTTP/1.1"

    def _say(self) -> None:
        length = int(self.headers.get("content-length", 0))
        told = {
            "line": f"{self.command} {self.path}",
            "headers": [[name.lower(), value] for name, value in self.headers.items()],
            "length": len(self.rfile.read(length)),
        }
        content = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = _say  # noqa: N815 - the names that http.server calls

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@dataclass
class Behind:
    """Portico behind a proxy, and the service."""

    installation: Installation
    service: int

    @property
    def tls(self) -> Path:
        return self.installation.data / "tls"

    def key(self, role: str, plan: str = "enterprise") -> tuple[int, str]:
        """A new user's id and key."""
        headers = {
            "x-forwarded-proto": "https", "authorization": f"Bearer {self.installation.key}",
        }  # fmt: skip
        place = f"http://127.0.0.1:{self.installation.port}/v1"
        mark = os.urandom(6).hex()
        user = {"name": "Ada", "email": f"{mark}@example.com", "password": f"Aa1-{mark}"}
        with httpx.Client(base_url=place, headers=headers, timeout=TIMEOUT_SECONDS) as admin:
            made = admin.post("/users", json={**user, "role": role}).json()["data"]
            self.installation.told("users", "set-plan", user["email"], plan)
            key = {"name": "A", "type": "live", "user_id": made["id"]}
            return made["id"], admin.post("/api-keys", json=key).json()["data"]["key"]


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    directory = tmp_path_factory.mktemp("checked")
    declared = re.sub(r'(path|upstream|sandbox_upstream) = "(/invoices|http.*)"\n', "", DECLARED)
    (directory / "portico.toml").write_text(declared + PLANS)
    empty = Installation(directory)
    prepared = Installation(directory, facts=empty.told("init"), port=empty.port).having(
        tls="off",
        trusted_proxies="127.0.0.1",
        base_url="https://portico.example.com/v1",
        sandbox_url="https://portico.example.com/sandbox/v1",
        auth_url="https://portico.example.com/auth",
        dashboard_url="https://portico.example.com/dashboard",
    )
    service = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = Thread(target=service.serve_forever)
    thread.start()
    with prepared.serving():
        yield Behind(prepared, service.server_port)
    service.shutdown()
    service.server_close()
    thread.join()


def program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    assert found, f"install {name}: script/dependencies"
    return found


@dataclass(frozen=True)
class Place:
    """Where a proxy is, and what is behind it."""

    directory: Path
    behind: Behind
    front: int
    portico: int

    def write(self, name: str, *changes: tuple[str, str]) -> Path:
        """A copy of a file of `deploy/check` with these changes, each a pattern that is found."""
        text = (CHECK / name).read_text("utf-8")
        for pattern, instead in changes:
            text, count = re.subn(pattern, instead, text)
            assert count, pattern
        file = self.directory / name
        file.write_text(text)
        return file

    @property
    def ports(self) -> tuple[tuple[str, str], ...]:
        return (
            (r"127\.0\.0\.1:8080", f"127.0.0.1:{self.portico}"),
            (r"127\.0\.0\.1:9000", f"127.0.0.1:{self.behind.service}"),
        )

    @property
    def pair(self) -> tuple[str, str]:
        """The files of the certificate and its key."""
        return f"{self.behind.tls}/server.pem", f"{self.behind.tls}/server.key"


def nginx(place: Place) -> list[str]:
    certificate, key = place.pair
    site = place.write(
        "nginx.conf",
        *place.ports,
        (r"listen 443 ssl", f"listen 127.0.0.1:{place.front} ssl"),
        (r"/etc/nginx/invoices\.pem", certificate),
        (r"/etc/nginx/invoices\.key", key),
    )
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {place.directory}/{kind};\n" for kind in kinds)
    whole = place.directory / "whole.conf"
    whole.write_text(
        f"daemon off;\nmaster_process off;\npid {place.directory}/nginx.pid;\nerror_log stderr;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{temporary}include {site};\n}}\n"
    )
    return [program("nginx"), "-e", "stderr", "-c", str(whole)]


def caddy(place: Place) -> list[str]:
    certificate, key = place.pair
    site = place.write(
        "Caddyfile",
        *place.ports,
        (
            r"\ninvoices\.example\.com \{\n",
            "\n{\n\tadmin off\n\tauto_https off\n}\n"  # noqa: ISC004 - one text
            f"https://localhost:{place.front} {{\n\ttls {certificate} {key}\n",
        ),
    )
    return [program("caddy"), "run", "--adapter", "caddyfile", "--config", str(site)]


def haproxy(place: Place) -> list[str]:
    both = place.directory / "both.pem"
    both.write_text("".join(Path(one).read_text() for one in place.pair))
    script = place.write("haproxy.lua", place.ports[0])
    site = place.write(
        "haproxy.cfg",
        place.ports[1],
        (r"/etc/haproxy/portico\.lua", str(script)),
        (r"/etc/haproxy/invoices\.pem", str(both)),
        (r"bind :443", f"bind 127.0.0.1:{place.front}"),
        (r"invoices\.example\.com \}", "localhost }"),
    )
    return [program("haproxy"), "-db", "-f", str(site)]


MODULES = (
    "mpm_event",
    "authz_core",
    "socache_shmcb",
    "ssl",
    "headers",
    "proxy",
    "proxy_http",
    "lua",
)


def apache(place: Place) -> list[str]:
    certificate, key = place.pair
    script = place.write("apache.lua", place.ports[0])
    site = place.write(
        "apache.conf",
        place.ports[1],
        (r"Listen 443", f"Listen 127.0.0.1:{place.front}"),
        (r"\*:443", f"127.0.0.1:{place.front}"),
        (r"/etc/apache2/portico\.lua", str(script)),
        (r"/etc/apache2/invoices\.pem", certificate),
        (r"/etc/apache2/invoices\.key", key),
    )
    whole = place.directory / "whole.conf"
    modules = "".join(
        f"LoadModule {one}_module /usr/lib/apache2/modules/mod_{one}.so\n" for one in MODULES
    )
    whole.write_text(
        f"ServerRoot {place.directory}\nServerName localhost\nPidFile {place.directory}/pid\n"
        f"ErrorLog {place.directory}/error\nUser www-data\nGroup www-data\n"
        f"{modules}Include {site}\n"
    )
    return [program("apache2"), "-D", "FOREGROUND", "-f", str(whole)]


Proxy = Callable[[Place], list[str]]
PROXIES = [nginx, caddy, haproxy, apache]


@contextmanager
def running(proxy: Proxy, behind: Behind, portico: int) -> Iterator[httpx.Client]:
    """A client of the service, whose requests go through the proxy."""
    with TemporaryDirectory(dir="/tmp") as made:  # Apache's own user reads its script there
        directory = Path(made)
        directory.chmod(0o755)
        with started(proxy, Place(directory, behind, free_port(), portico)) as client:
            yield client


@contextmanager
def started(proxy: Proxy, place: Place) -> Iterator[httpx.Client]:
    directory = place.directory
    own = {"XDG_DATA_HOME": str(directory), "XDG_CONFIG_HOME": str(directory)}
    with (
        (directory / "log").open("wb") as log,
        subprocess.Popen(proxy(place), env=os.environ | own, stdout=log, stderr=log) as process,
        httpx.Client(
            base_url=f"https://localhost:{place.front}",
            verify=ssl.create_default_context(cafile=place.behind.tls / "ca.pem"),
            timeout=TIMEOUT_SECONDS,
        ) as client,
    ):
        try:

            def answers() -> bool:
                assert process.poll() is None, (directory / "log").read_text()
                try:
                    return client.get("/status").status_code > 0
                except httpx.TransportError:
                    return False

            until(answers, "the proxy")
            yield client
        finally:
            process.terminate()


@pytest.mark.parametrize("proxy", PROXIES)
def test_a_proxy_lets_pass_what_portico_admits_and_tells_the_service_who_asks(
    behind: Behind, proxy: Proxy
) -> None:
    viewer, key = behind.key("viewer")
    _, editing = behind.key("editor")
    _, tiny = behind.key("viewer", "tiny")
    forged = [
        ("X-Portico-User", "forged"), ("X_Portico_User", "forged"), ("X-PORTICO-ROLE", "forged"),
        ("X-Portico_User", "forged"), ("x_portico-role", "forged"),
        ("X-Forwarded-For", "forged"), ("X-Original-Method", "PUT"), ("X-Original-URI", "/status"),
        ("X-Forwarded-Method", "PUT"), ("X-Forwarded-Uri", "/status"),
    ]  # fmt: skip
    with running(proxy, behind, behind.installation.port) as client:
        bearer = ("Authorization", f"Bearer {key}")
        passed = client.get("/a//b?c=%2F&d", headers=[bearer, *forged])
        assert passed.status_code == 200, passed.text
        told = passed.json()
        got = dict(told["headers"])
        assert told["line"] == "GET /a//b?c=%2F&d"
        assert (got["x-portico-user"], got["x-portico-role"]) == (str(viewer), "viewer")
        assert got["x-portico-environment"] == "live"
        assert got["x-portico-identity"].count(".") == 2
        assert "authorization" not in got
        assert "forged" not in passed.text
        if proxy is not caddy:
            assert int(passed.headers["x-ratelimit-remaining"]) < 100_000

        public = client.get("/status", headers=forged[:5])
        assert (public.status_code, "x-portico-user" in public.text) == (200, False)
        assert "forged" not in public.text

        refused = client.post("/7", headers=[bearer])
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "PERMISSION_DENIED")
        assert refused.headers["content-type"] == "application/json"
        nobody = client.get("/7")
        (challenge,) = nobody.headers.get_list("www-authenticate")
        assert (nobody.status_code, challenge.partition(" ")[0]) == (401, "Bearer")
        assert nobody.json()["error"]["code"] == "AUTHENTICATION_REQUIRED"

        sent = client.post(
            "/bulk", headers={"authorization": f"Bearer {editing}"}, content=b"x" * 200_000
        )
        assert (sent.status_code, sent.json()["length"]) == (200, 200_000)

        statuses = []
        for _ in range(3):
            last = client.get("/7", headers={"authorization": f"Bearer {tiny}"})
            statuses.append(last.status_code)
        assert statuses == [200, 200, 429]
        assert last.json()["error"]["code"] == "RATE_LIMITED"
        assert int(last.headers["retry-after"]) > 0
        assert last.headers.get_list("x-ratelimit-remaining") == ["0"]
        assert last.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("proxy", PROXIES)
def test_a_proxy_that_cannot_ask_lets_nothing_pass(behind: Behind, proxy: Proxy) -> None:
    _, key = behind.key("viewer")
    with running(proxy, behind, free_port()) as client:
        refused = client.get("/7", headers={"authorization": f"Bearer {key}"})
    assert refused.status_code in (502, 503)
    assert "x-portico" not in refused.text


def test_written_files_name_the_headers_that_portico_tells(behind: Behind) -> None:
    """Traefik copies the headers that are listed; Envoy's script names them."""
    _, key = behind.key("viewer")
    asked = {
        "authorization": f"Bearer {key}", "x-forwarded-method": "GET", "x-forwarded-uri": "/7?a=b",
        "x-forwarded-proto": "https", "x-forwarded-host": "invoices.example.com",
        "x-forwarded-for": "192.0.2.7",
    }  # fmt: skip
    file = yaml.safe_load((CHECK / "traefik.yaml").read_text("utf-8"))
    check = file["http"]["middlewares"]["portico-check"]["forwardAuth"]
    address = check["address"].replace(":8080", f":{behind.installation.port}")
    answer = httpx.get(address, headers=asked, timeout=TIMEOUT_SECONDS)
    told = {name for name in answer.headers if name.startswith("x-portico-")}
    assert (answer.status_code, len(told)) == (200, 7)
    assert {name.lower() for name in check["authResponseHeaders"]} == told
    removed = file["http"]["middlewares"]["portico-taken"]["headers"]["customRequestHeaders"]
    for name in told:
        end = name.removeprefix("x-portico-")
        spellings = {f"x{one}portico{other}{end}" for one, other in ("-_", "_-", "__")}
        assert spellings <= {one.lower() for one, value in removed.items() if value == ""}
    refused = httpx.get(address, headers={**asked, "x-forwarded-method": "POST"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "PERMISSION_DENIED")
    envoy = (CHECK / "envoy.yaml").read_text("utf-8")
    assert yaml.safe_load(envoy)["static_resources"]["listeners"]
    (names,) = re.findall(r"CALLER = \{ (.*) \}", envoy)
    assert {f"x-portico-{name}" for name in re.findall(r"\w+", names)} == told
    assert check["address"].endswith(re.findall(r'":path"\] = "(.*)"', envoy)[0])
