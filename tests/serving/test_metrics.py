"""What operators ask: health, readiness and metrics."""

import re
import time

from operating import Installation, at_once, early_in_a_minute, until
from servers import RedisServer

JOBS = (
    *("deliveries", "feed", "flush", "imports", "mails", "reminders", "audit", "audit_ranges"),
    *("logouts", "quotas", "requests", "streams", "tidy", "uploads"),
)
"""Those of each environment."""

ZEROS = (
    'portico_limiter_refusals_total{environment="live"}',
    'portico_mails_waiting{environment="live"}',
    "portico_password_queue",
    'portico_workers{state="silent"}',
    *(
        f'portico_database_{what}{{environment="sandbox",pool="{pool}"}}'
        for what in ("waiting", "connections_in_use")
        for pool in ("write", "slow")
    ),
)


def test_metrics_tell_requests_by_route_and_status_and_each_job(
    installation: Installation,
) -> None:
    jobs = {("", "metrics"), ("", "request_log"), ("live", "mirrors"), ("live", "backups")}
    jobs |= {(env, job) for env in ("live", "sandbox") for job in JOBS}
    labels = [f'{{environment="{environment}",job="{job}"}}' for environment, job in sorted(jobs)]
    waiting = {label for label in labels if "feed" in label}  # for news, of which there is none yet

    def succeeded(text: str) -> dict[str, str]:
        pattern = r"(?m)^portico_job_last_success_timestamp_seconds(\{.*\}) (\S+)$"
        return dict(re.findall(pattern, text))

    with installation.serving() as service:

        def told() -> str:
            """What is told once each job has run, while none uses the sandbox."""
            text = service.ask("/metrics").text
            have_run = succeeded(text).keys() | waiting == set(labels)
            return text if have_run and all(f"\n{zero} 0.0\n" in text for zero in ZEROS) else ""

        for path in ("/v1/users/1", "/v1/users/77", "/v1/users/78", "/v1/nowhere"):
            service.ask(path, key=installation.key)
        service.ask("/sandbox/v1/users/me")
        text = until(told, "the first run of each job")
        answers = at_once(lambda _: service.ask("/metrics"), 10)
    assert {one.status for one in answers} == {200}
    assert answers[0].headers["content-type"].startswith("text/plain; version=")
    counted = dict(
        re.findall(r"(?m)^portico_http_request_duration_seconds_count(\{.*\}) (\S+)$", text)
    )
    counted.pop('{environment="",method="GET",route="/metrics",status="200"}', None)
    get = 'environment="live",method="GET",route="/v1/users/{id}"'
    assert counted == {
        f'{{{get},status="200"}}': "1.0",
        f'{{{get},status="404"}}': "2.0",
        '{environment="",method="",route="",status="404"}': "1.0",
        '{environment="sandbox",method="GET",route="/v1/users/me",status="401"}': "1.0",
    }
    assert re.search(r'(?m)^portico_build_info\{version="\d+\.\d+\.\d+"\} 1\.0$', text)
    assert 'portico_database_listening{environment="live"} 1.0' in text
    assert 'portico_workers{state="serving"} 1.0' in text
    assert sorted(re.findall(r"(?m)^portico_job_failures_total(\{.*\}) 0\.0$", text)) == labels
    assert all(abs(float(at) - time.time()) < 60 for at in succeeded(text).values())
    assert installation.key not in text
    kinds = dict(re.findall(r"(?m)^# TYPE (\S+) (\S+)$", text))
    assert set(kinds) == set(re.findall(r"(?m)^# HELP (\S+) ", text))
    for name, kind in kinds.items():
        assert name.startswith("portico_")
        assert name.endswith("_total") == (kind == "counter")
        assert name.endswith("_seconds") or kind != "histogram"


def test_refusal_of_the_limiter_is_counted(installation: Installation) -> None:
    with installation.serving() as service, service.connect() as connection:
        early_in_a_minute()
        asked = [service.ask("/v1/users/me", connection=connection) for _ in range(40)]
        text = service.ask("/metrics").text
    assert [answer.status for answer in asked] == [401] * 30 + [429] * 10
    assert 'portico_limiter_refusals_total{environment="live"} 10.0' in text


def test_metrics_are_for_those_who_are_allowed(installation: Installation) -> None:
    with installation.having(metrics_allow="192.0.2.0/24").serving() as service:
        answer = service.ask("/metrics", headers={"x-forwarded-for": "192.0.2.1"})
        assert answer.status == 403
        for path in ("/healthz", "/readyz"):
            assert service.ask(path).status == 200
            assert service.ask(path, method="POST").error == (405, "METHOD_NOT_ALLOWED")
            head = service.ask(path, method="HEAD")
            assert (head.status, head.body) == (200, b"")


def test_store_that_is_away_is_named_and_takes_no_host_out(
    on_postgres: Installation, redis: RedisServer
) -> None:
    with on_postgres.having(valkey_url=redis.url).serving() as service:
        well = {"ready": True, "stores": {"database": "ok", "limiter": "ok"}}
        until(lambda: service.ask("/readyz").json == well, "that all is well")
        with redis.frozen():
            silent = {"database": "ok", "limiter": "silent"}
            until(lambda: service.ask("/readyz").json["stores"] == silent, "its word")
            assert service.ask("/readyz").status == service.ask("/healthz").status == 200
        until(lambda: service.ask("/readyz").json == well, "that all is well")
