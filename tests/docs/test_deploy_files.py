"""Files of deploy/ for many hosts: what they name exists, and nothing is set that nobody reads."""

import json
import os
import re
import shutil
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest
import yaml  # type: ignore[import-untyped] # it ships none

from documents import ROOT
from operating import free_port, until
from portico.cli.commands import parser
from portico.cli.supervise import STOP_SECONDS
from portico.core.errors import Unavailable
from portico.engines import SANDBOX
from portico.features.catalogue.pages import PAGES
from portico.mounts import AUTH, V1
from portico.resource.uploads import MAX_BYTES
from portico.settings import SETTINGS, load
from portico.web.pages.forms import AROUND_BYTES
from portico.web.problems import STATUS

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm"
HOSTS = DEPLOY / "hosts"
COMPOSE = (HOSTS / "compose.yaml").read_text("utf-8")


def templates() -> str:
    return "\n".join(path.read_text("utf-8") for path in sorted((CHART / "templates").iterdir()))


def leaves(values: Any, path: str = "") -> set[str]:
    """What the chart may be told; what stands there as `{}` or `[]` is one thing."""
    if not isinstance(values, dict) or not values or path == ".resources":
        return {path}
    return {leaf for name, value in values.items() for leaf in leaves(value, f"{path}.{name}")}


def test_the_chart_reads_all_of_its_values_and_no_others() -> None:
    read = set(re.findall(r"\.Values((?:\.\w+)+)", templates()))
    assert read == leaves(yaml.safe_load((CHART / "values.yaml").read_text("utf-8")))


@pytest.mark.parametrize("directory", [CHART, HOSTS], ids=lambda path: path.name)
def test_every_variable_of_portico_that_is_named_exists(directory: Path) -> None:
    named = set()
    for path in directory.rglob("*"):
        if path.is_file():
            named |= set(re.findall(r"\bPORTICO_[A-Z_]*[A-Z]\b", path.read_text("utf-8")))
    known = {setting.variable for setting in SETTINGS} | {"PORTICO_PASSWORD"}  # the role's
    assert named <= known
    assert "PORTICO_SECRET_KEY" in named


def test_every_image_of_others_is_named_by_its_digest_and_alike_everywhere() -> None:
    named: set[str] = set()
    for path in DEPLOY.rglob("*"):
        if path.name.endswith(("compose.yaml", "Dockerfile")):
            text = path.read_text("utf-8")
            named |= set(re.findall(r"^(?:FROM|\s+image:) (\S+)", text, re.MULTILINE))
    images = dict(image.partition("@")[::2] for image in named - {"portico"})
    assert len(images) == len(named - {"portico"}) == 5
    assert all(re.fullmatch("sha256:[0-9a-f]{64}", digest) for digest in images.values())


def test_a_stop_is_given_its_time_wherever_portico_runs(tmp_path: Path) -> None:
    least = STOP_SECONDS + load({}, {}, tmp_path).drain_seconds
    stopping = {
        "Dockerfile": r"docker run .*--stop-timeout (\d+)",
        "compose.yaml": r"portico:(?s:.*?)stop_grace_period: (\d+)s",
        "hosts/compose.yaml": r"\n  portico:(?s:.*?)stop_grace_period: (\d+)s",
        "portico.service": r"TimeoutStopSec=(\d+)",
    }
    for name, pattern in stopping.items():
        found = re.search(pattern, (DEPLOY / name).read_text("utf-8"))
        assert found
        assert int(found[1]) >= least


def test_nginx_lets_in_the_files_that_pages_take() -> None:
    conf = (DEPLOY / "nginx.conf").read_text("utf-8")
    location = r"location ~ (\S+) \{[^}]*client_max_body_size (\d+)m;"
    ((path, limit),) = re.findall(location, conf)
    assert int(limit) << 20 >= MAX_BYTES + AROUND_BYTES
    for base in ("/dashboard", f"/dashboard/{SANDBOX}"):
        pages = PAGES.routes()
        let_in = {page.path for page in pages if re.search(path, base + page.path)}
        assert let_in == {page.path for page in pages if page.file_bytes}


PROXIES = pytest.mark.parametrize("name", ["nginx.conf", "Caddyfile", "haproxy.cfg"])


def told(name: str) -> list[Any]:
    """The errors that a proxy answers with itself."""
    text = (DEPLOY / name).read_text("utf-8")
    return [json.loads(one)["error"] for one in re.findall(r"""['`](\{"error":.+\})['`]""", text)]


@PROXIES
def test_what_a_proxy_answers_itself_has_the_form_of_the_apis_errors(name: str) -> None:
    for error in told(name):
        assert error.keys() == {"code", "message", "details"}
        assert error["code"] in {kind.code for kind in STATUS}
    away = [error["message"] for error in told(name) if error["code"] == Unavailable.code]
    lost = [message for message in away if not message.startswith("No host of Portico answers")]
    assert lost
    for message in lost:
        assert "what became of the request is unknown" in message
        assert "a repeat with the same Idempotency-Key is safe" in message


