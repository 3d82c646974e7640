"""The guides of authentication: commands are run, programs are tried, figures hold."""

import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from flask import Flask
from joserfc.errors import JoseError
from joserfc.jwk import ECKey

from documents import ROOT, SECRETS, Block, document, settled
from oauth.authority import WEB_APP, Authority, serving
from oauth.visiting import Browser
from operating import TIMEOUT_SECONDS, until
from portico.core import oauth, sessions
from portico.core.times import MINUTE
from portico.features.access import signing
from portico.limits.guard import ACCOUNT, ACQUAINTANCE, ADDRESS

GUIDES = [
    document(f"docs/authentication/{name}.md")
    for name in ("README", "api-keys", "jwt", "oauth", "sessions", "second-factor")
]
README, API_KEYS, JWT, OAUTH, SESSIONS, _ = GUIDES
PROGRAMS = {
    "a web application": (OAUTH, "flask_client"),
    "a native application": (OAUTH, "HTTPServer"),
    "openid-client": (OAUTH, 'from "openid-client"'),
    "oauth4webapi": (OAUTH, 'from "oauth4webapi"'),
    "passport-oauth2": (OAUTH, 'from "passport-oauth2"'),
    "device": (OAUTH, "device_authorization"),
    "signing": (OAUTH, "PrivateKeyJWT"),
    "joserfc": (JWT, "joserfc"),
    "jose": (JWT, 'from "jose"'),
    "fetch": (SESSIONS, "fetch("),
}
"""The programs of the guides, each with what it is found by."""


@dataclass
class Reader:
    """Somebody who does what the guides say: pastes commands, and puts the secret that was last
    printed where one is left out."""

    authority: Authority
    browser: Browser
    secrets: dict[str, str]
    environment: dict[str, str]
    answer: str = ""

    def pasted(self, text: str) -> str:
        """A text with this server's port, and with secrets."""
        password = self.authority.installation.facts["admin"]["password"]
        text = text.replace("localhost:8443", f"localhost:{self.authority.installation.port}")
        text = text.replace("YOUR PASSWORD", password)
        for prefix, secret in self.secrets.items():
            text = text.replace(f"{prefix}…", secret)
        assert "…" not in text, text
        return text

    def note(self, text: str) -> None:
        """Keeps the secrets of a text, and the names of clients that have one."""
        for prefix in SECRETS:
            for secret in re.findall(rf"\b{prefix}[\w.-]{{20,}}", text):
                if prefix != "client_" or "ocs_" in text:
                    self.secrets[prefix] = secret

    def run(self, commands: str) -> None:
        """Runs a block of shell, which must end well; what it exports stays."""
        said = self.authority.installation.shell(self.pasted(commands), **self.environment)
        self.environment |= dict(re.findall(r"^export (\w+)=(\S+)", commands, re.MULTILINE))
        self.answer = said.replace(f":{self.authority.installation.port}/", ":8443/")
        self.note(said)

    def follow(self, block: Block) -> None:
        """Does what a block says, or compares what it shows with the last answer."""
        if block.language == "sh":
            self.run(block.text)
        elif block.language == "json":
            assert settled(json.loads(self.answer)) == settled(json.loads(block.text))
        elif block.language == "text":
            callback = self.browser.decide(self.pasted(block.text).strip())
            self.note(callback)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    """A server whose data are where the guides have them."""
    directory = tmp_path_factory.mktemp("guides")
    (directory / "portico-data").symlink_to("data")
    (directory / ".curlrc").write_text("silent\nshow-error\nfail-with-body\n")
    with serving(directory) as running:
        yield running


@pytest.fixture
def reader(authority: Authority) -> Iterator[Reader]:
    """A reader who has the first admin's key."""
    environment = {"CURL_HOME": str(authority.installation.directory)}
    with authority.browser() as browser:
        yield Reader(authority, browser, {"sk_live_": authority.installation.key}, environment)


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.path.stem)
def test_every_command_of_a_guide_is_answered_as_it_shows(guide: Any, reader: Reader) -> None:
    for block in guide.blocks:
        reader.follow(block)


def program(name: str) -> str:
    """A program of the guides."""
    guide, mark = PROGRAMS[name]
    (found,) = [
        block.text
        for block in guide.blocks
        if block.language in ("python", "js") and mark in block.text
    ]
    return found


def test_every_program_of_the_guides_is_tried() -> None:
    written = {
        block.text
        for guide in GUIDES
        for block in guide.blocks
        if block.language not in ("sh", "json", "text")
    }
    assert written == {program(name) for name in PROGRAMS}


