"""Files of deploy/ for many hosts: what they name exists, and nothing is set that nobody reads."""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from configparser import ConfigParser
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
from portico.features.catalogue.import_pages import PAGES
from portico.features.catalogue.rules import MAX_BYTES
from portico.mounts import AUTH, V1
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


def test_the_chart_keeps_data_in_a_directory_that_portico_makes() -> None:
    """An empty volume is root's and open to all, which `portico doctor` takes for a problem."""
    (mounted,) = re.findall(r"name: data, mountPath: (\S+?)\}", templates())
    (data,) = re.findall(r"name: PORTICO_DATA, value: (\S+?)\}", templates())
    assert Path(mounted) in Path(data).parents


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


def test_the_image_has_the_programs_that_copy_the_postgresql_beside_it() -> None:
    servers: set[str] = set()
    for path in DEPLOY.rglob("*"):
        if path.name.endswith(("compose.yaml", "Dockerfile")):
            servers |= set(re.findall(r"\bpostgres:(\d+)@", path.read_text("utf-8")))
    (server,) = servers
    served = (DEPLOY / "Dockerfile").read_text("utf-8").rpartition("\nFROM ")[2]
    assert re.findall(r"\bpostgresql-client-(\d+)\b", served) == [server]


def test_postgresql_sorts_text_alike_in_every_image() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    arguments = compose["services"]["postgres"]["environment"]["POSTGRES_INITDB_ARGS"]
    assert arguments.split() == ["--encoding=UTF8", "--locale=C.UTF-8"]
    patroni = yaml.safe_load((DEPLOY / "patroni.yml").read_text("utf-8"))
    assert {"encoding": "UTF8"} in patroni["bootstrap"]["initdb"]
    assert {"locale": "C.UTF-8"} in patroni["bootstrap"]["initdb"]


def test_users_of_the_images_may_read_what_is_copied_from_any_checkout() -> None:
    """COPY keeps a file's mode, which after `umask 077` lets only root read it."""
    for path in (DEPLOY / "Dockerfile", HOSTS / "patroni.Dockerfile"):
        served = path.read_text("utf-8").rpartition("\nFROM ")[2]
        copied = re.findall(r"^COPY (?!--from=)(.+)$", served, re.MULTILINE)
        assert copied
        for words in copied:
            assert words.startswith("--chmod=644 ")


def test_the_image_has_the_bytecode_that_its_processes_do_not_write() -> None:
    served = (DEPLOY / "Dockerfile").read_text("utf-8").rpartition("\nFROM ")[2]
    assert "PYTHONDONTWRITEBYTECODE=1" in served
    compiled = served.index("python -m compileall -q /usr/local/lib\n")
    assert compiled < served.index("\nCOPY ")  # so that its layer is built seldom


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


def test_the_unit_of_systemd_goes_on_trying_but_for_misuse() -> None:
    unit = ConfigParser(strict=False, interpolation=None)
    unit.read_string((DEPLOY / "portico.service").read_text("utf-8"))
    assert unit["Service"]["Restart"] == "always"
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"  # else it is for good after five starts
    assert unit["Service"]["RestartPreventExitStatus"] == "2"


def test_commands_beside_the_unit_of_systemd_run_as_it_does() -> None:
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string((DEPLOY / "portico.service").read_text("utf-8"))
    service = unit["Service"]
    script = (DEPLOY / "portico.sh").read_text("utf-8")
    words = shlex.split(script, comments=True)
    assert words[:2] == ["exec", "systemd-run"]
    for option, setting in (
        ("--uid", "User"),
        ("--gid", "Group"),
        ("--working-directory", "WorkingDirectory"),
    ):
        assert f"{option}={service[setting]}" in words
    for name in (
        "ConfigurationDirectory",
        "StateDirectory",
        "StateDirectoryMode",
        "UMask",
        "EnvironmentFile",
    ):
        assert f"{name}={service[name]}" in words
    assert service["Environment"] in words
    assert f"{words[-2]} serve" == service["ExecStart"]
    assert words[-1] == "$@"


