"""The library's README does what it says, and its reference is current."""

import json
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import HTTPServer
from typing import Any

import httpx
import pytest

from client.delivering import BODY, PING, UNFINISHED, signed
from documents import ROOT, Document
from oauth.authority import WEB_APP, Authority
from oauth.visiting import Browser

HOME = ROOT / "clients/python"
README = Document(HOME / "README.md", (HOME / "README.md").read_text("utf-8"))
REFERENCE = Document(HOME / "docs/reference.md", (HOME / "docs/reference.md").read_text("utf-8"))


@pytest.fixture
def browser(served: Authority) -> Iterator[Browser]:
    """A browser with a new editor before it."""
    with served.browser() as opened:
        yield opened


def receive(receiver: HTTPServer, secret: str) -> None:
    """Has the receiver of webhooks take deliveries, refuse another, and wait for none."""
    with receiver, socket.create_connection(("localhost", receiver.server_port)) as unfinished:
        unfinished.sendall(UNFINISHED)
        serving = threading.Thread(target=receiver.serve_forever)
        serving.start()
        address = f"http://localhost:{receiver.server_port}/"
        now, ping = int(datetime.now(UTC).timestamp()), json.dumps(PING).encode()
        headers = signed(at=now, secrets=(secret,))
        try:
            assert httpx.post(address, content=BODY, headers=headers).status_code == 204
            pinged = httpx.post(address, content=ping, headers=signed(ping, now, (secret,)))
            assert pinged.status_code == 204
            assert httpx.post(address, content=b"{}", headers=headers).status_code == 400
        finally:
            unfinished.close()
            receiver.shutdown()
            serving.join()


def test_readme_runs_from_top_to_bottom(
    served: Authority,
    browser: Browser,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    email = served.installation.facts["admin"]["email"]
    key = served.installation.told(
        *("keys", "create", "--owner", email, "--type", "live", "--name", "Readme")
    )["key"]
    monkeypatch.setenv("PORTICO_API_KEY", key)
    monkeypatch.setenv("PORTICO_BASE_URL", served.api)
    monkeypatch.setenv("PORTICO_CA", str(served.certificate))
    registered = served.register(WEB_APP)
    body = {"email": browser.person.email, "password": browser.person.password}
    with served.client() as anybody:
        token = anybody.post(f"{served.issuer}/login", json=body).json()["access_token"]
    names: dict[str, Any] = {
        "password": browser.person.password,
        "client_id": registered.client_id,
        "client_secret": registered.client_secret,
        "session": {},
        "visit": browser.decide,
        "token": token,
    }
    for block in README.blocks:
        if block.language == "python":
            text = block.text.replace("https://localhost:8443", served.origin)
            text = text.replace("grace@example.com", browser.person.email).replace("8002", "0")
            exec(compile(text, str(README.path), "exec"), names)  # noqa: S102 - our own document
    receive(names["receiver"], names["webhook_secret"])
    said = capsys.readouterr().out
    assert "Desk lamp 24.5\n" in said
    assert "\npassword must " in said
    assert f"{browser.person.id} frozenset" in said
    assert f"{browser.person.id} editor\n" in said
    assert "\n17 product.updated Product(id=3, name='Désk lamp'," in said
    assert names["store"]["api_key"] == names["rotated"].key
    for name in ("client", "app", "verifier"):
        names[name].close()


@pytest.mark.parametrize("doc", [README, REFERENCE], ids=lambda doc: doc.path.name)
def test_the_librarys_links_lead_somewhere(doc: Document) -> None:
    for link in doc.links:
        path, _, anchor = link.partition("#")
        target = doc.path.parent / path if path else doc.path
        assert target.exists(), link
        if anchor:
            assert anchor in Document(target, target.read_text("utf-8")).anchors
