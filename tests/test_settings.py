"""Settings: where they come from, which wins, and how an impossible one is refused."""

import dataclasses
import os
import re
import tomllib
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portico.domain.limits import DEFAULT_PLANS, Plan
from portico.secret_file import found_secrets
from portico.settings import SETTINGS, SettingError, Settings, load, markdown_tables
from portico.settings.declaring import Setting
from portico.settings.values import redacted

Flags = Mapping[str, str | int | None]


def refusal(cwd: Path, flags: Flags | None = None, /, **variables: str) -> str:
    """The one line that refuses these settings."""
    environ = {f"PORTICO_{name.upper()}": value for name, value in variables.items()}
    with pytest.raises(SettingError) as caught:
        load(flags or {}, environ, cwd)
    message = str(caught.value)
    assert "\n" not in message
    return message


def read(cwd: Path, **variables: str) -> Settings:
    return load({}, {f"PORTICO_{name.upper()}": value for name, value in variables.items()}, cwd)


def refused_file(cwd: Path, text: str) -> str:
    (cwd / "portico.toml").write_text(text)
    return refusal(cwd)


# Where they come from


def test_without_any_setting_the_defaults_hold(tmp_path: Path) -> None:
    settings = load({}, {"HOME": "/root"}, tmp_path)
    assert settings.data == tmp_path / "portico-data"
    assert (settings.host, settings.port, settings.http_port) == ("127.0.0.1", 8443, None)
    assert (settings.workers, settings.database_url, settings.valkey_url) == (1, None, None)
    assert (settings.tls, settings.tls_cert, settings.tls_key) == (True, None, None)
    assert settings.trusted_proxies == ()
    assert (settings.events_days, settings.webhooks_allow) == (30, ())
    assert (settings.audit_days, settings.audit_archive) == (None, None)
    assert settings.count_limit is None
    assert settings.metrics_allow == (ip_network("127.0.0.0/8"), ip_network("::1/128"))
    assert (settings.body_limit, settings.cookie_domain) == (1024 * 1024, None)
    assert (settings.smtp_url, settings.mail_from) == (None, None)
    assert (settings.log_level, settings.log_requests) == ("info", True)
    assert settings.plans == DEFAULT_PLANS


def test_a_variable_overrides_the_file_and_a_flag_overrides_both(tmp_path: Path) -> None:
    (tmp_path / "portico.toml").write_text('port = 1001\nhost = "192.0.2.1"\nworkers = 1\n')
    environ = {"PORTICO_PORT": "1002", "PORTICO_HOST": "192.0.2.2"}
    settings = load({"port": 1003, "host": None}, environ, tmp_path)
    assert (settings.port, settings.host, settings.workers) == (1003, "192.0.2.2", 1)


def test_portico_config_names_another_file(tmp_path: Path) -> None:
    (tmp_path / "portico.toml").write_text("port = 1001\n")
    (tmp_path / "other.toml").write_text("http_port = 1002\n")
    settings = load({}, {"PORTICO_CONFIG": "other.toml"}, tmp_path)
    assert (settings.port, settings.http_port) == (8443, 1002)


def test_relative_paths_start_at_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "a.pem").touch()
    settings = load(
        {"data": "here"}, {"PORTICO_TLS_CERT": "a.pem", "PORTICO_TLS_KEY": "a.pem"}, tmp_path
    )
    assert settings.data == tmp_path / "here"
    assert settings.tls_cert == settings.tls_key == tmp_path / "a.pem"
    assert load({"data": "/srv/p"}, {}, tmp_path).data == Path("/srv/p")


def test_the_data_directory_may_come_later_and_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert read(tmp_path, data="not/there/yet").data == tmp_path / "not" / "there" / "yet"
    for place in ("file", "file/below"):
        line = refusal(tmp_path, data=place)
        assert line == (
            f"data (from PORTICO_DATA) must be a directory: {str(tmp_path / 'file')!r} is not one"
        )


