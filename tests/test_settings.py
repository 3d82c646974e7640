"""Settings: where they come from, which wins, and how an impossible one is refused."""

from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portico.core.plans import DEFAULT_PLANS, Plan
from portico.secret_file import found_secrets
from portico.settings import SETTINGS, SettingError, Settings, load
from portico.settings.declaring import Setting
from portico.settings.values import redacted

Flags = Mapping[str, str | int | None]
SECRET = "0123456789abcdef" * 4


IMPOSSIBLE = {
    "port": ("0", "65536", "8443.0", "٨٤٤٣", "9" * 5000, ""),
    "site_name": ("x" * 51, "Acme\r\nBcc: x"),
    "http_port": ("8443",),
    "workers": ("0", "two"),
    "host": ("example.com", "[::1]"),
    "data": ("", "a\0b"),
    "tls": ("true",),
    "tls_cert": ("missing.pem",),
    "log_level": ("INFO",),
    "body_limit": ("1MiB", "0"),
    "trusted_proxies": ("10.0.0.1/8", "10.0.0.0/8,", "proxy.example.com"),
    "metrics_allow": ("everyone",),
    "webhooks_allow": ("localhost",),
    "events_days": ("6",),
    "audit_days": ("0",),
    "count_limit": ("99",),
    "audit_archive": ("archive",),
    "cookie_domain": ("localhost", "192.0.2.1", "https://example.com"),
    "cors_origins": ("app.example.com", "https://a.example/path", "https://a.example,*", "null",
                     "https://*.example.com", "https://user@a.example", "ftp://a.example"),
    "database_url": ("mysql://db/portico", "postgresql://portico:hush@word@db/portico", ""),
    "database_read_url": ("postgresql://h2/portico",),
    "valkey_url": ("http://valkey", "valkey:6379", "valkey+cluster://h1:6379,h2:port"),
    "key_prefix": ("shop{1}",),
    "smtp_url": ("mail.example.com:587", "smtp://", "smtp://user@mail.example.com",
                 "smtp://mail.example.com:0", "smtp://mail.example.com?tls=off"),
    "otlp_endpoint": ("http://127.0.0.1:4318/v1/traces",),
    "mail_from": ("Portico <portico@example.com>", "portico@localhost"),
    "base_url": ("http://a.test/v1", "https:///v1", "https://u@a.test/v1", "https://a.test/v1?",
                 "https://a.test:0/v1", "https://a.test/../v1", "https://a.test/%761",
                 "https://b\u00fccher.test/v1", "https://[::1%25eth0]/v1"),
}  # fmt: skip


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


def test_a_variable_overrides_the_file_and_a_flag_overrides_both(tmp_path: Path) -> None:
    (tmp_path / "portico.toml").write_text('port = 1001\nhost = "192.0.2.1"\nworkers = 1\n')
    environ = {"PORTICO_PORT": "1002", "PORTICO_HOST": "192.0.2.2"}
    settings = load({"port": 1003, "host": None}, environ, tmp_path)
    assert (settings.port, settings.host, settings.workers) == (1003, "192.0.2.2", 1)


# Unknown settings


def test_an_unknown_variable_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    message = refusal(tmp_path, databse_url="postgresql://u:hunter2@db/portico")
    assert message == ("PORTICO_DATABSE_URL is not a setting: did you mean PORTICO_DATABASE_URL?")
    assert "did you mean" not in refusal(tmp_path, zzzz="1")


def test_what_the_clients_read_beside_a_server_is_no_setting_of_it(tmp_path: Path) -> None:
    theirs = {"PORTICO_API_KEY": "sk_live_1", "PORTICO_CA": "portico-data/tls/ca.pem"}
    assert load({}, theirs, tmp_path) == load({}, {}, tmp_path)
    assert "did you mean PORTICO_API_KEY?" in refusal(tmp_path, api_kye="sk_live_1")


