"""The guide to webhooks: its receivers take deliveries of a real server, its figures hold."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from client.delivering import left_unfinished
from documents import ROOT, document
from listening import listening
from oauth.authority import ROOMY, Authority
from operating import Installation, free_port, until
from portico.core import events
from portico.core.secrets import ROTATION_OVERLAP
from portico.core.times import HOUR
from portico.data import queue
from portico.features.events.rules import mint_webhook_secret, signed_headers
from portico.outbound import sender
from portico_client import Client, Event

GUIDE = document("docs/webhooks.md")
RECEIVERS = {
    "python": ("BaseHTTPRequestHandler", [sys.executable, "receiver.py"]),
    "js": ("createServer", ["node", "receiver.mjs"]),
}
"""How each is found, and run."""
FORGED = {
    "webhook-id": "evt_1",
    "webhook-timestamp": "1769847330",
    "webhook-signature": "v1,dZfBmgQbZQ8BVPDsWxS0dB0EZo4HkqQ8L9nHGE5kzZk=",
}
LAMP: dict[str, Any] = {"name": "Desk lamp", "category": "lighting", "price": 24}


def program(language: str, mark: str) -> str:
    """The guide's program in this language that has `mark` in it."""
    (found,) = [b.text for b in GUIDE.blocks if b.language == language and mark in b.text]
    return found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    """A server whose webhooks may lead to this machine."""
    directory = tmp_path_factory.mktemp("webhooks")
    (directory / "portico.toml").write_text(ROOMY)
    prepared = Installation(directory).prepared()
    with prepared.serving():
        yield Authority(prepared)


@pytest.fixture
def client(served: Authority) -> Iterator[Client]:
    """A client with the first admin's key."""
    key, ca = served.installation.key, str(served.certificate)
    with Client(key, base_url=served.api, ca=ca) as client:
        yield client


@contextmanager
def receiver(language: str, place: Path, port: int, secret: str) -> Iterator[Path]:
    """The guide's receiver, as it runs at this port; gives the file of what it prints."""
    mark, command = RECEIVERS[language]
    (place / command[-1]).write_text(program(language, mark).replace("3000", str(port)))
    (place / "node_modules").symlink_to(ROOT / "tests/oauth/node/node_modules")
    said = place / "said"
    environment = {**os.environ, "WEBHOOK_SECRET": secret}
    with (
        said.open("wb") as out,
        subprocess.Popen(command, cwd=place, env=environment, stdout=out, stderr=out) as process,
    ):
        try:
            until(lambda: process.poll() is not None or _listens(port), "the receiver's start")
            assert process.poll() is None, said.read_text()
            yield said
        finally:
            process.kill()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("language", RECEIVERS)
def test_a_receiver_takes_what_portico_sends_and_nothing_else(
    client: Client, tmp_path: Path, language: str
) -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}/"
    hook = client.webhooks.create(url=address, types=["product.*"])
    with receiver(language, tmp_path, port, hook.secret) as said:
        client.webhooks.test(hook.id)
        client.products.create(**LAMP)
        for told in ("ping", "product.created", "Desk lamp"):
            until(lambda told=told: told in said.read_text(), told)  # type: ignore[misc]
        client.webhooks.rotate_secret(hook.id)
        client.products.create(**LAMP | {"name": "Floor lamp"})
        until(lambda: "Floor lamp" in said.read_text(), "what both secrets sign")
        before = said.read_text()
        for headers in (FORGED, {}):
            assert httpx.post(address, content=b"{}", headers=headers).status_code == 400
        left_unfinished(port)
        assert httpx.post(address, content=b"{}", headers=FORGED).status_code == 400, "it goes on"
        assert said.read_text().partition(before)[2].count("product.") == 0
        until(lambda: _states(client, hook.id) == ["delivered"] * 3, "their success")
    client.webhooks.delete(hook.id)


def _states(client: Client, webhook_id: int) -> list[str]:
    return [str(one.status) for one in client.webhooks.deliveries(webhook_id)]


def test_a_signature_is_checked_by_hand_as_the_guide_says(tmp_path: Path) -> None:
    secret, body = mint_webhook_secret(os.urandom), '{"name": "Crème brûlée"}\n'.encode()
    sent = signed_headers([secret], "evt_17", 1_769_847_330, body)
    (tmp_path / "body").write_bytes(body)
    variables = {
        "WEBHOOK_SECRET": secret,
        "webhook_id": sent["webhook-id"],
        "webhook_timestamp": sent["webhook-timestamp"],
    }
    done = subprocess.run(
        ["sh", "-euc", program("sh", "openssl")],
        cwd=tmp_path,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"v1,{done.stdout.strip()}" == sent["webhook-signature"]


def test_what_happens_is_forwarded_to_a_receiver_at_work(
    served: Authority, client: Client, tmp_path: Path
) -> None:
    port = free_port()
    secret = "whsec_" + "c2VjcmV0" * 4
    words = program("sh", "--forward-to").split("portico events listen --sandbox")[1].split()
    words = [word.replace("3000", str(port)) for word in words]
    with (
        receiver("python", tmp_path, port, secret) as said,
        listening(served.installation, *words, WEBHOOK_SECRET=secret),
    ):
        client.products.create(**LAMP | {"name": "Forwarded lamp"})
        until(lambda: "Forwarded lamp" in said.read_text(), "the event")


def test_catching_up_leaves_nothing_out(
    served: Authority, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTICO_API_KEY", served.installation.key)
    monkeypatch.setenv("PORTICO_BASE_URL", served.api)
    monkeypatch.setenv("PORTICO_CA", str(served.certificate))
    names: dict[str, Any] = {}
    exec(compile(program("python", "catch_up"), str(GUIDE.path), "exec"), names)  # noqa: S102 - our own document
    handled: list[Event] = []
    after = names["catch_up"](handled.append, 0)
    made = [client.products.create(**LAMP | {"name": f"Lamp {n}"}) for n in range(3)]
    handled.clear()
    last = names["catch_up"](handled.append, after)
    assert [event.data for event in handled] == made
    assert last == handled[-1].id


def test_the_waits_are_those_of_the_program() -> None:
    units = {"seconds": 1, "minutes": 60, "hours": 3600}
    documented = [
        (int(attempt), int(wait.split()[0]) * units[wait.split()[1]])
        for attempt, wait in GUIDE.rows("retries")
    ]
    assert documented == list(enumerate(queue.DELIVERIES.waits, start=2))
    assert 3 <= sum(queue.DELIVERIES.waits) / 86_400 < 3.5
    assert queue.DELIVERIES.spread == 0.2
    assert sender.SECONDS == 15
    assert events.FAILING_DAYS == 5
    assert events.MOST_WEBHOOKS == 20
    assert ROTATION_OVERLAP == 24 * HOUR