@dataclass
class Bench:
    """Where programs of the guides are tried: with a client, and a user before a browser."""

    reader: Reader
    directory: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def authority(self) -> Authority:
        """The server."""
        return self.reader.authority

    @property
    def browser(self) -> Browser:
        """The user's."""
        return self.reader.browser

    def file(self, name: str, suffix: str) -> Path:
        """A program as a file, in a directory where Node finds packages."""
        modules = self.directory / "node_modules"
        if not modules.exists():
            modules.symlink_to(ROOT / "tests/oauth/node/node_modules")
        file = self.directory / f"program{suffix}"
        file.write_text(self.reader.pasted(program(name)))
        return file

    def python(self, name: str) -> dict[str, Any]:
        """What a program in Python defines."""
        return runpy.run_path(str(self.file(name, ".py")))

    def node(self, name: str, *conversations: str) -> Any:
        """What a program for Node comes to: `conversations` are functions of it, called one after
        the other with what the visit of the browser before has brought."""
        self.file(name, ".mjs")
        driver = self.directory / "driver.mjs"
        given: Any = None
        session: dict[str, Any] = {}
        for conversation in conversations:
            driver.write_text(
                f"const session = {json.dumps(session)}, given = {json.dumps(given)};\n"
                'const program = await import("./program.mjs");\n'
                f"const told = await ({conversation});\n"
                "console.log(JSON.stringify({ told, session }));\n"
            )
            done = subprocess.run(
                ["node", driver],
                env={**os.environ, **self.variables},
                capture_output=True,
                text=True,
                check=False,
                timeout=TIMEOUT_SECONDS,
            )
            assert done.returncode == 0, done.stderr
            said = json.loads(done.stdout)
            session, given = said["session"], said["told"]
            if isinstance(given, str) and given.startswith(f"{self.authority.issuer}/authorize?"):
                given = self.browser.decide(given)
        return given

    def lets_in(self, access_token: str) -> bool:
        """Whether a token opens the API."""
        with self.authority.client(access_token) as client:
            return client.get(f"{self.authority.api}/products").status_code == 200


