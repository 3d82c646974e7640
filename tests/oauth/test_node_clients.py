"""Published clients for Node, as they are, against the server.

A program for each in `node/` uses its library as an application does, and tells what it found.
"""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import ECKey

from node_packages import node_packages
from oauth.authority import GOODBYE, NATIVE_APP, SCOPES, WEB_APP, Authority, Registered
from oauth.visiting import Browser
from operating import TIMEOUT_SECONDS

KEY = ECKey.generate_key("P-256", private=True)
PROGRAMS = Path(__file__).parent / "node"
SITE = "https://shop.example/auth/callback/portico"
SCOPE = f"openid profile email {SCOPES}"

Program = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module", autouse=True)
def packages() -> None:
    """Fails where something is missing."""
    node_packages(PROGRAMS)


@pytest.fixture
def found_by(
    authority: Authority,
    web_app: Registered,
    native_app: Registered,
    browser: Browser,
    tmp_path: Path,
) -> Program:
    """What a program has found, for which the browser visits what it asks for."""
    native = NATIVE_APP.replace("127.0.0.1", "127.0.0.1:39171")
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [KEY.as_dict(private=False)]}))
    worker = authority.register(WEB_APP, "--grant", "client_credentials", "--jwks", str(keys))
    site = authority.register(SITE, "--post-logout-redirect-uri", GOODBYE)
    device = authority.register(WEB_APP, "--grant", "device_code", "--public")
    facts = {
        "issuer": authority.issuer,
        "api": authority.api,
        "webApp": {
            "clientId": web_app.client_id,
            "clientSecret": web_app.client_secret,
            "redirectUri": WEB_APP,
            "postLogoutRedirectUri": GOODBYE,
        },
        "nativeApp": {"clientId": native_app.client_id, "redirectUri": native},
        "site": {
            "clientId": site.client_id,
            "clientSecret": site.client_secret,
            "redirectUri": SITE,
            "postLogoutRedirectUri": GOODBYE,
        },
        "worker": {"clientId": worker.client_id, "jwk": KEY.as_dict(private=True)},
        "device": {"clientId": device.client_id},
        "scope": SCOPE,
    }

    def run(program: str) -> dict[str, Any]:
        process = subprocess.Popen(
            ["node", PROGRAMS / f"{program}.js"],
            env={**os.environ, "NODE_EXTRA_CA_CERTS": str(authority.certificate)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            try:
                return conversed(process, browser, facts)
            finally:
                process.kill()

    return run


def conversed(
    process: "subprocess.Popen[str]", browser: Browser, facts: dict[str, Any]
) -> dict[str, Any]:
    """What a program tells at the end, see `node/conversation.js`."""
    assert process.stdin
    assert process.stdout
    assert process.stderr
    print(json.dumps(facts), file=process.stdin, flush=True)
    for line in process.stdout:
        told = json.loads(line)
        if "found" in told:
            assert process.wait(TIMEOUT_SECONDS) == 0
            return dict(told["found"])
        if "device" in told:
            page = browser.arrive(told["device"])
            assert f'value="{told["code"]}"' in page.text
            browser.submit(browser.submit(page, user_code=told["code"]), decision=told["decision"])
            callback = ""
        else:
            callback = browser.decide(told["visit"], told["decision"])
        print(json.dumps({"callback": callback}), file=process.stdin, flush=True)
    raise AssertionError(process.stderr.read()[:5_000])


def all_is_well(browser: Browser) -> dict[str, Any]:
    """What a client finds that signs in, asks who that is, calls the API, rotates its refresh
    token, and comes with the old one again."""
    return {
        "scope": SCOPE,
        "sub": str(browser.person.id),
        "email": browser.person.email,
        "rotated": True,
        "products": 200,
        "replayed": "invalid_grant",
        "ended": 401,
    }


def test_programs_sign_and_devices_are_let_in(found_by: Program, browser: Browser) -> None:
    assert found_by("grants") == {
        "signed": {"scope": "read:products", "before": True, "after": False},
        "allowed": {"scope": "openid read:products", "sub": str(browser.person.id)},
        "denied": "access_denied",
    }


@pytest.mark.parametrize("library", ["openid-client", "oauth4webapi"])
def test_a_client_of_openid_connect_works(
    library: str, found_by: Program, browser: Browser
) -> None:
    well = all_is_well(browser)
    found = found_by(library)
    assert found.pop("sameMetadata", True)
    assert found == {
        "basic": well,
        "post": well,
        "none": well,
        "before": True,
        "username": browser.person.email,
        "after": False,
        "code": "invalid_grant",
        "denied": "access_denied",
        "wrongSecret": "OAUTH_WWW_AUTHENTICATE_CHALLENGE",
        "foreignIssuer": "OAUTH_INVALID_RESPONSE",
    }


@pytest.mark.parametrize("program", ["openid-client-logout", "authjs"])
def test_a_client_signs_in_silently_until_it_has_signed_out(
    program: str, found_by: Program, browser: Browser
) -> None:
    assert found_by(program) == {
        "email": browser.person.email,
        "sameSession": True,
        "left": f"{GOODBYE}?state=a+state",
        "silentAfterwards": "login_required",
    }


def test_simple_oauth2_works_with_forms_and_json(found_by: Program, browser: Browser) -> None:
    well = all_is_well(browser)
    assert found_by("simple-oauth2") == {
        "basic": well,
        "post": well,
        "jsonBasic": well,
        "jsonPost": well,
        "none": well,
        "before": 200,
        "after": 401,
        "code": "invalid_grant",
        "denied": "access_denied",
        "wrongSecret": "invalid_client",
    }


def test_passport_oauth2_works(found_by: Program, browser: Browser) -> None:
    well = all_is_well(browser)
    assert found_by("passport-oauth2") == {
        "post": well,
        "none": well,
        "before": 200,
        "after": 401,
        "code": "invalid_grant",
        "denied": "The user denied access.",
        "wrongSecret": "invalid_client",
        "foreignState": False,
    }