def test_variables_that_kubernetes_adds_are_named_as_such(tmp_path: Path) -> None:
    assert "enableServiceLinks" in refusal(tmp_path, service_host="10.0.0.1")
    assert "enableServiceLinks" in refusal(tmp_path, http_port_80_tcp="tcp://10.0.0.1:80")
    assert "enableServiceLinks" in refusal(tmp_path, postgres_port_5432_tcp_addr="10.0.0.2")
    assert "enableServiceLinks" not in refusal(tmp_path, https_port="_SERVICE_HOST=")


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path, config="missing.toml")
    assert "PORTICO_CONFIG" in refusal(tmp_path, config="")
    assert "not TOML" in refused_file(tmp_path, "port 8443")
    assert "not TOML" in refused_file(tmp_path, f"port = {'[' * 9_000}")
    (tmp_path / "portico.toml").write_bytes(b'host = "\xff"')
    assert "not UTF-8" in refusal(tmp_path)


# Impossible settings


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


def test_the_shared_cookie_reaches_every_address_given(tmp_path: Path) -> None:
    domain = ".Example.com"
    settings = read(tmp_path, cookie_domain=domain, base_url="https://api.example.com/v1")
    assert settings.cookie_domain == "example.com"
    read(tmp_path, cookie_domain=domain, dashboard_url="https://example.com/d")
    for outside in ("https://api.badexample.com/v1", "https://example.com.test/v1"):
        assert "cookie_domain" in refusal(tmp_path, cookie_domain=domain, base_url=outside)


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


