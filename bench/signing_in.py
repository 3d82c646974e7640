"""Rows of signing in: a GET with every kind of credential, refreshes, logins beside the API."""

import json
import secrets
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from bench import portico
from bench.client import paced, percentile
from bench.load import Request, Sample, Series, wrk
from bench.portico import Prepared
from bench.servers import BOTH_CPUS, BenchError, Running
from bench.throughput import GET
from bench.visitor import Visitor
from bench.workshop import MIDDLE, SMALL, Job, Workshop

REFRESH_CONNECTIONS = 16
FAMILIES = 48
"""Token families in a round: more than connections, and few enough that their consents stay within
the pages that one account may load in a minute."""

LOGIN_CONNECTIONS = 16
ACCOUNTS = 400
"""So many accounts that none signs in more often than it may."""

FIRST_SECONDS = 10
"""The time in which all of them sign in for the first time, and get a mail about it."""

BESIDE_PER_SECOND = 100

_REFRESH = """
local tokens = {tokens}
local headers = {{["Content-Type"] = "application/x-www-form-urlencoded"}}
for name, value in pairs(wrk.headers) do headers[name] = value end

function request()
  local body = "grant_type=refresh_token&{client}&refresh_token=" .. (table.remove(tokens) or "")
  return wrk.format("POST", "/auth/token", headers, body)
end

function response(status, _, body)
  local token = body:match('"refresh_token":"([^"]+)"')
  if token then table.insert(tokens, token) end
end
"""

_LOGIN = """
local turn = 0
local headers = {{["Content-Type"] = "application/json", ["X-Forwarded-Proto"] = "https"}}

function request()
  turn = turn + 1
  local account = turn % {accounts}
  headers["X-Forwarded-For"] = string.format("10.0.%d.%d", account / 256, account % 256)
  local body = string.format('{{"email":"{batch}-%d@example.com","password":"{password}"}}',
    account)
  return wrk.format("POST", "/auth/login", headers, body)
end
"""

_BARE = """
import sys, threading, time
from argon2 import PasswordHasher
from nacl.pwhash import argon2id
from portico.features.people.passwords import ITERATIONS, LANES, MEMORY_KIB

hasher = PasswordHasher(time_cost=ITERATIONS, memory_cost=MEMORY_KIB, parallelism=LANES)
hashed, done = hasher.hash("Analytical1"), [0, 0]
checks = {
    "argon2-cffi": lambda: hasher.verify(hashed, "Analytical1"),
    "libsodium": lambda: argon2id.verify(hashed.encode(), b"Analytical1"),
}
check = checks[sys.argv[2]]
end = time.monotonic() + float(sys.argv[1])

def verify(number):
    while time.monotonic() < end:
        check()
        done[number] += 1

threads = [threading.Thread(target=verify, args=(number,)) for number in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sum(done) / float(sys.argv[1]))
"""


@contextmanager
def _serving(
    shop: Workshop, count: int, **options: bool | str
) -> Iterator[tuple[Running, Prepared]]:
    data = shop.portico_data(count).copied(shop.fresh("portico-sign-in"))
    with portico.serving(data, shop.log, **options) as server:  # type: ignore[arg-type]
        yield server, data


def credentials(shop: Workshop) -> None:
    """GET of a random product over TLS, with each kind of credential."""
    with _serving(shop, MIDDLE) as (server, data):
        visitor = Visitor(server, data)
        bearers = {"JWT": visitor.login_token(), "OAuth token": visitor.tokens()["access_token"]}
        jobs = [Job("GET by API key", server, GET)]
        for name, token in bearers.items():
            with_token = visitor.with_header("Authorization", f"Bearer {token}")
            jobs.append(Job(f"GET by {name}", with_token, GET))
        jobs.append(Job("GET by session", visitor.with_header("Cookie", visitor.cookie), GET))
        by_key, *others = shop.interleave("credentials", jobs)
    for series in others:
        shop.ratio("credentials", f"{series.name} ÷ by API key", series, by_key, 0.95)


