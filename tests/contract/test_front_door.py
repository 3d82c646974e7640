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


async def test_operators_ask_at_any_host_and_all_else_over_https(tmp_path: Path) -> None:
    async with Api(settings_for(tmp_path, HOSTS)) as api:
        for host in ("api.test", "TRY.test:443", "dash.test", "10.0.0.7:8443", ""):
            told = [("host", host)]
            for path in ("/healthz", "/readyz", "/metrics"):
                for scheme in ("https", "http"):
                    answer = await InProcess(api).exchange("GET", path, told, scheme=scheme)
                    assert answer.status_code == 200, (host, path)
                    assert "x-ratelimit-limit" not in answer.headers
                    assert answer.headers.get_list("cache-control") == ["no-store"]
            for method, path in (("GET", "/v1/docs"), ("POST", "/token"), ("FOO", "/x")):
                answer = await InProcess(api).exchange(method, path, told, scheme="http")
                refused(answer, 403, "PERMISSION_DENIED")


async def test_metrics_answer_at_the_port_and_not_through_a_proxy(tmp_path: Path) -> None:
    async with Api(settings_for(tmp_path, {"PORTICO_TRUSTED_PROXIES": "127.0.0.1"})) as api:
        assert (await InProcess(api).exchange("GET", "/metrics", [])).status_code == 200
        for forwarded in ("127.0.0.1", "", "unknown", "198.51.100.9"):
            told = [("x-forwarded-for", forwarded)]
            assert (await InProcess(api).exchange("GET", "/metrics", told)).status_code == 403


async def test_a_file_is_at_its_own_host_alone(tmp_path: Path) -> None:
    async with Api(settings_for(tmp_path, HOSTS)) as api:
        found = {
            host: (await InProcess(api).exchange("GET", "/v1/docs", [("host", host)])).status_code
            for host in ("api.test", "try.test", "dash.test", "10.0.0.7")
        }
        assert found == {"api.test": 200, "try.test": 200, "dash.test": 404, "10.0.0.7": 401}


async def test_no_host_holds_a_part_of_the_path(tmp_path: Path) -> None:
    async with Api(settings_for(tmp_path, HOSTS)) as api:
        caller = await api.caller("admin")
        for host, path in (("api.test/v1", "/users/me"), ("dash.test/sign-in", "")):
            told = [("host", host), ("authorization", f"Bearer {caller.key}")]
            refused(await InProcess(api).exchange("GET", path, told), 400, "VALIDATION_ERROR")


BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


async def test_browsers_find_the_dashboard_at_every_host_and_programs_the_api(
    tmp_path: Path,
) -> None:
    async with Api(settings_for(tmp_path, HOSTS)) as api:
        for host in ("api.test", "TRY.test:443", "auth.test", "10.0.0.7:8443", ""):
            asked = [("host", host), ("accept", BROWSER)]
            answer = await InProcess(api).exchange("GET", "/", asked)
            assert answer.status_code == 303, host
            assert answer.headers["location"] == "https://dash.test"
            assert answer.headers["vary"] == "Accept"
            assert "x-ratelimit-limit" not in answer.headers
        asked = [("host", "dash.test"), ("accept", BROWSER)]
        answer = await InProcess(api).exchange("GET", "/", asked)
        assert answer.headers["location"].startswith("/sign-in")
        told = await InProcess(api).exchange("GET", "/", [("accept", "*/*"), ("host", "10.0.0.7")])
        refused(told, 404, "RESOURCE_NOT_FOUND")
        assert "https://api.test/v1" in told.text
        icon = await InProcess(api).exchange("GET", "/favicon.ico", [("host", "auth.test")])
        assert icon.headers["content-type"] == "image/svg+xml"


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