@pytest.mark.parametrize("name", ["database_url", "valkey_url", "smtp_url"])
@pytest.mark.parametrize(
    "url",
    ["postgresql://u:hunter2@db/p", "postgres://u:hunter2/x@db/p", "redis://u:hunter2@valkey",
     "smtp://u:hunter2@mail", "smtp://u:hunter2#x@mail", "hunter2\n"],
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


PROVIDER = (
    '[sign_in.corp]\nissuer = "https://id.example.com"\nclient_id = "c"\nclient_secret = "hush"\n'
)


def test_new_accounts_may_get_a_role_of_the_teams_own(tmp_path: Path) -> None:
    own = "[roles.customer]\nscopes = []\n"
    (tmp_path / "portico.toml").write_text(own + PROVIDER + 'role = "customer"')
    settings = read(tmp_path, sign_up="on", sign_up_role="customer")
    assert (settings.sign_up_role, settings.providers[0].role) == ("customer", "customer")
    (tmp_path / "portico.toml").unlink()
    with pytest.raises(SettingError, match="must be one of editor, viewer, not 'customer'"):
        read(tmp_path, sign_up="on", sign_up_role="customer")


def test_a_provider_needs_three_lines(tmp_path: Path) -> None:
    (tmp_path / "portico.toml").write_text(PROVIDER)
    settings = read(tmp_path)
    (provider,) = settings.providers
    assert provider.label == "Corp"
    assert (provider.domains, provider.create_users, provider.role) == ((), False, "viewer")
    assert "hush" not in repr(settings)
    assert "hush" not in repr(provider)


def test_file_may_be_named_and_speak_toml_or_text(tmp_path: Path) -> None:
    (tmp_path / "portico.toml").write_text("port = 1001\n")
    (tmp_path / "other.toml").write_bytes(
        b'\xef\xbb\xbftrusted_proxies = ["10.0.0.0/8", "::1"]\r\ntls = false\nhttp_port = "80"\n'
    )
    settings = load({}, {"PORTICO_CONFIG": "other.toml"}, tmp_path)
    assert (settings.port, settings.http_port, settings.tls) == (8443, 80, False)
    assert settings.trusted_proxies == (ip_network("10.0.0.0/8"), ip_network("::1"))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('bse_url = "https://a.test/v1"', "did you mean base_url?"),
        ("[server]\nport = 1", "'server'"),
        ("[plans.free]\nper_minut = 3", "did you mean per_minute?"),
        ("[plans.gold]\nper_minute = 5", "plans.gold is a new plan and needs per_day too"),
        ("[plans.free]\nper_day = 0", "plans.free.per_day must be a whole number"),
        ("[plans.free]\nper_day = true", "plans.free.per_day must be a whole number"),
        ('[plans."Gold Plan"]\nper_minute = 5', "Gold Plan"),
        ("[plans]\nfree = 3", "plans.free must be a table"),
        ("host = 1", "host (from "),
        ("port = 8443.0", "port (from "),
        ('tls = "maybe"', "tls (from "),
        ("trusted_proxies = [[]]", "trusted_proxies (from "),
        ('sign_in = "corp"', "must be tables"),
        ("[sign_in.Corp]", "must be named"),
        ('[sign_in.corp]\nissuer = "https://id.example.com"', "needs client_id and client_secret"),
        ("PROVIDERsecret = 1", "'secret' is not a setting of sign_in.corp: did you mean"),
        ("PROVIDERrole = 'owner'", "sign_in.corp.role must be one of"),
        ("PROVIDERcreate_users = 'yes'", "sign_in.corp.create_users must be true or false"),
        ("PROVIDERdomains = ['nowhere']", "sign_in.corp.domains must be a domain name"),
        ("PROVIDERdomains = ['münchen.de']", "in its ASCII form, such as xn--mnchen-3ya.de"),
        ("PROVIDERissuer = 1", "not TOML"),
        ("PROVIDERpreset = 'gitlab'", "sign_in.corp.preset must be one of github"),
        ("PROVIDERpreset = 1", "sign_in.corp.preset must be one of github"),
        ("PROVIDERpreset = ['github']", "sign_in.corp.preset must be one of github"),
        ("PROVIDERuser_endpoint = 'https://a.test/'", "'user_endpoint' is not a setting"),
        ("[sign_in.github]\npreset = 'github'", "needs client_id and client_secret too"),
        (
            "PROVIDERpreset = 'github'\ntoken_endpoint = 'http://a.test/'",
            "sign_in.corp.token_endpoint must be an https:// address",
        ),
        ("PROVIDERpreset = 'github'\nsubject_field = ''", "sign_in.corp.subject_field must be"),
    ],
)
def test_impossible_line_of_the_file_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    message = refused_file(tmp_path, text.replace("PROVIDER", PROVIDER))
    assert fault in message
    assert "hush" not in message


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, some in IMPOSSIBLE.items() for value in some]
)
def test_impossible_value_is_refused_by_name_and_origin(
    tmp_path: Path, name: str, value: str
) -> None:
    assert refusal(tmp_path, **{name: value}).startswith(f"{name} (from PORTICO_{name.upper()}) ")


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"trusted_proxies": "192.0.2.7, ::1"}, "trusted_proxies",
         (ip_network("192.0.2.7"), ip_network("::1"))),
        ({"metrics_allow": ""}, "metrics_allow", ()),
        ({"host": "localhost"}, "host", "127.0.0.1"),
        ({"host": "::", "port": "9443"}, "base_url", "https://localhost:9443/v1"),
        ({"host": "127.0.0.1", "port": "9443"}, "auth_url", "https://localhost:9443/auth"),
        ({"host": "2001:DB8:0::7", "port": "443"}, "base_url", "https://[2001:db8::7]/v1"),
        ({"auth_url": "https://a.test:444/x/auth"}, "sandbox_auth_url",
         "https://a.test:444/sandbox/x/auth"),
        ({"base_url": "HTTPS://API.Example.com:443/V1//"}, "base_url", "https://api.example.com/V1"),
        ({"auth_url": "https://[0:0::1]:444/"}, "auth_url", "https://[::1]:444"),
        ({"dashboard_url": "https://localhost:8443/"}, "dashboard_url", "https://localhost:8443"),
        ({"sandbox_url": "https://localhost:8443/v1test"}, "sandbox_url",
         "https://localhost:8443/v1test"),
        ({"cors_origins": "https://App.example:443, http://[::1]:80"}, "cors_origins",
         ("https://app.example", "http://[::1]")),
        ({"host": "::1", "base_url": "https://api.example.com:444/v1"}, "host_names",
         {"::1", "api.example.com"}),
        ({"valkey_url": "valkey+sentinel://:word@[::1],h2:26380/shop?db=3"}, "valkey_url",
         "valkey+sentinel://:word@[::1],h2:26380/shop?db=3"),
        ({"workers": "2", "valkey_url": "redis://localhost:6379/0"}, "workers", 2),
        ({"tls": "off", "trusted_proxies": "192.0.2.7"}, "tls", False),
        ({"sign_up": "on", "sign_up_role": "editor"}, "sign_up", True),
        ({"secret_key": "AB" * 32 + ", " + "cd" * 32}, "secret_key", ("ab" * 32, "cd" * 32)),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value),
)  # fmt: skip
def test_value_is_kept_in_one_spelling(
    tmp_path: Path, given: dict[str, str], name: str, value: object
) -> None:
    assert getattr(read(tmp_path, **given), name) == value


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"workers": "2"}, "PORTICO_VALKEY_URL"),
        ({"tls": "off"}, "PORTICO_TRUSTED_PROXIES"),
        ({"tls": "off", "trusted_proxies": ""}, "PORTICO_TRUSTED_PROXIES"),
        ({"tls_cert": "a.pem"}, "needs tls_key"),
        ({"tls_key": "a.pem"}, "needs tls_cert"),
        ({"tls_cert": "a.pem", "tls_key": "."}, "is not a regular file"),
        ({"smtp_url": "smtps://mail.example.com"}, "PORTICO_MAIL_FROM"),
        ({"sign_up": "on"}, "PORTICO_SIGN_UP_ROLE"),
        ({"sign_up": "on", "sign_up_role": "admin"}, "must be"),
        ({"sandbox_url": "https://a.test/v1", "base_url": "https://A.test:443/v1/"}, "must differ"),
        ({"dashboard_url": "https://localhost:8443/v1/users"}, "dashboard_url (from"),
        ({"data": "a.pem"}, "must be a directory"),
        ({"secret_key": "ab" * 31}, "PORTICO_SECRET_KEY) must be 64 hexadecimal digits"),
        ({"secret_key": f"{'ab' * 32},{'AB' * 32}"}, "must not hold the same secret twice"),
        ({"secret_key_file": "missing"}, "PORTICO_SECRET_KEY_FILE) cannot be read"),
        ({"secret_key_file": "a.pem"}, "must be 64 hexadecimal digits"),
        ({"secret_key_file": "secret", "secret_key": "ab" * 32}, "both give"),
    ],
    ids=str,
)
def test_settings_that_contradict_each_other_or_lack_one_are_refused(
    tmp_path: Path, given: dict[str, str], fault: str
) -> None:
    (tmp_path / "a.pem").touch()
    (tmp_path / "secret").write_text("ab" * 32)
    said = refusal(tmp_path, **given)
    assert fault in said
    assert "abab" not in said.lower()