def refresh(shop: Workshop) -> None:
    """Refreshes per second at the token endpoint, on one core, over TLS."""
    series = Series("refresh, OAuth")
    with _serving(shop, SMALL) as (server, data):
        visitor = Visitor(server, data)
        client = "&".join(f"{name}={value}" for name, value in visitor.secret().items())
        for round_ in range(shop.report.rounds):
            shop.say(f"refresh: round {round_ + 1}/{shop.report.rounds}")
            tokens = [visitor.tokens()["refresh_token"] for _ in range(FAMILIES)]
            listed = "{" + ", ".join(json.dumps(token) for token in tokens) + "}"
            script = _REFRESH.format(tokens=listed, client=client)
            request = Request("", script=script, connections=REFRESH_CONNECTIONS)
            bare = visitor.with_header("Accept", "*/*")
            series.samples.append(wrk(bare.address, request, shop.report.seconds, seed=round_))
    shop.report.series.append(("refresh", series))
    void = series.void
    shop.at_least("refresh", "refreshes on one core", series.per_second, "/s", 600, void=void)


def login(shop: Workshop) -> None:
    """Logins per second with the server on both cores, compared with bare verifications of the same
    hash by argon2's reference implementation and by Portico's library. Also how long the API's
    other requests wait meanwhile."""
    logins, bare, own, quiet, beside = Series("login"), [], [], [], []
    with _serving(shop, SMALL, tls_on=False, cpus=BOTH_CPUS) as (server, _):
        batch, password = secrets.token_hex(4), f"Aa1-{secrets.token_hex(8)}"
        shop.say(f"login: making {ACCOUNTS} accounts")
        _make_accounts(server, batch, password)
        path, seconds = "/v1/products/500", shop.report.seconds
        script = _LOGIN.format(batch=batch, password=password, accounts=ACCOUNTS)
        _log_in(server, script, FIRST_SECONDS, [])
        for round_ in range(shop.report.rounds):
            shop.say(f"login: round {round_ + 1}/{shop.report.rounds}")
            bare.append(_bare_verifications("argon2-cffi", seconds))
            own.append(_bare_verifications("libsodium", seconds))
            quiet += paced(server.address, path, BESIDE_PER_SECOND, seconds)
            _log_in(server, script, seconds, logins.samples)
            # Measuring the waits takes a tenth of a core, so the rate is not measured meanwhile.
            watched: list[Sample] = []
            load = threading.Thread(target=_log_in, args=(server, script, seconds, watched))
            load.start()
            beside += paced(server.address, path, BESIDE_PER_SECOND, seconds)
            load.join()
    shop.report.series.append(("login", logins))
    of_bare, of_own = statistics.median(bare), statistics.median(own)
    shop.note("login", "bare verifications on two cores, argon2-cffi", of_bare, "/s")
    shop.note("login", "bare verifications on two cores, libsodium", of_own, "/s")
    shop.note("login", "logins on two cores", logins.per_second, "/s")
    what = "logins ÷ bare verifications by argon2-cffi, two cores"
    shop.at_least("login", what, logins.per_second / of_bare, "x", 0.85, void=logins.void)
    of_own_ratio = logins.per_second / of_own
    shop.note("login", "logins ÷ bare verifications by libsodium, two cores", of_own_ratio, "x")
    quiet_ms, beside_ms = (percentile(waits, 99) * 1000 for waits in (quiet, beside))
    shop.note("login", "GET, quiet, p99", quiet_ms, "ms")
    what = "GET beside logins: p99 ÷ quiet p99"
    shop.at_most("login", what, beside_ms / quiet_ms, "x", 4, void=logins.void)


def _log_in(server: Running, script: str, seconds: int, samples: list[Sample]) -> None:
    request = Request("", script=script, connections=LOGIN_CONNECTIONS)
    samples.append(wrk(server.address, request, seconds, seed=0))


def _make_accounts(server: Running, batch: str, password: str) -> None:
    def make(numbers: range) -> None:
        connection = server.address.connect()
        for number in numbers:
            body = {"name": "Somebody", "email": f"{batch}-{number}@example.com"}
            text = json.dumps({**body, "password": password})
            headers = {**server.address.headers, "Content-Type": "application/json"}
            connection.request("POST", "/v1/users", text, headers)
            answer = connection.getresponse()
            if answer.read() and answer.status != 201:
                raise BenchError(f"POST /v1/users answered {answer.status}")

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(make, (range(0, ACCOUNTS, 2), range(1, ACCOUNTS, 2))))


def _bare_verifications(library: str, seconds: int) -> float:
    """Verifications per second by two threads on both cores, with Portico's parameters."""
    argv = ["taskset", "-c", BOTH_CPUS, sys.executable, "-c", _BARE, str(seconds), library]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return float(done.stdout)