def test_the_file_may_speak_toml_or_text(tmp_path: Path) -> None:
    file = tmp_path / "portico.toml"
    file.write_text(
        'trusted_proxies = ["10.0.0.0/8", "::1"]\ntls = false\nlog_requests = "off"\nport = "443"\n'
    )
    settings = load({}, {}, tmp_path)
    assert settings.trusted_proxies == (ip_network("10.0.0.0/8"), ip_network("::1"))
    assert (settings.tls, settings.log_requests, settings.port) == (False, False, 443)


def test_settings_cannot_be_changed(tmp_path: Path) -> None:
    settings = load({}, {}, tmp_path)
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.port = 1  # type: ignore[misc]  # that is the point
    assert settings.port == 8443


# Unknown settings


def test_an_unknown_variable_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    message = refusal(tmp_path, databse_url="postgresql://u:hunter2@db/portico")
    assert message == ("PORTICO_DATABSE_URL is not a setting: did you mean PORTICO_DATABASE_URL?")
    assert "did you mean" not in refusal(tmp_path, zzzz="1")


def test_what_the_clients_read_beside_a_server_is_no_setting_of_it(tmp_path: Path) -> None:
    theirs = {"PORTICO_API_KEY": "sk_live_1", "PORTICO_CA": "portico-data/tls/ca.pem"}
    assert load({}, theirs, tmp_path) == load({}, {}, tmp_path)
    assert "did you mean PORTICO_API_KEY?" in refusal(tmp_path, api_kye="sk_live_1")


def test_an_unknown_key_is_refused_at_every_level(tmp_path: Path) -> None:
    assert "did you mean base_url?" in refused_file(tmp_path, 'bse_url = "https://a.test/v1"')
    assert "'server'" in refused_file(tmp_path, "[server]\nport = 1")
    assert "did you mean per_minute?" in refused_file(tmp_path, "[plans.free]\nper_minut = 3")


def test_variables_that_kubernetes_adds_are_named_as_such(tmp_path: Path) -> None:
    assert "enableServiceLinks" in refusal(tmp_path, service_host="10.0.0.1")
    message = refusal(tmp_path, port="tcp://10.0.0.1:8443", port_8443_tcp="tcp://10.0.0.1:8443")
    assert "enableServiceLinks" in message


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("api_service_host", "10.0.0.1"),
        ("api_service_port_https", "443"),
        ("postgres_port", "tcp://10.0.0.2:5432"),
        ("postgres_port_5432_tcp_addr", "10.0.0.2"),
        ("http_port_80_tcp", "tcp://10.0.0.1:80"),
    ],
)
def test_what_kubernetes_adds_for_a_service_beside_portico_is_named_too(
    tmp_path: Path, variable: str, value: str
) -> None:
    assert "enableServiceLinks" in refusal(tmp_path, **{variable: value})
    assert "enableServiceLinks" not in refusal(tmp_path, https_port="_SERVICE_HOST=")


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path, config="missing.toml")
    assert "PORTICO_CONFIG" in refusal(tmp_path, config="")
    assert "not TOML" in refused_file(tmp_path, "port 8443")
    assert "not TOML" in refused_file(tmp_path, f"port = {'[' * 9_000}")
    (tmp_path / "portico.toml").write_bytes(b'host = "\xff"')
    assert "not UTF-8" in refusal(tmp_path)


def test_a_link_that_leads_nowhere_is_no_missing_file(tmp_path: Path) -> None:
    (tmp_path / "portico.toml").symlink_to("not mounted/portico.toml")
    assert "portico.toml cannot be read: No such file" in refusal(tmp_path)


def test_a_byte_order_mark_before_the_settings_is_no_setting(tmp_path: Path) -> None:
    (tmp_path / "portico.toml").write_bytes(b"\xef\xbb\xbfport = 1001\r\n")
    assert load({}, {}, tmp_path).port == 1001