def test_what_nginx_cannot_read_or_pass_on_is_told_in_that_form_too() -> None:
    conf = (DEPLOY / "nginx.conf").read_text("utf-8")
    pages = re.findall(r"^    error_page ([\d ]+?)(?: =(\d+))? (\S+);", conf, re.MULTILINE)
    answers = dict(re.findall(r"location (?:= )?(\S+) \{[^}]*return (\d+) '\{\"error\"", conf))
    answered = {
        int(status): (int(replaced or status), int(answers[place]))
        for statuses, replaced, place in pages
        for status in statuses.split()
    }
    # 494 are headers that are too long, 497 is plain HTTP on the port of HTTPS.
    assert {400, 405, 413, 414, 429, 494, 497, 500, 501, 502, 504, 505} <= answered.keys()
    for sent, written in answered.values():
        assert sent == written
        assert sent in STATUS.values()


class Losing(BaseHTTPRequestHandler):
    """A host that takes requests and dies before it answers."""

    asked: ClassVar[Counter[tuple[str, str]]] = Counter()

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline(65_537)
        if self.raw_requestline and self.parse_request():
            self.asked[self.command, self.path] += 1
        self.close_connection = True


@contextmanager
def balanced(directory: Path) -> Iterator[int]:
    """HAProxy as deployed, but over plain HTTP and without looking at its hosts, which are one that
    is `Losing`; yields its port."""
    conf = (DEPLOY / "haproxy.cfg").read_text("utf-8")
    for there, instead in (
        (r' ssl crt "\$\{FRONT_CERTIFICATE\}" alpn h2,http/1.1', ""),
        (r"    default-server .*\n", ""),
        (r"    (option httpchk|http-check) .*\n", ""),
    ):
        conf, count = re.subn(there, instead, conf)
        assert count
    file = directory / "haproxy.cfg"
    file.write_text(conf)
    port, status = free_port(), free_port()
    with ThreadingHTTPServer(("127.0.0.1", 0), Losing) as host:
        Thread(target=host.serve_forever, daemon=True).start()
        names = {f"FRONT_{one}": f"127.0.0.1:{host.server_port}" for one in ("ONE", "TWO", "THREE")}
        names |= {"FRONT_LISTEN": f"127.0.0.1:{port}", "FRONT_STATUS": f"127.0.0.1:{status}"}
        program = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
        assert program, "install haproxy"
        with subprocess.Popen((program, "-db", "-f", file), env=os.environ | names) as running:
            try:
                until(lambda: listens(port), "HAProxy")
                yield port
            finally:
                running.terminate()
                host.shutdown()


def listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def test_haproxy_asks_again_only_what_may_be_asked_twice(tmp_path: Path) -> None:
    """The server heeds an Idempotency-Key only on some POSTs. A refresh token that arrives twice
    ends its login, and a change that arrives twice may undo somebody else's."""
    once = [("PATCH", "/v1/products/1"), ("DELETE", "/v1/products/1")]
    for base, routes in (("/v1", V1), ("/auth", AUTH)):
        posts = [one for one in routes if one.method == "POST"]
        once += [("POST", base + one.path) for one in posts if not one.repeatable]
    again = [("GET", "/v1/products"), ("POST", "/v1/products")]
    Losing.asked.clear()
    with balanced(tmp_path) as port:
        for method, path in (*once, *again):
            with closing(HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
                connection.request(method, path, b"{}", {"Idempotency-Key": "one"})
                assert connection.getresponse().status == 503
        with closing(HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
            connection.request("POST", "/v1/users", b"{}")
            assert connection.getresponse().status == 503
    assert {one: Losing.asked[one] for one in once} == dict.fromkeys(once, 1)
    assert Losing.asked["POST", "/v1/users"] == 1
    assert {one: Losing.asked[one] for one in again} == dict.fromkeys(again, 3)


def test_commands_of_the_chart_are_ones() -> None:
    served = re.findall(r"args: \[(.+?)\]", templates())
    started = re.findall(r"portico (init|migrate)\b", templates())
    commands = [one.split(", ") for one in served] + [[one] for one in started]
    for words in commands:
        parser().parse_args(words)
    assert len(commands) == 4


def test_the_variables_of_compose_are_those_that_its_parts_read() -> None:
    services = yaml.safe_load(COMPOSE)["services"]
    haproxy = set(re.findall(r"FRONT_\w+", (DEPLOY / "haproxy.cfg").read_text("utf-8")))
    assert set(services["haproxy"]["environment"]) <= haproxy
    patroni = set(re.findall(r"PATRONI_\w+", (DEPLOY / "patroni.yml").read_text("utf-8")))
    assert set(services["patroni"]["environment"]) == {"SUPERUSER", *patroni}
    example = (HOSTS / ".env.example").read_text("utf-8")
    named = set(re.findall(r"^(\w+)=", example, re.MULTILINE))
    assert set(re.findall(r"(?<!\$)\$\{(\w+)", COMPOSE)) == named
