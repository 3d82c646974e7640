"""What users see: names, settings from the environment, and nothing that is secret."""

import inspect
import logging
import re
import subprocess
import sys
import traceback
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

import portico_client
from client.scripted import KEY, PLACE, Scripted, answer, refusal
from client.test_client_sign_in import ME
from documents import ROOT
from oauth.authority import Authority
from portico_client import (
    APIError,
    AsyncClient,
    AsyncEventStream,
    AsyncOAuthApp,
    AsyncTokenVerifier,
    Client,
    ConnectionFailed,
    EventStream,
    Login,
    OAuthApp,
    OAuthTokens,
    SessionLogin,
    TokenVerifier,
    UntrustedCertificate,
)
from portico_client import async_client as asynchronous
from portico_client import client as blocking

SECRET = "s3cr3t-that-nobody-may-see"

PAIRS: list[tuple[Any, Any]] = [
    (blocking.Client, asynchronous.AsyncClient),
    (blocking.Products, asynchronous.AsyncProducts),
    (blocking.Users, asynchronous.AsyncUsers),
    (blocking.ApiKeys, asynchronous.AsyncApiKeys),
    (blocking.Listing, asynchronous.AsyncListing),
    (blocking.Events, asynchronous.AsyncEvents),
    (blocking.EventListing, asynchronous.AsyncEventListing),
    (blocking.Webhooks, asynchronous.AsyncWebhooks),
    (EventStream, AsyncEventStream),
    (OAuthApp, AsyncOAuthApp),
    (TokenVerifier, AsyncTokenVerifier),
]


def public(kind: Any) -> dict[str, Any]:
    """The functions of a class that are for its users, `__init__` among them."""
    members = inspect.getmembers(kind, inspect.isfunction)
    return {name: one for name, one in members if not name.startswith("_") or name == "__init__"}


@pytest.mark.parametrize(("face", "other"), PAIRS, ids=lambda kind: kind.__name__)
def test_both_faces_have_the_same_calls(face: Any, other: Any) -> None:
    ours, theirs = public(face), public(other)
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert inspect.getdoc(ours[name]) == inspect.getdoc(theirs[name]), name
        one, two = (
            re.sub(r"\bAsync", "", str(inspect.signature(function)))
            for function in (ours[name], theirs[name])
        )
        assert re.sub(r"async_client", "client", two) == one, name


def test_the_public_names_are_these() -> None:
    named = set(portico_client.__all__)
    assert sorted(named) == portico_client.__all__, "sorted"
    assert all(hasattr(portico_client, name) for name in named)
    kinds = {
        name
        for name, value in vars(portico_client).items()
        if isinstance(value, type) and value.__module__.startswith("portico_client")
    }
    assert kinds <= named
    both = {kind.__name__ for pair in PAIRS for kind in pair}
    assert both <= named
    with pytest.raises(AttributeError, match="Verifier"):
        portico_client.Verifier  # type: ignore[attr-defined]  # noqa: B018 - the look-up is the test


def test_the_library_works_without_the_packages_for_tokens() -> None:
    program = """
import sys
sys.modules["joserfc"] = None
import portico_client
app = portico_client.OAuthApp("id", redirect_uri="https://shop.example/cb")
assert app.begin("read:products").url
everything = {}
exec("from portico_client import *", everything)
assert everything["OAuthApp"] and "TokenVerifier" not in everything
for use in (lambda: app.begin("openid"), lambda: portico_client.TokenVerifier):
    try:
        use()
    except ImportError as error:
        assert "extra [jwt]" in str(error)
    else:
        raise SystemExit("no error")
assert not [name for name in sys.modules if name.split(".")[0] in ("portico", "cryptography")]
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_everything_comes_from_the_environment(
    served: Authority, ca: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTICO_API_KEY", served.installation.key)
    monkeypatch.setenv("PORTICO_BASE_URL", f"{served.api}/")
    monkeypatch.setenv("PORTICO_CA", ca)
    with Client() as client:
        assert client.me().role == "admin"
    person = served.person()
    with Client(auth=Login(person.email, person.password)) as client:
        assert client.me().id == person.id, "what is given wins"


def sent(
    monkeypatch: pytest.MonkeyPatch, base_url: str | None = None, **variables: str
) -> list[str]:
    """The addresses of a login and a call with these variables."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    tokens = {"access_token": "a", "refresh_token": "r", "token_type": "Bearer", "expires_in": 60}
    script = Scripted(answer(200, tokens), ME)
    login = Login("ada@example.com", SECRET)
    with Client(auth=login, base_url=base_url, transport=script) as client:
        client.me()
    return [str(request.url) for request in script.requests]