# Impossible settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "0"),
        ("port", "65536"),
        ("port", "-1"),
        ("port", "8443.0"),
        ("port", "٨٤٤٣"),
        ("port", "9" * 5000),
        ("port", ""),
        ("site_name", "x" * 51),
        ("site_name", "Acme: Lamps"),
        ("site_name", "Acme\r\nBcc: x"),
        ("http_port", "8443"),
        ("workers", "0"),
        ("workers", "two"),
        ("host", "example.com"),
        ("host", "[::1]"),
        ("host", " "),
        ("data", ""),
        ("data", "a\nb"),
        ("data", "a\0b"),
        ("tls", "true"),
        ("tls_cert", "missing.pem"),
        ("tls_key", "missing.pem"),
        ("log_level", "INFO"),
        ("log_requests", "yes"),
        ("body_limit", "1MiB"),
        ("body_limit", "0"),
        ("trusted_proxies", "10.0.0.1/8"),
        ("trusted_proxies", "10.0.0.0/8,"),
        ("trusted_proxies", "proxy.example.com"),
        ("metrics_allow", "everyone"),
        ("webhooks_allow", "localhost"),
        ("events_days", "6"),
        ("audit_days", "0"),
        ("count_limit", "99"),
        ("audit_archive", "archive"),
        ("cookie_domain", "localhost"),
        ("cookie_domain", "192.0.2.1"),
        ("cookie_domain", "https://example.com"),
        ("cors_origins", "app.example.com"),
        ("cors_origins", "https://app.example.com/"),
        ("cors_origins", "https://app.example.com/path"),
        ("cors_origins", "https://app.example.com,*"),
        ("cors_origins", "https://a.example,,https://b.example"),
        ("cors_origins", "https://*.example.com"),
        ("cors_origins", "https://user@example.com"),
        ("cors_origins", "https://app.example.com:0"),
        ("cors_origins", "ftp://app.example.com"),
        ("cors_origins", "null"),
        ("database_url", "mysql://db/portico"),
        ("database_url", "sqlite:///portico.db"),
        ("database_url", "postgresql://db:port/portico"),
        ("database_url", "postgresql://portico:hush@word@db/portico"),
        ("valkey_url", "valkey://:hush@word@db"),
        ("database_url", ""),
        ("database_read_url", "postgresql://h2/portico"),
        ("database_listen_url", "postgresql://h1/portico"),
        ("valkey_url", "http://valkey"),
        ("valkey_url", "valkey:6379"),
        ("valkey_url", "valkey+sentry://h1/shop"),
        ("valkey_url", "valkey+cluster://h1:6379,h2:port"),
        ("key_prefix", "shop{1}"),
        ("key_prefix", "two words"),
        ("valkey_url", "redis://[::1"),
        ("smtp_url", "mail.example.com:587"),
        ("smtp_url", "https://mail.example.com"),
        ("smtp_url", "smtp://"),
        ("smtp_url", "smtp://user:password@"),
        ("smtp_url", "smtp://user@mail.example.com"),
        ("smtp_url", "smtp://user:pass#word@mail.example.com"),
        ("smtp_url", "smtp://mail.example.com:0"),
        ("smtp_url", "smtp://mail.example.com:65536"),
        ("smtp_url", "smtp://mail.example.com/queue"),
        ("smtp_url", "smtp://mail.example.com?tls=off"),
        ("smtp_url", "smtp://mail server"),
        ("otlp_endpoint", "http://127.0.0.1:4318/v1/traces"),
        ("otlp_endpoint", "https://otel.example.com/otlp/v1/metrics/"),
        ("mail_from", "Portico <portico@example.com>"),
        ("mail_from", "portico@localhost"),
        ("mail_from", ""),
        ("base_url", "http://a.test/v1"),
        ("base_url", "//a.test/v1"),
        ("base_url", "https://"),
        ("base_url", "https:///v1"),
        ("base_url", "https://u@a.test/v1"),
        ("base_url", "https://a.test/v1?"),
        ("base_url", "https://a.test/v1#"),
        ("base_url", "https://a.test:0/v1"),
        ("base_url", "https://a.test:65536/v1"),
        ("base_url", "https://a.test/../v1"),
        ("base_url", "https://a.test//v1"),
        ("base_url", "https://a.test/%761"),
        ("base_url", "https://b\u00fccher.test/v1"),
        ("base_url", "https://\u212a.test/v1"),
        ("base_url", "https://[::1%25eth0]/v1"),
        ("base_url", "https://[1::2::3]/v1"),
        ("dashboard_url", "https://a.test/dash board"),
    ],
)
def test_an_impossible_value_is_refused_by_name_and_origin(
    tmp_path: Path, name: str, value: str
) -> None:
    assert refusal(tmp_path, **{name: value}).startswith(f"{name} (from PORTICO_{name.upper()}) ")


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("database_url", "postgresql://app:p%40ss@h1:5432,[::1]:5433,[::2]/shop?sslmode=require"),
        ("valkey_url", "valkey+sentinel://:word@[::1],h2:26380/shop?db=3"),
    ],
)
def test_a_url_may_name_several_hosts_of_any_kind(tmp_path: Path, name: str, url: str) -> None:
    assert getattr(read(tmp_path, **{name: url}), name) == url