@pytest.fixture
def bench(reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A bench with the variables that the programs read."""
    client = reader.authority.register(scope="read:products")
    certificate = str(reader.authority.certificate)
    variables = {
        "CLIENT_ID": client.client_id,
        "CLIENT_SECRET": client.client_secret,
        "COOKIE_SECRET": "of this test",
        "REQUESTS_CA_BUNDLE": certificate,
        "NODE_EXTRA_CA_CERTS": certificate,
        "SSL_CERT_FILE": certificate,
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return Bench(reader, tmp_path, variables)


def test_the_web_application_signs_in(bench: Bench) -> None:
    app: Flask = bench.python("a web application")["app"]
    with app.test_client() as visitor:
        begun = visitor.get("/login", base_url="https://shop.example")
        back = bench.browser.decide(begun.location)
        assert back.startswith(WEB_APP)
        site = "https://shop.example"
        answer = visitor.get(back.removeprefix(site), base_url=site)
        with visitor.session_transaction(base_url=site) as session:
            assert session["user"] == str(bench.browser.person.id)
    assert answer.status_code == 200
    assert answer.json is not None
    assert "pagination" in answer.json


def test_the_native_application_signs_in(bench: Bench) -> None:
    client = bench.authority.register("http://127.0.0.1/callback", "--public")
    opened = bench.directory / "opened"
    stand_in = bench.directory / "browser"
    stand_in.write_text(
        f'#!/bin/sh\nprintf %s "$1" > "{opened}.part" && mv "{opened}.part" "{opened}"\n'
    )
    stand_in.chmod(0o700)
    environment = {**os.environ, "CLIENT_ID": client.client_id, "BROWSER": str(stand_in)}
    with subprocess.Popen(
        [sys.executable, bench.file("a native application", ".py")],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            until(opened.exists, "the browser's start")
            shown = httpx.get(bench.browser.decide(opened.read_text()), timeout=TIMEOUT_SECONDS)
            assert shown.text.startswith("Close this window")
            printed, _ = process.communicate(timeout=TIMEOUT_SECONDS)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "pagination" in json.loads(printed)


def test_the_device_is_let_in_by_its_code(bench: Bench) -> None:
    client = bench.authority.register(WEB_APP, "--public", "--grant", "device_code")
    with subprocess.Popen(
        [sys.executable, bench.file("device", ".py")],
        env={**os.environ, "CLIENT_ID": client.client_id},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            _, url, *_, code = process.stdout.readline().split()
            page = bench.browser.submit(bench.browser.arrive(url), user_code=code)
            assert code in page.text
            assert "has access" in bench.browser.submit(page, decision="allow").text
            printed, _ = process.communicate(timeout=TIMEOUT_SECONDS)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "pagination" in json.loads(printed)


def test_the_program_with_a_key_signs_in(bench: Bench) -> None:
    key = ECKey.generate_key("P-256", private=True)
    own, public = bench.directory / "key.json", bench.directory / "keys.json"
    own.write_text(json.dumps(key.as_dict(private=True)))
    public.write_text(json.dumps({"keys": [key.as_dict(private=False)]}))
    flags = ("--grant", "client_credentials", "--jwks", str(public))
    client = bench.authority.register(WEB_APP, *flags)
    session = bench.python("signing")["signed_in"](client.client_id, own)
    assert session.get(f"{bench.authority.api}/products").status_code == 200


@pytest.mark.parametrize("library", ["openid-client", "oauth4webapi"])
def test_a_library_for_node_signs_in(bench: Bench, library: str) -> None:
    begin, finish = "program.begin(session)", "program.finish(session, new URL(given))"
    tokens = bench.node(library, begin, finish)
    assert bench.lets_in(tokens["access_token"])


def test_passport_signs_in(bench: Bench) -> None:
    request = """new Promise((resolve, reject) => {
      const strategy = Object.create(program.strategy);
      Object.assign(strategy, { redirect: resolve, success: resolve, fail: reject, error: reject });
      const query = given ? Object.fromEntries(new URL(given).searchParams) : {};
      strategy.authenticate({ session, query });
    })"""
    user = bench.node("passport-oauth2", request, request)
    assert user["sub"] == str(bench.browser.person.id)
    assert user["email"] == bench.browser.person.email
    assert bench.lets_in(user["accessToken"])


def login_token(bench: Bench) -> str:
    """A JWT of the browser's user."""
    person = {"email": bench.browser.person.email, "password": bench.browser.person.password}
    with bench.authority.client() as client:
        return str(
            client.post(f"{bench.authority.issuer}/login", json=person).json()["access_token"]
        )


def forged(token: str) -> str:
    """A token with one letter changed in its claims."""
    header, claims, signature = token.split(".")
    return f"{header}.{claims[:-2]}{'A' if claims[-2] != 'A' else 'B'}{claims[-1]}.{signature}"


def test_another_service_verifies_tokens_in_python(bench: Bench) -> None:
    service, token = bench.python("joserfc"), login_token(bench)
    verified, keys = service["verified_claims"], service["published_keys"]()
    claims = verified(token, keys)
    assert claims["sub"] == str(bench.browser.person.id)
    documented = {name for names, _ in JWT.rows("claims") for name in names.split(", ")}
    assert claims.keys() == documented
    for bad in (forged(token), sandbox_token(bench)):
        with pytest.raises((JoseError, ValueError)):
            verified(bad, keys)


def sandbox_token(bench: Bench) -> str:
    """A JWT that is for the sandbox."""
    made = bench.authority.installation.told(
        *("users", "create", "--sandbox", "--email", bench.browser.person.email),
        *("--name", "Grace Hopper", "--role", "viewer", "--plan", "free"),
    )
    person = {"email": made["email"], "password": made["password"]}
    with bench.authority.client() as client:
        answer = client.post(f"{bench.authority.origin}/sandbox/auth/login", json=person)
    return str(answer.json()["access_token"])


def test_another_service_verifies_tokens_in_node(bench: Bench) -> None:
    token = login_token(bench)
    outcome = "program.verifiedClaims({}).then((claims) => claims.sub, (error) => error.code)"
    assert bench.node("jose", outcome.format(json.dumps(token))) == str(bench.browser.person.id)
    bad = {
        forged(token): "ERR_JWS_SIGNATURE_VERIFICATION_FAILED",
        sandbox_token(bench): "ERR_JWKS_NO_MATCHING_KEY",
    }
    for other, code in bad.items():
        assert bench.node("jose", outcome.format(json.dumps(other))) == code


def test_a_page_signs_in_by_fetch(bench: Bench) -> None:
    person = bench.browser.person
    there = json.dumps(bench.authority.origin)
    on_a_page = (
        f"globalThis.fetch = ((send) => (path, ...rest) => send({there} + path, ...rest))(fetch)"
    )
    sign_in = "program.signIn({}, {}).catch((error) => error.message)"
    right = sign_in.format(json.dumps(person.email), json.dumps(person.password))
    wrong = sign_in.format(json.dumps(person.email), '"Wrong1-password"')
    assert bench.node("fetch", f"({on_a_page}, {right})")["email"] == person.email
    assert bench.node("fetch", f"({on_a_page}, {wrong})") == "The e-mail or the password is wrong."


def test_the_lifetimes_are_those_of_the_program() -> None:
    for guide, lifetimes in (
        (JWT, [oauth.ACCESS_SECONDS, oauth.REFRESH_SECONDS, signing.PUBLISHED_SECONDS]),
        (
            OAUTH,
            [
                oauth.CODE_SECONDS,
                oauth.DEVICE_CODE_SECONDS,
                oauth.ACCESS_SECONDS,
                oauth.REFRESH_SECONDS,
            ],
        ),
        (SESSIONS, [sessions.IDLE_SECONDS, sessions.MAX_SECONDS]),
    ):
        assert [int(seconds) for _, seconds in guide.rows("lifetimes")] == lifetimes


def test_the_attempts_are_those_of_the_program() -> None:
    documented = [(int(free), waits) for _, free, waits in JWT.rows("attempts")]
    assert documented == [
        (guard.free, _minutes(guard.waits) or "until they are over")
        for guard in (ACCOUNT, ACQUAINTANCE, ADDRESS)
    ]
    assert {guard.window for guard in (ACCOUNT, ACQUAINTANCE, ADDRESS)} == {15 * MINUTE}


def _minutes(waits: tuple[int, ...]) -> str:
    *first, last = (str(wait // MINUTE) for wait in waits or (0,))
    return f"{', '.join(first)}, then always {last} minutes" if first else ""