def test_addresses_have_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sent(monkeypatch) == [
        "https://localhost:8443/auth/login",
        "https://localhost:8443/v1/users/me",
    ]
    assert sent(monkeypatch, PORTICO_BASE_URL="https://api.example/sandbox/v1") == [
        "https://api.example/sandbox/auth/login",
        "https://api.example/sandbox/v1/users/me",
    ]
    assert sent(monkeypatch, PORTICO_BASE_URL="https://api.example")[0] == (
        "https://api.example/auth/login"
    )
    monkeypatch.setenv("PORTICO_BASE_URL", "https://api.example/sandbox/v1")
    assert sent(monkeypatch, PORTICO_AUTH_URL="https://auth.example/") == [
        "https://auth.example/login",
        "https://api.example/sandbox/v1/users/me",
    ]


def test_a_password_goes_to_the_base_that_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"PORTICO_BASE_URL": "https://a.example/v1", "PORTICO_AUTH_URL": f"{PLACE}/auth"}
    assert sent(monkeypatch, "https://b.example/sandbox/v1", **variables) == [
        "https://b.example/sandbox/auth/login",
        "https://b.example/sandbox/v1/users/me",
    ]


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("NO_PROXY", "localhost,fd00::/8"),
        ("no_proxy", "[::1]"),
        ("HTTPS_PROXY", "http://proxy.example:none"),
        ("all_proxy", "fd00::1:3128"),
    ],
)
def test_an_unreadable_variable_for_proxies_is_named(
    variable: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, text)
    for kind in (Client, AsyncClient):
        with pytest.raises(ValueError, match=f"^{variable.upper()} "):
            kind("an-api-key")
        assert kind("an-api-key", transport=Scripted())  # reads no such variable


def test_who_gives_an_issuer_needs_no_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTICO_BASE_URL", "http://portico.internal:8080/v1")
    issuer, here = "https://portico.example/auth", "https://shop.example/"
    assert TokenVerifier(issuer, "any")
    assert AsyncTokenVerifier(issuer, "any")
    with pytest.raises(ValueError, match="internal"):
        OAuthApp("client", redirect_uri=here)
    for kind in (OAuthApp, AsyncOAuthApp):
        begun = kind("client", redirect_uri=here, auth_url=issuer).begin("read:users")
        assert begun.url.startswith(issuer)
    monkeypatch.setenv("PORTICO_AUTH_URL", issuer)
    assert OAuthApp("client", redirect_uri=here).begin("read:users").url.startswith(issuer)


def test_an_issuer_that_is_empty_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTICO_AUTH_URL", "https://portico.example/auth")
    with pytest.raises(ValueError, match="address"):
        TokenVerifier("", "any")


@pytest.mark.parametrize(
    "address",
    ["http://localhost:8443/v1", "localhost:8443", "https://", "https://a:b@example.com/v1"],
)
def test_a_credential_goes_over_https_alone(address: str) -> None:
    with pytest.raises(ValueError, match="address"):
        Client(KEY, base_url=address)
    with pytest.raises(ValueError, match="address"):
        TokenVerifier(address, "any")