def test_a_refusal_names_the_origin_of_the_setting(tmp_path: Path) -> None:
    assert refusal(tmp_path, {"port": 0}) == (
        "port (from --port) must be a whole number from 1 to 65535, not '0'"
    )
    assert refused_file(tmp_path, "port = true") == (
        f"port (from {tmp_path / 'portico.toml'}) must be a number, not 'True'"
    )


@given(setting=st.sampled_from(SETTINGS), text=st.text())
def test_any_text_is_a_value_or_refused_in_one_line(setting: Setting, text: str) -> None:
    nowhere, message = Path(__file__).parent, ""
    try:
        load({}, {setting.variable: text}, nowhere)
    except SettingError as error:
        message = str(error)
    assert message.isprintable()


@pytest.mark.parametrize(
    "line",
    ["host = 1", "port = 8443.0", 'tls = "maybe"', "tls = 1", "metrics_allow = 7", "[host]",
     "trusted_proxies = [[]]", "data = 2026-01-01"],
)  # fmt: skip
def test_a_value_of_another_type_is_refused(tmp_path: Path, line: str) -> None:
    assert re.match(r"\w+ \(from .*portico\.toml\) must be ", refused_file(tmp_path, line))


def test_an_impossible_value_is_refused_even_where_another_wins(tmp_path: Path) -> None:
    (tmp_path / "portico.toml").write_text("port = 0\n")
    assert "portico.toml" in refusal(tmp_path, {"port": 8443})


def test_the_ends_of_a_range_belong_to_it(tmp_path: Path) -> None:
    settings = read(tmp_path, port="1", http_port="65535")
    assert (settings.port, settings.http_port) == (1, 65535)


def test_spaces_around_an_address_of_a_list_do_not_matter(tmp_path: Path) -> None:
    settings = read(tmp_path, trusted_proxies="192.0.2.7, ::1")
    assert settings.trusted_proxies == (ip_network("192.0.2.7"), ip_network("::1"))


def test_an_empty_list_is_none_of_them(tmp_path: Path) -> None:
    settings = read(tmp_path, metrics_allow="", trusted_proxies="")
    assert (settings.metrics_allow, settings.trusted_proxies) == ((), ())


# Settings that bind each other


def test_several_workers_need_valkey(tmp_path: Path) -> None:
    message = refusal(tmp_path, {"workers": 2})
    assert message.startswith("workers (from --workers)")
    assert "PORTICO_VALKEY_URL" in message
    settings = load({"workers": 2}, {"PORTICO_VALKEY_URL": "redis://localhost:6379/0"}, tmp_path)
    assert (settings.workers, settings.database_url) == (2, None)


def test_tls_may_be_off_only_behind_a_trusted_proxy(tmp_path: Path) -> None:
    assert "PORTICO_TRUSTED_PROXIES" in refusal(tmp_path, tls="off")
    assert "PORTICO_TRUSTED_PROXIES" in refusal(tmp_path, tls="off", trusted_proxies="")
    settings = read(tmp_path, tls="off", trusted_proxies="192.0.2.7")
    assert not settings.tls
    assert settings.base_url == "https://localhost:8443/v1"


def test_certificate_and_key_come_together(tmp_path: Path) -> None:
    (tmp_path / "a.pem").touch()
    assert "needs tls_key" in refusal(tmp_path, tls_cert="a.pem")
    assert "needs tls_cert" in refusal(tmp_path, tls_key="a.pem")
    os.mkfifo(tmp_path / "pipe")
    for other in ("pipe", "."):
        assert "is not a regular file" in refusal(tmp_path, tls_cert="a.pem", tls_key=other)