def test_nginx_lets_in_what_the_page_for_files_of_products_takes() -> None:
    conf = (DEPLOY / "nginx.conf").read_text("utf-8")
    location = r"location ~ (\S+) \{[^}]*client_max_body_size (\d+)m;"
    ((path, limit),) = re.findall(location, conf)
    assert int(limit) << 20 >= MAX_BYTES + AROUND_BYTES
    for base in ("/dashboard", f"/dashboard/{SANDBOX}"):
        let_in = {page.path for page in PAGES if re.search(path, base + page.path)}
        assert let_in == {page.path for page in PAGES if page.file_bytes}


def test_nginx_leaves_entity_tags_as_they_are_whatever_else_it_compresses() -> None:
    conf = (DEPLOY / "nginx.conf").read_text("utf-8")
    (server,) = re.findall(r"^server \{\n(.*?)^\}", conf, re.MULTILINE | re.DOTALL)
    assert re.findall(r"^    gzip (\w+);", server, re.MULTILINE) == ["off"]


def test_nginx_names_its_host_to_portico_where_a_client_names_none() -> None:
    """HTTP/1.0 may lack Host. nginx passes that on as HTTP/1.1, and leaves out an empty header."""
    conf = (DEPLOY / "nginx.conf").read_text("utf-8")
    (name,) = re.findall(r"^    proxy_set_header Host \$(\w+);$", conf, re.MULTILINE)
    choice = re.search(rf"^map \$http_host \${name} {{\n(.*?)^}}", conf, re.MULTILINE | re.DOTALL)
    assert choice
    assert choice[1].split() == ["default", "$http_host;", '""', "$host;"]


PROXIES = pytest.mark.parametrize("name", ["nginx.conf", "Caddyfile", "haproxy.cfg"])


def told(name: str) -> list[Any]:
    """The errors that a proxy answers with itself."""
    text = (DEPLOY / name).read_text("utf-8")
    return [json.loads(one)["error"] for one in re.findall(r"""['`](\{"error":.+\})['`]""", text)]


@PROXIES
def test_what_a_proxy_answers_itself_has_the_form_of_the_apis_errors(name: str) -> None:
    assert told(name)
    for error in told(name):
        assert error.keys() == {"code", "message", "details"}
        assert error["code"] in {kind.code for kind in STATUS}


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


def test_haproxy_tells_what_becomes_of_a_request_that_it_has_read_in_that_form() -> None:
    conf = (DEPLOY / "haproxy.cfg").read_text("utf-8")
    said = re.findall(
        r"^    http-error status (\d+) content-type application/json", conf, re.MULTILINE
    )
    assert sorted(map(int, said)) == [408, 429, 500, 502, 503, 504]


@PROXIES
def test_a_proxy_that_lost_an_answer_says_that_the_outcome_is_unknown(name: str) -> None:
    away = [error["message"] for error in told(name) if error["code"] == Unavailable.code]
    lost = [message for message in away if not message.startswith("No host of Portico answers")]
    assert lost
    for message in lost:
        assert "what became of the request is unknown" in message
        assert "a repeat with the same Idempotency-Key is safe" in message


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


def test_docker_puts_a_process_before_portico_that_passes_signals_and_reaps() -> None:
    """The first process gets no signal that it does not handle yet, as while Python starts."""
    for directory in (DEPLOY, HOSTS):
        compose = yaml.safe_load((directory / "compose.yaml").read_text("utf-8"))
        assert compose["services"]["portico"]["init"] is True
    run = re.search(r"docker run --detach (.+)", (DEPLOY / "Dockerfile").read_text("utf-8"))
    assert run
    assert "--init" in run[1].split()