def test_secret_file_gives_the_present_and_the_former_secret(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n{'ab' * 32}\n")
    found = found_secrets(read(tmp_path, secret_key_file="secret"))
    assert found == (SECRET.encode(), b"ab" * 32)
    assert SECRET not in repr(read(tmp_path, secret_key=SECRET))


def test_plan_may_change_in_part_and_a_new_one_stands_beside_the_defaults(tmp_path: Path) -> None:
    text = "[plans.free]\nper_minute = 5\n[plans.partner-2]\nper_minute = 5\nper_day = 6\n"
    (tmp_path / "portico.toml").write_text(text)
    plans = read(tmp_path).plans
    changed = Plan("free", 5, DEFAULT_PLANS["free"].per_day)
    assert plans == {**DEFAULT_PLANS, "free": changed, "partner-2": Plan("partner-2", 5, 6)}


@pytest.mark.parametrize(
    ("text", "is_secret"),
    [
        (PROVIDER, True),
        (f'secret_key = "{SECRET}"', True),
        ('database_url = "postgresql://portico:hush@db/portico"', True),
        ('database_url = "postgresql://portico@db/portico"', False),
        ("[plans.free]\nper_minute = 1", False),
    ],
)
def test_file_that_holds_a_secret_is_known(tmp_path: Path, text: str, *, is_secret: bool) -> None:
    file = tmp_path / "portico.toml"
    file.write_text(text)
    assert read(tmp_path).secrets_file == (file if is_secret else None)


@pytest.mark.parametrize(
    ("issuer", "is_issuer"),
    [("http://127.0.0.1:8080/realm", True), ("http://localhost/realm", True),
     ("http://id.example.com", False), ("https://a@b", False), ("https://a.example.com/?x", False)],
)  # fmt: skip
def test_issuer_is_an_https_address_or_on_this_machine(
    tmp_path: Path, issuer: str, *, is_issuer: bool
) -> None:
    text = PROVIDER.replace("https://id.example.com", issuer)
    if is_issuer:
        (tmp_path / "portico.toml").write_text(text)
        assert read(tmp_path).providers[0].issuer == issuer
    else:
        assert "sign_in.corp.issuer must be" in refused_file(tmp_path, text)