def test_a_mail_server_needs_a_sender(tmp_path: Path) -> None:
    assert "PORTICO_MAIL_FROM" in refusal(tmp_path, smtp_url="smtps://mail.example.com")
    settings = read(
        tmp_path, smtp_url="smtp://app:p%40ss@[::1]:2525/", mail_from="portico@example.com"
    )
    assert settings.smtp_url == "smtp://app:p%40ss@[::1]:2525/"
    assert read(tmp_path, mail_from="portico@example.com").smtp_url is None


def test_signing_up_needs_a_role_that_is_not_admin(tmp_path: Path) -> None:
    said = refusal(tmp_path, sign_up="on")
    assert said.startswith("sign_up (from PORTICO_SIGN_UP) needs a role")
    assert "PORTICO_SIGN_UP_ROLE" in said
    assert "must be" in refusal(tmp_path, sign_up="on", sign_up_role="admin")
    assert read(tmp_path, sign_up="on", sign_up_role="editor").sign_up_role == "editor"
    assert read(tmp_path, sign_up_role="viewer").sign_up is False


# Addresses


def addresses(settings: Settings) -> tuple[str, ...]:
    return (
        settings.base_url,
        settings.sandbox_url,
        settings.auth_url,
        settings.sandbox_auth_url,
        settings.dashboard_url,
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "127.0.0.1", "localhost"])  # noqa: S104 - read, not bound
def test_unset_addresses_follow_the_port_under_the_name_localhost(
    tmp_path: Path, host: str
) -> None:
    assert addresses(load({"host": host, "port": 9443}, {}, tmp_path)) == (
        "https://localhost:9443/v1",
        "https://localhost:9443/sandbox/v1",
        "https://localhost:9443/auth",
        "https://localhost:9443/sandbox/auth",
        "https://localhost:9443/dashboard",
    )


def test_unset_addresses_follow_the_host_and_leave_out_port_443(tmp_path: Path) -> None:
    settings = load({"host": "2001:DB8:0::7", "port": 443}, {}, tmp_path)
    assert settings.base_url == "https://[2001:db8::7]/v1"
    assert load({"host": "192.0.2.7"}, {}, tmp_path).auth_url == "https://192.0.2.7:8443/auth"


def test_localhost_is_listened_to_by_its_address(tmp_path: Path) -> None:
    assert load({"host": "localhost"}, {}, tmp_path).host == "127.0.0.1"


def test_the_sandbox_of_the_authorization_server_follows_it(tmp_path: Path) -> None:
    settings = read(tmp_path, auth_url="https://a.test:444/x/auth")
    assert settings.sandbox_auth_url == "https://a.test:444/sandbox/x/auth"
    assert read(tmp_path, auth_url="https://a.test").sandbox_auth_url == "https://a.test/sandbox"


def test_an_address_is_kept_in_one_spelling(tmp_path: Path) -> None:
    assert read(tmp_path, base_url="HTTPS://API.Example.com:443/V1//").base_url == (
        "https://api.example.com/V1"
    )
    assert read(tmp_path, auth_url="https://[0:0::1]:444/").auth_url == "https://[::1]:444"


@pytest.mark.parametrize(
    ("one", "other"), [("sandbox_url", "base_url"), ("dashboard_url", "auth_url")]
)
def test_two_addresses_may_not_be_the_same(tmp_path: Path, one: str, other: str) -> None:
    message = refusal(tmp_path, **{one: "https://a.test/v1", other: "https://A.test:443/v1/"})
    assert "must differ" in message
    assert f"{one} (from PORTICO_{one.upper()})" in message


def test_no_address_lies_within_an_api(tmp_path: Path) -> None:
    inside = "https://localhost:8443/v1/users"
    for name in ("sandbox_url", "auth_url", "dashboard_url"):
        assert f"{name} (from" in refusal(tmp_path, **{name: inside})
    assert read(tmp_path, sandbox_url="https://localhost:8443/v1test").sandbox_url.endswith(
        "/v1test"
    )


def test_an_address_may_lie_within_what_is_no_api(tmp_path: Path) -> None:
    settings = read(tmp_path, dashboard_url="https://localhost:8443/")
    assert settings.dashboard_url == "https://localhost:8443"


