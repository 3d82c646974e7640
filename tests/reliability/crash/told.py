"""What readers of events and a webhook's receiver were told, held against what there is."""

import json
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from operating import Installation, Service, until
from reliability.crash.ledger import Kind, Resource

DELIVERY_SECONDS = 90.0
"""What a killed process had claimed comes again after 30 s."""


class Received:
    """A receiver of webhooks that takes everything, and keeps the bodies by `webhook-id`."""

    def __init__(self) -> None:
        bodies: dict[str, set[bytes]] = defaultdict(set)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                bodies[self.headers["webhook-id"]].add(body)
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
                """Nothing is told."""

        self.bodies = bodies
        self._before: set[str] = set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def hook(self, installation: Installation) -> None:
        """Has all events from now on sent here."""
        self._before = {f"evt_{event['id']}" for event in installation.told("events", "list")}
        url = f"http://127.0.0.1:{self._server.server_port}/"
        installation.told("webhooks", "create", "--url", url, "--types", "*")

    def wanted(self, names: Iterable[str]) -> set[str]:
        """Which events of these must have come."""
        return {*names} - self._before

    def end(self) -> None:
        """Receives nothing any more."""
        self._server.shutdown()
        self._server.server_close()


def events(service: Service, key: str) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Every event by the cursor, each with its own bytes."""
    after = 0
    while True:
        answer = service.ask(f"/v1/events?after={after}&limit=100", key=key)
        assert answer.status == 200, answer
        for event in answer.json["data"]:
            assert event["id"] > after
            after = event["id"]
            yield event, json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()
        if not answer.json["pagination"]["has_more"]:
            return


def check(
    service: Service, key: str, there: dict[Kind, dict[str, Resource]], received: Received
) -> int:
    """Sees that every change of what clients wrote was told once and in order, nothing else was,
    and that the receiver got all of it, with the same body. Returns how many events there are."""
    told: dict[str, list[dict[str, Any]]] = defaultdict(list)
    bodies: dict[str, bytes] = {}
    for event, body in events(service, key):
        bodies[f"evt_{event['id']}"] = body
        name = event["data"].get("name", "")
        if event["type"].startswith(("product.", "user.")) and " v" in name:
            told[name.partition(" v")[0]].append(event)
    alive = {tag: resource for kind in there.values() for tag, resource in kind.items()}
    assert alive.keys() <= told.keys(), "a change was acknowledged and never told"
    for tag, story in told.items():
        verbs = [event["type"].partition(".")[2] for event in story]
        last = len(story) - 1 if tag in alive else len(story) - 2
        ending = [] if tag in alive else ["deleted"]
        assert verbs == ["created", *["updated"] * last, *ending], (tag, verbs)
        versions = [int(event["data"]["name"].partition(" v")[2]) for event in story]
        assert versions == [*range(last + 1), *([last] if ending else [])], (tag, versions)
        if tag in alive:
            assert alive[tag].version == last, f"{tag} was told as {last}"
    wanted = received.wanted(bodies)
    until(lambda: wanted <= received.bodies.keys(), "delivery", DELIVERY_SECONDS)
    assert received.bodies.keys() == wanted, "something was delivered that never happened"
    for name, sent in received.bodies.items():
        assert {_same(one) for one in sent} == {_same(bodies[name])}, name
        assert len(sent) == 1, f"{name} was delivered with two bodies"
    return len(bodies)


def _same(body: bytes) -> str:
    return json.dumps(json.loads(body), sort_keys=True)
