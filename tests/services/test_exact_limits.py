"""100,000 checks by eight processes at three hosts: as many are valid as the limits allow."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from operating import Installation, Service
from reliability.boundless import beside
from servers import PostgresServer, RedisServer

pytestmark = pytest.mark.xdist_group("exact limits")  # they share their servers

PROCESSES, EACH, LIMIT = 8, 12_500, 1_000
DECLARED = f"""
[plans.minute]
per_minute = {LIMIT}
per_day = 1000000
[plans.day]
per_minute = 1000000
per_day = {LIMIT}
[plans.month]
per_minute = 1000000
per_day = 1000000
per_month = {LIMIT}
[plans.enterprise]
per_minute = 1000000
per_day = 1000000
[limits.heavy]
per_day = {LIMIT}
"""
CHECKS: list[tuple[str, dict[str, Any], int]] = [
    ("minute", {}, LIMIT),
    ("day", {}, LIMIT),
    ("month", {}, LIMIT),
    ("month", {"cost": 7}, LIMIT // 7),
    ("enterprise", {"limit": "heavy"}, LIMIT),
]
"""A plan, what is asked, and how many such checks are valid in each window."""
ASKING = """
import collections, http.client, json, ssl, sys
port, ca, key, each, *checks = sys.argv[1:]
checks = [json.loads(check) for check in checks]
tls = ssl.create_default_context(cafile=ca)
made = http.client.HTTPSConnection("localhost", int(port), context=tls)
headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
valid = [collections.Counter() for _ in checks]
def ask(body):
    made.request("POST", "/v1/verify", json.dumps(body), headers)
    return json.loads(made.getresponse().read())["data"]
def count(told):
    for number, one in enumerate(told):
        valid[number % len(checks)][one["limit"]["reset"]] += one["valid"]
made.connect()
print("ready", flush=True)
sys.stdin.readline()
singles = 20 * len(checks)
for _ in range((int(each) - singles) // 100):
    count(ask({"checks": checks * (100 // len(checks))}))
count(ask(checks[number % len(checks)]) for number in range(singles))
print(json.dumps(valid))
"""


@pytest.fixture(scope="module", params=["memory", "valkey"])
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Service]]:
    """One host with counters of its own, or three that share theirs."""
    places = [tmp_path_factory.mktemp("exact") for _ in range(3)]
    empty = Installation(places[0])
    if request.param == "valkey":
        redis: RedisServer = request.getfixturevalue("redis")
        postgres: PostgresServer = request.getfixturevalue("postgres")
        empty = empty.having(valkey_url=redis.url, database_url=postgres.fresh_database())
    (places[0] / "portico.toml").write_text(DECLARED)
    hosts = [replace(empty, facts=empty.told("init"))]
    if request.param == "valkey":
        hosts += [beside(hosts[0], place) for place in places[1:]]
    with ExitStack() as stack:
        for host in hosts:
            (host.directory / "portico.toml").write_text(DECLARED)
        yield [stack.enter_context(host.serving()) for host in hosts]


def account(server: Service, name: str, plan: str) -> str:
    """The key of a new user with this plan."""
    admin, email = server.installation.key, f"{name}@example.com"
    person = {"name": name, "email": email, "password": "Analytical1", "role": "viewer"}
    user = server.ask("/v1/users", method="POST", key=admin, body=person).json["data"]
    server.installation.told("users", "set-plan", email, plan)
    key = {"name": name, "type": "live", "user_id": user["id"]}
    made = server.ask("/v1/api-keys", method="POST", key=admin, body=key)
    return str(made.json["data"]["key"])


def valid(servers: list[Service], checks: list[dict[str, Any]]) -> list[Counter[str]]:
    """How many checks of each kind are valid in each window, of those of all processes."""
    texts, pipe = [json.dumps(check) for check in checks], subprocess.PIPE
    asking = []
    for number in range(PROCESSES):
        one = servers[number % len(servers)].installation
        place = (str(one.port), str(one.data / "tls/ca.pem"), servers[0].installation.key)
        argv = [sys.executable, "-c", ASKING, *place, str(EACH), *texts]
        asking.append(subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True))
    for process in asking:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in asking:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    found = [Counter[str]() for _ in checks]
    for process in asking:
        for sums, counted in zip(found, json.loads(process.communicate()[0]), strict=True):
            sums.update(counted)
    return found


def test_of_what_eight_processes_ask_the_limit_is_valid(servers: list[Service]) -> None:
    checks = [
        {"credential": account(servers[0], f"check{number}", plan), **more}
        for number, (plan, more, _) in enumerate(CHECKS)
    ]
    for (plan, more, wanted), found in zip(CHECKS, valid(servers, checks), strict=True):
        # Another window may begin meanwhile, and be left before it is full.
        assert max(found.values()) == wanted, (plan, more, found)