def test_origins_are_spelled_as_browsers_spell_them(tmp_path: Path) -> None:
    given = "https://App.example:443, http://localhost:5173,http://[::1]:80"
    expected = ("https://app.example", "http://localhost:5173", "http://[::1]")
    assert read(tmp_path, cors_origins=given).cors_origins == expected
    assert read(tmp_path, cors_origins="*").cors_origins == ("*",)
    assert read(tmp_path).cors_origins == ()


def test_the_hosts_of_the_addresses_are_those_a_certificate_names(tmp_path: Path) -> None:
    settings = load(
        {"host": "::1"}, {"PORTICO_BASE_URL": "https://api.example.com:444/v1"}, tmp_path
    )
    assert settings.host_names == {"::1", "api.example.com"}


def test_the_shared_cookie_reaches_every_address_given(tmp_path: Path) -> None:
    domain = ".Example.com"
    settings = read(tmp_path, cookie_domain=domain, base_url="https://api.example.com/v1")
    assert settings.cookie_domain == "example.com"
    read(tmp_path, cookie_domain=domain, dashboard_url="https://example.com/d")
    for outside in ("https://api.badexample.com/v1", "https://example.com.test/v1"):
        assert "cookie_domain" in refusal(tmp_path, cookie_domain=domain, base_url=outside)


# Plans


def plans_of(cwd: Path, text: str) -> Mapping[str, Plan]:
    (cwd / "portico.toml").write_text(text)
    return load({}, {}, cwd).plans


def test_a_plan_may_change_in_part(tmp_path: Path) -> None:
    plans = plans_of(tmp_path, "[plans.free]\nper_minute = 5\n[plans.pro]\n")
    assert plans["free"] == Plan("free", 5, DEFAULT_PLANS["free"].per_day)
    assert plans["pro"] == DEFAULT_PLANS["pro"]
    assert DEFAULT_PLANS["free"].per_minute == 30


def test_a_new_plan_stands_beside_the_defaults(tmp_path: Path) -> None:
    plans = plans_of(tmp_path, "[plans.partner-2]\nper_minute = 5\nper_day = 6\n")
    assert plans == {**DEFAULT_PLANS, "partner-2": Plan("partner-2", 5, 6)}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[plans.gold]\nper_minute = 5", "plans.gold is a new plan and needs per_day too"),
        ("[plans.free]\nper_day = 0", "plans.free.per_day must be a whole number"),
        ("[plans.free]\nper_day = true", "plans.free.per_day must be a whole number"),
        ("[plans.free]\nper_day = 1.5", "plans.free.per_day must be a whole number"),
        ('[plans.free]\nper_day = "9"', "plans.free.per_day must be a whole number"),
        ('[plans."Gold Plan"]\nper_minute = 5', "'Gold Plan'"),
        ("plans = 3", "plans must be tables"),
        ("[plans]\nfree = 3", "plans.free must be a table"),
    ],
)
def test_an_impossible_plan_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    assert fault in refused_file(tmp_path, text)


# Secrets


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://app:hunter2@db:5432/p", "postgresql://app:***@db:5432/p"),
        ("postgresql://app@db/p", "postgresql://***@db/p"),
        ("postgresql://db/p?password=hunter2", "postgresql://db/p?***"),
        ("postgresql://db/p?password=hun@ter2", "postgresql://***"),
        ("redis://:hunter2@valkey", "redis://:***@valkey"),
        ("valkey://valkey:6379/0", "valkey://valkey:6379/0"),
        ("app:hunter2@db", "app:***@db"),
    ],
)
def test_a_redacted_url_shows_the_place_and_not_the_secret(url: str, shown: str) -> None:
    assert redacted(url) == shown


@given(before=st.text(), after=st.text(), scheme=st.sampled_from(["postgresql", "redis"]))
def test_no_password_survives_redaction(before: str, after: str, scheme: str) -> None:
    assert "hunter2" not in redacted(f"{scheme}://app:{before}hunter2{after}@db/portico")