@pytest.mark.parametrize("directory", [DEPLOY, HOSTS], ids=lambda path: path.name)
def test_commands_beside_a_server_of_compose_know_how_many_workers_it_has(
    directory: Path,
) -> None:
    compose = yaml.safe_load((directory / "compose.yaml").read_text("utf-8"))
    portico = compose["services"]["portico"]
    assert portico["environment"]["PORTICO_WORKERS"] == 2
    assert "command" not in portico  # it would be of the server alone; the image's is `serve`


def test_the_variables_of_compose_are_those_of_its_example() -> None:
    read = set(re.findall(r"(?<!\$)\$\{(\w+)", COMPOSE))
    example = (HOSTS / ".env.example").read_text("utf-8")
    assert read == set(re.findall(r"^(\w+)=", example, re.MULTILINE))


def test_compose_sets_what_haproxy_and_patroni_read() -> None:
    services = yaml.safe_load(COMPOSE)["services"]
    haproxy = set(re.findall(r"FRONT_\w+", (DEPLOY / "haproxy.cfg").read_text("utf-8")))
    assert set(services["haproxy"]["environment"]) <= haproxy
    patroni = set(re.findall(r"PATRONI_\w+", (DEPLOY / "patroni.yml").read_text("utf-8")))
    told = {name for name in services["patroni"]["environment"] if name.startswith("PATRONI_")}
    assert told == patroni


def test_nothing_overrides_the_passwords_that_patroni_gives_to_its_programs() -> None:
    """pg_basebackup, which copies a standby, takes PGPASSWORD before the file Patroni writes."""
    patroni = yaml.safe_load(COMPOSE)["services"]["patroni"]["environment"]
    assert not [name for name in patroni if name.startswith("PG")]
    assert {"SUPERUSER"} == {name for name in patroni if not name.startswith("PATRONI_")}
    assert 'psql "$SUPERUSER"' in COMPOSE[: COMPOSE.index("name: portico-hosts")]


def test_a_host_with_several_addresses_is_known_by_the_one_that_it_is_given() -> None:
    """Valkey and Sentinel take each other's from their connections, whichever that is."""
    services = yaml.safe_load(COMPOSE)["services"]
    for name, line in (
        ("valkey", "replica-announce-ip ${OWN}"),
        ("sentinel", "sentinel announce-ip ${OWN}"),
    ):
        assert f'"{line}"' in services[name]["command"][-1]


def test_the_hosts_of_compose_serve_only_what_init_has_prepared() -> None:
    head = COMPOSE[: COMPOSE.index("name: portico-hosts")]
    steps = re.findall(r"^# {4,}docker compose (.+)$", head, re.MULTILINE)
    up = [step for step in steps if "--profile host up" in step]
    assert ["--scale portico=0" in step for step in up] == [True, False]
    prepared = steps.index("--profile host run --rm portico init --admin-email you@example.com")
    assert steps.index(up[0]) < prepared < steps.index(up[1])


def test_jobs_of_upgrades_are_removed_and_the_one_with_the_first_password_stays() -> None:
    """They are named by their revision, so that none takes the place of the one before."""
    migrating = (CHART / "templates" / "migration.yaml").read_text("utf-8")
    (policy,) = re.findall(r"helm.sh/hook-delete-policy: (.+)", migrating)
    always, _, upgraded = policy.partition("{{ if .Release.IsUpgrade }}")
    assert always == "before-hook-creation"
    assert upgraded == ",hook-succeeded{{ end }}"


def test_a_stop_reaches_the_command_that_the_charts_job_runs() -> None:
    """A shell that waits for a command, as the first process of a container, hears no SIGTERM."""
    migrating = (CHART / "templates" / "migration.yaml").read_text("utf-8")
    assert migrating.count("portico migrate") == migrating.count("exec portico migrate") == 2


def test_commands_of_the_chart_are_ones() -> None:
    served = re.findall(r"args: \[(.+?)\]", templates())
    started = re.findall(r"portico (init|migrate)\b", templates())
    commands = [one.split(", ") for one in served] + [[one] for one in started]
    for words in commands:
        parser().parse_args(words)
    assert len(commands) == 4
