"""Applications sign their users out, and hear of it in processes of their own."""

import json
import subprocess
import sys
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest

from oauth.authority import GOODBYE, WEB_APP, Authority, Registered
from oauth.visiting import Browser

PROGRAM = Path(__file__).parent / "relying_party.py"


class RelyingParty:
    """A client, and its program that is told of ended sessions."""

    def __init__(self, authority: Authority, process: "subprocess.Popen[str]") -> None:
        self.authority = authority
        self._process = process
        assert process.stdout
        self._lines = process.stdout
        self.client: Registered

    def heard(self) -> str:
        """What it printed next."""
        return self._lines.readline().strip()

    def sign_in(self, browser: Browser) -> tuple[str, str]:
        """Signs a browser in; returns the ID token, and what a logout of that session prints."""
        url = self.authority.asking(self.client, scope="openid")
        code = browser.decide(url).partition("code=")[2].partition("&")[0]
        token = self.authority.exchange(self.client, code).json()["id_token"]
        part = token.split(".")[1]
        claims = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        return token, f"{browser.person.id} {claims['sid']}"


@contextmanager
def relying_party(authority: Authority, name: str) -> Iterator[RelyingParty]:
    """A client with a program. The program must know the client, and the client its address, so it
    is registered with another address first."""
    client = authority.register(WEB_APP, "--post-logout-redirect-uri", GOODBYE, name=name)
    arguments = [authority.issuer, client.client_id, str(authority.certificate)]
    with subprocess.Popen(
        [sys.executable, PROGRAM, *arguments], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            party = RelyingParty(authority, process)
            party.client = client
            change = {"backchannel_logout_uri": f"http://127.0.0.1:{party.heard()}/ended"}
            with authority.client(authority.installation.key) as admin:
                answer = admin.patch(f"{authority.api}/clients/{client.client_id}", json=change)
            assert answer.status_code == 200, answer.text
            yield party
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def parties(authority: Authority) -> Iterator[list[RelyingParty]]:
    """Two clients."""
    with ExitStack() as stack:
        yield [stack.enter_context(relying_party(authority, name)) for name in ("Shop", "Till")]


def test_every_client_of_a_session_hears_of_its_end_in_a_process_of_its_own(
    authority: Authority, parties: list[RelyingParty], browser: Browser
) -> None:
    for _ in range(2):
        signed_in = [party.sign_in(browser) for party in parties]
        hint = {"id_token_hint": signed_in[0][0], "post_logout_redirect_uri": GOODBYE, "state": "s"}
        page = browser.visit(f"{authority.issuer}/end_session?{urlencode(hint)}")
        assert page.left_for == f"{GOODBYE}?state=s"
        assert [party.heard() for party in parties] == [line for _, line in signed_in]


def test_sessions_of_other_browsers_are_not_told(
    authority: Authority, parties: list[RelyingParty], browser: Browser
) -> None:
    with authority.browser() as other:
        first, second = (parties[0].sign_in(one) for one in (browser, other))
        for one, (token, line) in ((other, second), (browser, first)):
            one.visit(f"{authority.issuer}/end_session?{urlencode({'id_token_hint': token})}")
            assert parties[0].heard() == line