@pytest.mark.parametrize("name", ["database_url", "valkey_url", "smtp_url"])
@pytest.mark.parametrize(
    "url",
    ["postgresql://u:hunter2@db/p", "redis://u:hunter2@valkey", "postgres://u:hunter2/x@db/p",
     "redis://u:hunter2/x@db/p", "http://u:hunter2@db", "smtp://u:hunter2@mail",
     "smtp://u:hunter2#x@mail", "hunter2", "hunter2\n"],
)  # fmt: skip
def test_no_secret_shows_in_a_refusal_or_in_the_settings(
    tmp_path: Path, name: str, url: str
) -> None:
    try:
        text = repr(read(tmp_path, mail_from="portico@example.com", **{name: url}))
        assert "u:***@" in text
    except SettingError as error:
        text = str(error)
    assert "hunter2" not in text


def test_a_secret_in_the_wrong_setting_does_not_show(tmp_path: Path) -> None:
    assert "hunter2" not in refusal(tmp_path, host="postgresql://u:hunter2@db/p")
    assert "hunter2" not in refusal(tmp_path, base_url="https://u:hunter2@a.test/v1")


SECRET = "0123456789abcdef" * 4
OTHER = "ab" * 32


def test_the_installations_secret_is_64_hexadecimal_digits(tmp_path: Path) -> None:
    assert read(tmp_path, secret_key=SECRET.upper()).secret_key == (SECRET,)
    assert SECRET not in repr(read(tmp_path, secret_key=SECRET))
    for wrong in (SECRET[:-1], SECRET + "0", f"g{SECRET[1:]}", f"{OTHER},{SECRET[1:]}"):
        said = refusal(tmp_path, secret_key=wrong)
        assert "PORTICO_SECRET_KEY) must be 64 hexadecimal digits" in said
        assert wrong[1:-1] not in said


def test_a_secret_that_replaces_another_stands_before_it(tmp_path: Path) -> None:
    for between in (",", ", ", " "):
        both = read(tmp_path, secret_key=f"{SECRET}{between}{OTHER.upper()}").secret_key
        assert both == (SECRET, OTHER)
    said = refusal(tmp_path, secret_key=f"{SECRET},{SECRET.upper()}")
    assert "must not hold the same secret twice" in said
    assert SECRET not in said
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n{OTHER}\n")
    assert found_secrets(read(tmp_path, secret_key_file="secret")) == (
        SECRET.encode(),
        OTHER.encode(),
    )
    file.write_text(f"{SECRET}\n{OTHER[1:]}\n")
    assert "must be 64 hexadecimal digits" in refusal(tmp_path, secret_key_file="secret")


