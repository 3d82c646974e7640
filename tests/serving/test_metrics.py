"""What operators ask: health, readiness and metrics."""

import re
import time
from pathlib import Path

import pytest

from operating import Installation, Service, at_once, early_in_a_minute, until
from servers import PostgresServer, RedisServer

JOBS = (
    "deliveries",
    "feed",
    "flush",
    "imports",
    "mails",
    "reminders",
    "audit",
    "audit_ranges",
    "requests",
    "streams",
    "tidy",
    "uploads",
)
"""Those of each environment."""


def test_the_metrics_tell_what_was_asked_by_route_and_status(installation: Installation) -> None:
    jobs = {("", "metrics"), ("", "request_log"), ("live", "mirrors"), ("live", "backups")}
    jobs |= {(env, job) for env in ("live", "sandbox") for job in JOBS}
    labels = [f'{{environment="{environment}",job="{job}"}}' for environment, job in sorted(jobs)]
    waiting = {label for label in labels if "feed" in label}  # for news, of which there is none yet
    idle = [
        f'portico_database_{what}{{environment="sandbox",pool="{pool}"}} 0.0'
        for what in ("waiting", "connections_in_use")
        for pool in ("write", "slow")
    ]

    def succeeded(text: str) -> dict[str, str]:
        pattern = r"^portico_job_last_success_timestamp_seconds(\{.*\}) (\S+)$"
        return dict(re.findall(pattern, text, re.MULTILINE))

    with installation.serving() as service:

        def told() -> str:
            """What is told once each job has run, while none uses the sandbox."""
            text = service.ask("/metrics").text
            have_run = succeeded(text).keys() | waiting == set(labels)
            return text if have_run and all(line in text for line in idle) else ""

        for path in ("/v1/users/1", "/v1/users/77", "/v1/users/78", "/v1/nowhere"):
            service.ask(path, key=installation.key)
        service.ask("/sandbox/v1/users/me")
        text = until(told, "the first run of each job")
    pattern = r"^portico_http_request_duration_seconds_count(\{.*\}) (\S+)$"
    counted = dict(re.findall(pattern, text, re.MULTILINE))
    counted.pop('{environment="",method="GET",route="/metrics",status="200"}', None)
    get = 'environment="live",method="GET",route="/v1/users/{id}"'
    assert counted == {
        f'{{{get},status="200"}}': "1.0",
        f'{{{get},status="404"}}': "2.0",
        '{environment="",method="",route="",status="404"}': "1.0",
        '{environment="sandbox",method="GET",route="/v1/users/me",status="401"}': "1.0",
    }
    assert re.search(r'^portico_build_info\{version="\d+\.\d+\.\d+"\} 1\.0$', text, re.MULTILINE)
    assert 'portico_limiter_refusals_total{environment="live"} 0.0' in text
    for pool in ("write", "slow"):
        of_pool = f'{{environment="sandbox",pool="{pool}"}}'
        assert re.search(rf"^portico_database_wait_seconds_total{of_pool} \S+$", text, re.MULTILINE)
    assert 'portico_database_listening{environment="live"} 1.0' in text
    assert 'portico_mails_waiting{environment="live"} 0.0' in text
    assert "portico_password_queue 0.0" in text
    assert 'portico_workers{state="serving"} 1.0' in text
    assert 'portico_workers{state="silent"} 0.0' in text
    failures = re.findall(r"^portico_job_failures_total(\{.*\}) 0\.0$", text, re.MULTILINE)
    assert sorted(failures) == labels
    assert all(abs(float(at) - time.time()) < 60 for at in succeeded(text).values())
    assert installation.key not in text


def test_metrics_names_follow_the_conventions(installation: Installation) -> None:
    with installation.serving() as service:
        service.ask("/v1/users/me", key=installation.key)
        answer = service.ask("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", answer.text, re.MULTILINE))
    helped = set(re.findall(r"^# HELP (\S+) ", answer.text, re.MULTILINE))
    assert set(kinds) == helped
    assert all(name.startswith("portico_") for name in kinds)
    assert {name for name, kind in kinds.items() if kind == "counter"} == {
        name for name in kinds if name.endswith("_total")
    }
    assert all(name.endswith("_seconds") for name, kind in kinds.items() if kind == "histogram")


def test_a_refusal_of_the_limiter_is_counted(installation: Installation) -> None:
    with installation.serving() as service, service.connect() as connection:
        early_in_a_minute()
        asked = [service.ask("/v1/users/me", connection=connection) for _ in range(40)]
        statuses = [answer.status for answer in asked]
        text = service.ask("/metrics").text
    assert statuses == [401] * 30 + [429] * 10
    assert 'portico_limiter_refusals_total{environment="live"} 10.0' in text


@pytest.mark.parametrize(
    ("allowed", "status"), [("192.0.2.0/24", 403), ("", 403), ("127.0.0.1", 200)]
)
def test_metrics_are_for_those_who_are_allowed(
    installation: Installation, allowed: str, status: int
) -> None:
    with installation.having(metrics_allow=allowed).serving() as service:
        forwarded = {"x-forwarded-for": "192.0.2.1"}
        answer = service.ask("/metrics", headers=forwarded)
        assert answer.status == status
        assert service.ask("/healthz").status == 200
        assert service.ask("/readyz").status == 200


def test_operations_take_get_alone_and_need_no_key(installation: Installation) -> None:
    with installation.serving() as service:
        for path in ("/healthz", "/readyz", "/metrics"):
            refused = service.ask(path, method="POST")
            assert refused.error == (405, "METHOD_NOT_ALLOWED")
            assert refused.headers["allow"] == "GET, HEAD"
            head = service.ask(path, method="HEAD")
            assert (head.status, head.body) == (200, b"")
            assert head.headers["x-request-id"]


def test_a_store_that_is_away_is_named_and_takes_no_host_out(
    tmp_path: Path, postgres: PostgresServer, redis: RedisServer
) -> None:
    given = Installation(tmp_path).having(
        database_url=postgres.fresh_database(), valkey_url=redis.url
    )
    with given.serving() as service:
        well = {"ready": True, "stores": {"database": "ok", "limiter": "ok"}}
        until(lambda: service.ask("/readyz").json == well, "that all is well")
        with redis.frozen():
            silent = {"database": "ok", "limiter": "silent"}
            until(lambda: service.ask("/readyz").json["stores"] == silent, "its word")
            assert service.ask("/readyz").status == 200
            assert service.ask("/healthz").status == 200
        until(lambda: service.ask("/readyz").json == well, "that all is well")


def test_a_scrape_holds_up_nobody(installation: Installation) -> None:
    with installation.serving() as service:

        def ask(number: int) -> int:
            return scraped(service) if number % 2 else service.ask("/healthz").status

        assert set(at_once(ask, 20)) == {200}


def scraped(service: Service) -> int:
    """The status of a scrape."""
    return service.ask("/metrics").status
