"""What users see: names, settings from the environment, and nothing that is secret."""

import logging
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
from client.scripted import KEY, ME, PLACE, TOKENS, Scripted, answer, refusal
from oauth.authority import Authority
from portico_client import (
    APIError,
    AsyncClient,
    Client,
    ConnectionFailed,
    Login,
    OAuthApp,
    OAuthTokens,
    SessionLogin,
    UntrustedCertificate,
)

SECRET = "s3cr3t-that-nobody-may-see"


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


ADDRESSES: list[tuple[str | None, dict[str, str], str, str]] = [
    (None, {}, "https://localhost:8443/auth", "https://localhost:8443/v1"),
    (None, {"BASE": "https://a.example/sandbox/v1"}, "https://a.example/sandbox/auth",
     "https://a.example/sandbox/v1"),
    (None, {"BASE": "https://a.example/sandbox/v1", "AUTH": "https://auth.example/"},
     "https://auth.example", "https://a.example/sandbox/v1"),
    # A password goes to the base that was given.
    ("https://b.example/sandbox/v1", {"BASE": "https://a.example/v1", "AUTH": f"{PLACE}/auth"},
     "https://b.example/sandbox/auth", "https://b.example/sandbox/v1"),
]  # fmt: skip


@pytest.mark.parametrize(("base_url", "variables", "auth", "base"), ADDRESSES)
def test_addresses_follow_from_what_is_given_and_the_environment(
    monkeypatch: pytest.MonkeyPatch,
    base_url: str | None,
    variables: dict[str, str],
    auth: str,
    base: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"PORTICO_{name}_URL", value)
    script = Scripted(answer(200, TOKENS), ME)
    login = Login("ada@example.com", SECRET)
    with Client(auth=login, base_url=base_url, transport=script) as client:
        client.me()
    assert [str(request.url) for request in script.requests] == [
        f"{auth}/login",
        f"{base}/users/me",
    ]


LOGIN = Login("ada@example.com", SECRET)
REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({}, ValueError, "PORTICO_API_KEY"),
    ({"api_key": KEY, "auth": LOGIN}, ValueError, "not both"),
    ({"api_key": ""}, ValueError, "api_key is empty"),
    ({"api_key": "", "auth": LOGIN}, ValueError, "not both"),
    *(({"api_key": f"{SECRET}{odd}"}, ValueError, "visible ASCII") for odd in ("\n", " x", "ü")),
    *(({"api_key": KEY, name: ""}, ValueError, "'' is not an https:// address")
      for name in ("base_url", "auth_url")),
    *(({"api_key": KEY, "base_url": address}, ValueError, "address")
      for address in ("http://localhost:8443/v1", "localhost:8443", "https://a:b@example.com/v1")),
    ({"api_key": KEY, "ca": ""}, ValueError, "ca is empty"),
    ({"api_key": KEY, "timout": 1}, TypeError, "timout"),
    ({"api_key": KEY, "verify": 1}, TypeError, "verify"),
    *(({"api_key": KEY, name: value}, ValueError, name)
      for name, value in (("timeout", 0), ("timeout", -5), ("patience", -1))),
    *(({"api_key": KEY, "retries": times}, ValueError, "0 to 3")
      for times in (-1, 4, 1.5, "3", None)),
]  # fmt: skip


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(("options", "error", "why"), REFUSED)
def test_options_that_are_impossible_are_refused_at_once_and_unseen(
    kind: Any, options: dict[str, Any], error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why) as refused:
        kind(**options)
    assert SECRET not in str(refused.value)


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


async def test_an_untrusted_server_is_told_from_an_absent_one(served: Authority) -> None:
    with (
        Client(KEY, base_url=served.api) as client,
        pytest.raises(UntrustedCertificate, match="PORTICO_CA"),
    ):
        client.me()
    async with AsyncClient(KEY, base_url=served.api) as other:
        with pytest.raises(UntrustedCertificate, match="PORTICO_CA"):
            await other.me()


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
        for credential in (LOGIN, OAuthTokens(SECRET, None, "client")):
            script = Scripted(step, step, step, step)
            own: dict[str, Any] = {"transport": script, "sleep": lambda _: None}
            with (
                Client(auth=credential, base_url=PLACE, **own) as client,
                pytest.raises((APIError, ConnectionFailed)) as failed,
            ):
                client.me()
            shown = "".join(traceback.format_exception(failed.value))
            assert SECRET not in shown + repr(failed.value) + repr(script.requests)
    assert SECRET not in caplog.text