def test_there_is_one_credential() -> None:
    with pytest.raises(ValueError, match="PORTICO_API_KEY"):
        Client()
    with pytest.raises(ValueError, match="not both"):
        Client(KEY, auth=Login("ada@example.com", SECRET))


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_what_is_empty_is_not_taken_for_what_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    monkeypatch.setenv("PORTICO_API_KEY", KEY)
    monkeypatch.setenv("PORTICO_BASE_URL", "https://portico.example/v1")
    assert kind()
    with pytest.raises(ValueError, match="api_key is empty"):
        kind("")
    with pytest.raises(ValueError, match="not both"):
        kind("", auth=Login("ada@example.com", SECRET))
    for name in ("base_url", "auth_url"):
        with pytest.raises(ValueError, match="'' is not an https:// address"):
            kind(KEY, **{name: ""})
    with pytest.raises(ValueError, match="ca is empty"):
        kind(KEY, ca="")


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_options_that_there_are_not_or_that_are_impossible_are_refused_at_once(kind: Any) -> None:
    for name in ("timout", "verify", "token", "retires"):
        with pytest.raises(TypeError, match=name):
            kind(KEY, **{name: 1})
    for name, value in (("timeout", 0), ("timeout", -5), ("patience", -1)):
        with pytest.raises(ValueError, match=name):
            kind(KEY, **{name: value})


def test_a_file_of_authorities_that_is_none_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone, other = tmp_path / "gone.pem", tmp_path / "other.pem"
    other.write_text("no certificate")
    with pytest.raises(ValueError, match=f"^ca is not a file of certificates: {gone} "):
        Client(KEY, ca=gone)
    monkeypatch.setenv("PORTICO_CA", str(other))
    with pytest.raises(ValueError, match=f"^PORTICO_CA is not a file of certificates: {other} "):
        Client(KEY)


@pytest.mark.parametrize("key", [f"{SECRET}\n", f"{SECRET} x", f"ü{SECRET}"])
def test_a_key_that_cannot_be_one_is_refused_unseen(key: str) -> None:
    with pytest.raises(ValueError, match="visible ASCII") as refused:
        Client(key)
    assert SECRET not in str(refused.value)


def test_an_untrusted_server_is_told_from_an_absent_one(served: Authority) -> None:
    with (
        Client(KEY, base_url=served.api) as client,
        pytest.raises(UntrustedCertificate, match="PORTICO_CA"),
    ):
        client.me()


async def test_the_asynchronous_face_tells_them_apart_too(served: Authority) -> None:
    async with AsyncClient(KEY, base_url=served.api) as client:
        with pytest.raises(UntrustedCertificate, match="PORTICO_CA"):
            await client.me()


@pytest.mark.parametrize(
    "value",
    [
        Login("ada@example.com", SECRET),
        SessionLogin("ada@example.com", SECRET),
        OAuthTokens(SECRET, SECRET, "client", SECRET),
        replace(OAuthTokens(SECRET, SECRET, "client", SECRET), expires_at=datetime.now(UTC)),
        Client(SECRET),
        Client(auth=Login("ada@example.com", SECRET)),
        AsyncClient(SECRET),
        OAuthApp("client", SECRET, redirect_uri="https://shop.example/callback"),
        OAuthApp("client", redirect_uri="https://shop.example/callback").begin("read:users"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_nothing_that_is_printed_shows_a_secret(value: Any) -> None:
    for shown in (repr(value), str(value), f"{value}"):
        assert SECRET not in shown
        for name in ("url", "state", "nonce", "code_verifier"):
            assert getattr(value, name, SECRET) not in shown


def test_neither_errors_nor_logs_show_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for step in (httpx.ReadError("broken"), refusal(401, "AUTHENTICATION_REQUIRED")):
        for credential in (Login("ada@example.com", SECRET), OAuthTokens(SECRET, None, "client")):
            script = Scripted(step, step, step, step)
            with (
                Client(
                    auth=credential, base_url=PLACE, transport=script, sleep=lambda _: None
                ) as client,
                pytest.raises((APIError, ConnectionFailed)) as failed,
            ):
                client.me()
            shown = traceback.format_exception(failed.value)
            assert SECRET not in "".join(shown)
            assert SECRET not in repr(failed.value)
            assert SECRET not in repr(script.requests)
    assert SECRET not in caplog.text


def test_the_distribution_is_typed_and_depends_on_httpx_alone() -> None:
    project = (ROOT / "clients/python/pyproject.toml").read_text()
    required = project.partition("dependencies = [")[2].partition("]\n")[0]
    assert re.findall(r'"([a-z]+)', required) == ["httpx"]
    assert (Path(portico_client.__file__).parent / "py.typed").exists()
