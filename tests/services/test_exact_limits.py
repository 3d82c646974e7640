"""What eight processes ask at once: as many checks are valid as the limit allows, and no more."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import valkey

from operating import Installation, Service
from servers import RedisServer

pytestmark = pytest.mark.xdist_group("exact limits")  # they share their server

PROCESSES, EACH, LIMIT = 8, 25, 100
DECLARED = f"""
[plans.enterprise]
per_minute = 1000000
per_day = 1000000
[plans.minute]
per_minute = {LIMIT}
per_day = 1000000
[plans.month]
per_minute = 1000000
per_day = 1000000
per_month = {LIMIT}
[limits.heavy]
per_day = {LIMIT}
"""
ASKING = """
import http.client, json, ssl, sys
port, ca, key, check, each = sys.argv[1:]
tls = ssl.create_default_context(cafile=ca)
made = http.client.HTTPSConnection("localhost", int(port), context=tls)
headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
def ask(body):
    made.request("POST", "/v1/verify", json.dumps(body), headers)
    return json.loads(made.getresponse().read())["data"]
made.connect()
print("ready", flush=True)
sys.stdin.readline()
check = json.loads(check)
told = ask({"checks": [check] * (int(each) - 5)}) + [ask(check) for _ in range(5)]
print(sum(one["valid"] for one in told))
"""


@pytest.fixture(scope="module", params=["memory", "valkey"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    directory: Path = tmp_path_factory.mktemp("exact")
    (directory / "portico.toml").write_text(DECLARED)
    empty = Installation(directory)
    made = Installation(directory, facts=empty.told("init"), port=empty.port)
    words: tuple[str, ...] = ()
    if request.param == "valkey":
        redis: RedisServer = request.getfixturevalue("redis")
        with valkey.Valkey.from_url(redis.url) as client:
            client.flushdb()
        made, words = made.having(valkey_url=redis.url), ("--workers", "2")
    with made.serving(*words) as running:
        yield running


def account(server: Service, name: str, plan: str) -> str:
    """The key of a new user with this plan."""
    admin, email = server.installation.key, f"{name}@example.com"
    person = {"name": name, "email": email, "password": "Analytical1", "role": "viewer"}
    user = server.ask("/v1/users", method="POST", key=admin, body=person).json["data"]
    server.installation.told("users", "set-plan", email, plan)
    key = {"name": name, "type": "live", "user_id": user["id"]}
    made = server.ask("/v1/api-keys", method="POST", key=admin, body=key)
    return str(made.json["data"]["key"])


def valid(server: Service, check: dict[str, Any]) -> int:
    """How many checks of all processes are valid."""
    ca = server.installation.data / "tls/ca.pem"
    arguments = (str(server.installation.port), str(ca), server.installation.key)
    argv = [sys.executable, "-c", ASKING, *arguments, json.dumps(check), str(EACH)]
    pipe = subprocess.PIPE
    asking = [subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) for _ in range(PROCESSES)]
    for one in asking:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in asking:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    return sum(int(one.communicate()[0]) for one in asking)


@pytest.mark.parametrize(
    ("plan", "more", "wanted"),
    [
        ("minute", {}, LIMIT),
        ("month", {"cost": 7}, LIMIT // 7),
        ("enterprise", {"limit": "heavy"}, LIMIT),
    ],
)
def test_of_what_eight_processes_ask_the_limit_is_valid(
    server: Service, plan: str, more: dict[str, Any], wanted: int
) -> None:
    for attempt in range(3):
        name = f"{plan}{len(more)}{attempt}{''.join(more)}"
        check = {"credential": account(server, name, plan), **more}
        minute = time.time() // 60
        found = valid(server, check)
        if minute == time.time() // 60:  # else another window began meanwhile
            break
    assert found == wanted
