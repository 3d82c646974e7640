"""What is outside the API goes through the same door: operators' paths, files, plain HTTP."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from driving import Api, InProcess, refused, settings_for

pytestmark = pytest.mark.one_engine

HOSTS = {
    "PORTICO_BASE_URL": "https://api.test/v1",
    "PORTICO_SANDBOX_URL": "https://try.test/v1",
    "PORTICO_AUTH_URL": "https://auth.test",
    "PORTICO_DASHBOARD_URL": "https://dash.test",
}
OPERATIONS = ("/healthz", "/readyz", "/metrics")


@pytest.mark.parametrize("scheme", ["https", "http"])
async def test_operators_ask_at_any_host_and_without_https(tmp_path: Path, scheme: str) -> None:
    async with Api(settings_for(tmp_path, HOSTS)) as api:
        for host in ("api.test", "TRY.test:443", "dash.test", "10.0.0.7:8443", ""):
            for path in OPERATIONS:
                answer = await InProcess(api).exchange("GET", path, [("host", host)], scheme=scheme)
                assert answer.status_code == 200, (host, path)
                assert "x-ratelimit-limit" not in answer.headers
                assert answer.headers.get_list("cache-control") == ["no-store"]


@pytest.mark.parametrize(
    ("forwarded", "status"),
    [(None, 200), ("127.0.0.1", 403), ("", 403), ("unknown", 403), ("198.51.100.9", 403)],
)
async def test_metrics_answer_at_the_port_and_not_through_a_proxy(
    tmp_path: Path, forwarded: str | None, status: int
) -> None:
    async with Api(settings_for(tmp_path, {"PORTICO_TRUSTED_PROXIES": "127.0.0.1"})) as api:
        told = [] if forwarded is None else [("x-forwarded-for", forwarded)]
        answer = await InProcess(api).exchange("GET", "/metrics", told)
        assert answer.status_code == status


async def test_a_file_is_at_its_own_host_alone(tmp_path: Path) -> None:
    async with Api(settings_for(tmp_path, HOSTS)) as api:
        found = {
            host: (await InProcess(api).exchange("GET", "/v1/docs", [("host", host)])).status_code
            for host in ("api.test", "try.test", "dash.test", "10.0.0.7")
        }
        assert found == {"api.test": 200, "try.test": 200, "dash.test": 404, "10.0.0.7": 401}


@pytest.mark.parametrize(
    ("host", "path"),
    [("api.test/v1", "/users/me"), ("api.test/v1/users", "/me"), ("dash.test/sign-in", "")],
)
async def test_no_host_holds_a_part_of_the_path(tmp_path: Path, host: str, path: str) -> None:
    async with Api(settings_for(tmp_path, HOSTS)) as api:
        caller = await api.caller("admin")
        told = [("host", host), ("authorization", f"Bearer {caller.key}")]
        answer = await InProcess(api).exchange("GET", path, told)
        refused(answer, 400, "VALIDATION_ERROR")


BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


async def test_browsers_find_the_dashboard_at_every_host(tmp_path: Path) -> None:
    async with Api(settings_for(tmp_path, HOSTS)) as api:
        for host in ("api.test", "TRY.test:443", "auth.test", "10.0.0.7:8443", ""):
            for method in ("GET", "HEAD"):
                asked = [("host", host), ("accept", BROWSER)]
                answer = await InProcess(api).exchange(method, "/", asked)
                assert answer.status_code == 303, host
                assert answer.headers["location"] == "https://dash.test"
                assert answer.headers["vary"] == "Accept"
                assert "x-ratelimit-limit" not in answer.headers
        asked = [("host", "dash.test"), ("accept", BROWSER)]
        answer = await InProcess(api).exchange("GET", "/", asked)
        assert answer.headers["location"].startswith("/sign-in")


@pytest.mark.parametrize("accept", ["*/*", "application/json"])
async def test_programs_are_told_at_the_root_where_the_api_is(api: Api, accept: str) -> None:
    asked = await InProcess(api).exchange("GET", "/", [("accept", accept)])
    refused(asked, 404, "RESOURCE_NOT_FOUND")
    assert "https://localhost:8443/v1" in asked.text
    refused(await InProcess(api).exchange("POST", "/", []), 405, "METHOD_NOT_ALLOWED")


async def test_password_managers_are_led_to_where_a_password_is_changed(tmp_path: Path) -> None:
    """They look for it at the host of a page with a password, and do not trust a server that seems
    to have everything."""
    nothing = "/.well-known/resource-that-should-not-exist-whose-status-code-should-not-be-200"
    async with Api(settings_for(tmp_path, HOSTS)) as api:
        for host, status in (("dash.test", 404), ("auth.test", 401)):
            asked = [("host", host)]
            path = "/.well-known/change-password"
            answer = await InProcess(api).exchange("GET", path, asked)
            assert answer.status_code == 303
            assert answer.headers["location"] == "https://dash.test/password"
            answer = await InProcess(api).exchange("GET", nothing, asked)
            assert answer.status_code == status


async def test_every_host_has_an_icon(tmp_path: Path) -> None:
    async with Api(settings_for(tmp_path, HOSTS)) as api:
        for host in ("api.test", "dash.test", "auth.test"):
            answer = await InProcess(api).exchange("GET", "/favicon.ico", [("host", host)])
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "image/svg+xml"
            assert answer.headers["cache-control"] == "public, no-cache"
            asked = [("host", host), ("if-none-match", answer.headers["etag"])]
            assert (await InProcess(api).exchange("GET", "/favicon.ico", asked)).status_code == 304


async def test_what_leads_nowhere_is_counted_though_operators_are_not(api: Api) -> None:
    nowhere = await api.stranger().get("https://localhost:8443/healthz/x")
    assert nowhere.headers["x-ratelimit-remaining"] == "29"
    refused(nowhere, 401)


@pytest.mark.parametrize("method", ["GET", "POST", "FOO"])
async def test_over_plain_http_everything_else_is_refused_alike(api: Api, method: str) -> None:
    for path in ("/", "/v1/users/me", "/v1/docs", "/auth/token", "/dashboard/sign-in", "/x"):
        answer = await InProcess(api).exchange(method, path, [], scheme="http")
        refused(answer, 403, "PERMISSION_DENIED")


async def test_files_and_health_are_measured_and_logged_like_everything_else(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with Api(replace(settings_for(tmp_path, {}), log_requests=True)) as api:
        await api.stranger().get("https://localhost:8443/healthz")
        await api.stranger().get("/docs")
        metrics = (await api.stranger().get("https://localhost:8443/metrics")).text
        for where in (
            'environment="",method="GET",route="/healthz"',
            'environment="live",method="GET",route="/v1/docs"',
        ):
            name = "portico_http_request_duration_seconds_count"
            assert f'{name}{{{where},status="200"}} 1.0' in metrics
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [line["path"] for line in lines] == ["/healthz", "/v1/docs", "/metrics"]