def test_the_secrets_file_is_read_and_one_source_alone_gives_it(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    assert "PORTICO_SECRET_KEY_FILE) cannot be read" in refusal(tmp_path, secret_key_file="secret")
    os.mkfifo(tmp_path / "pipe")
    for other in ("pipe", "."):
        said = refusal(tmp_path, secret_key_file=other)
        assert "PORTICO_SECRET_KEY_FILE) is not a regular file" in said
    file.write_bytes(b"\xff hunter2\n")
    said = refusal(tmp_path, secret_key_file="secret")
    assert "secret' must be 64 hexadecimal digits" in said
    assert "hunter2" not in said
    file.write_text(f"{SECRET}\n")
    assert read(tmp_path, secret_key_file="secret").secret_key_file == file
    said = refusal(tmp_path, secret_key_file="secret", secret_key=SECRET)
    assert "PORTICO_SECRET_KEY_FILE) and secret_key (from PORTICO_SECRET_KEY) both give" in said
    assert SECRET not in said


# The table


def test_key_variable_and_flag_of_a_setting_follow_from_its_name(tmp_path: Path) -> None:
    setting = next(setting for setting in SETTINGS if setting.name == "database_url")
    assert (setting.variable, setting.flag) == ("PORTICO_DATABASE_URL", "--database-url")
    beside = ("plans", "providers", "secrets_file")
    assert sorted([*(setting.name for setting in SETTINGS), *beside]) == sorted(
        field.name for field in dataclasses.fields(load({}, {}, tmp_path))
    )


def test_the_tables_have_one_row_for_each_setting() -> None:
    lines = markdown_tables().splitlines()
    rows = [line for line in lines if line.startswith("| `")]
    assert len(rows) == len(SETTINGS)
    for row, setting in zip(rows, SETTINGS, strict=True):
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        default = f"`{setting.default}`" if setting.default else ""
        assert cells == [f"`{setting.name}`", default, setting.description]


def test_a_default_written_out_as_a_setting_changes_nothing(tmp_path: Path) -> None:
    defaults = {setting.name: setting.default for setting in SETTINGS if setting.default}
    written = "".join(f'{name} = "{default}"\n' for name, default in defaults.items())
    assert tomllib.loads(written) == defaults
    before = load({}, {}, tmp_path)
    (tmp_path / "portico.toml").write_text(written)
    assert load({}, {}, tmp_path) == before


PROVIDER = (
    '[sign_in.corp]\nissuer = "https://id.example.com"\nclient_id = "c"\nclient_secret = "hush"\n'
)


@pytest.mark.parametrize(
    ("text", "is_secret"),
    [
        (PROVIDER, True),
        (f'secret_key = "{SECRET}"', True),
        ('database_url = "postgresql://portico:hush@db/portico"', True),
        ('database_url = "postgresql://portico@db/portico"', False),
        ('valkey_url = "redis://10.0.0.7:6379/0"\nport = 9000', False),
        ("[plans.free]\nper_minute = 1", False),
        ("", False),
    ],
)
def test_a_file_that_holds_a_secret_is_known(tmp_path: Path, text: str, *, is_secret: bool) -> None:
    file = tmp_path / "portico.toml"
    file.write_text(text)
    assert read(tmp_path).secrets_file == (file if is_secret else None)


def test_a_provider_needs_three_lines(tmp_path: Path) -> None:
    (tmp_path / "portico.toml").write_text(PROVIDER)
    settings = read(tmp_path)
    (provider,) = settings.providers
    assert provider.label == "Corp"
    assert (provider.domains, provider.create_users, provider.role) == ((), False, "viewer")
    assert "hush" not in repr(settings)
    assert "hush" not in repr(provider)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('sign_in = "corp"', "must be tables"),
        ("[sign_in.Corp]", "must be named"),
        ("[sign_in]\ncorp = 1", "sign_in.corp must be a table"),
        ('[sign_in.corp]\nissuer = "https://id.example.com"', "needs client_id and client_secret"),
        (f"{PROVIDER}secret = 1", "'secret' is not a setting of sign_in.corp: did you mean"),
        (f"{PROVIDER}role = 'owner'", "sign_in.corp.role must be one of"),
        (f"{PROVIDER}create_users = 'yes'", "sign_in.corp.create_users must be true or false"),
        (f"{PROVIDER}domains = 'example.com'", "sign_in.corp.domains must be a list"),
        (f"{PROVIDER}domains = []", "sign_in.corp.domains must be a list"),
        (f"{PROVIDER}domains = ['nowhere']", "sign_in.corp.domains must be a domain name"),
        (f"{PROVIDER}domains = ['münchen.de']", "in its ASCII form, such as xn--mnchen-3ya.de"),
        (f"{PROVIDER}label = ' '", "sign_in.corp.label must be text"),
        (PROVIDER.replace('"hush"', "5"), "sign_in.corp.client_secret must be text"),
        (PROVIDER + PROVIDER.replace("corp", "other"), "must differ from other providers'"),
        *(
            (PROVIDER.replace("https://id.example.com", issuer), "sign_in.corp.issuer must be")
            for issuer in (
                "http://id.example.com",
                "http://10.0.0.1",
                "https://",
                "https://a@b",
                "https://a.example.com/?x",
                "https://a.example.com/#x",
                "https://[",
                "ftp://a.example.com",
            )
        ),
    ],
)
def test_a_provider_that_cannot_be_is_refused(tmp_path: Path, text: str, words: str) -> None:
    message = refused_file(tmp_path, text)
    assert words in message
    assert "hush" not in message


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost", "[::1]:1"])
def test_a_provider_on_this_machine_needs_no_tls(tmp_path: Path, host: str) -> None:
    (tmp_path / "portico.toml").write_text(
        PROVIDER.replace("https://id.example.com", f"http://{host}/realm")
    )
    assert read(tmp_path).providers[0].issuer == f"http://{host}/realm"
