"""Clients that write through the API, each in a thread, until their server is gone."""

import http.client
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from operating import Answer, Service
from portico.limits.valkey import NO_ANSWER
from reliability.crash.ledger import Kind, Resource, fields

PATHS: dict[Kind, str] = {"product": "/v1/products", "user": "/v1/users"}


class Gone(Exception):
    """No answer, or 503: whether what was asked is done is unknown."""


@dataclass
class Chain:
    """A key and its acknowledged successors, the newest last."""

    name: str
    keys: list[str]


@dataclass
class Account:
    """How many requests of one account were sent, and when those were answered that count."""

    sent: int = 0
    answered: list[float] = field(default_factory=list)
    slowest: float = 0.0
    """Seconds that an answer took."""
    unavailable: list[str] = field(default_factory=list)
    """What answers of 503 said, but for those where the store of limits was silent: nobody kills
    that, and on a busy machine it is for a second."""
    lock: threading.Lock = field(default_factory=threading.Lock)


class Client:
    """Writes as its random numbers tell it, and keeps account of what may be there."""

    def __init__(
        self,
        service: Service,
        account: Account,
        random: Random,
        tag: str,
        key: str,
        chain: Chain | None,
    ) -> None:
        """`tag` begins the tags of what it makes. It rotates `chain`, or else uses `key`."""
        self._connection = service.connect()
        self._service = service
        self._account = account
        self._random = random
        self._tag = tag
        self._key = key
        self._chain = chain
        self._made = 0
        self.resources: list[Resource] = []
        self.acknowledged = 0
        self.surprise: BaseException | None = None

    def run(self, own: Sequence[Resource], over: threading.Event) -> None:
        """Writes until the server is gone, or it is over. `own` were made before, and nobody else
        writes them."""
        self.resources = list(own)
        try:
            with self._connection:
                while not over.is_set():
                    self._write()
                    self.acknowledged += 1
        except Gone:
            pass
        except BaseException as error:  # noqa: BLE001 - whoever started the thread raises it
            self.surprise = error

    def _write(self) -> None:
        kind: Kind = "user" if self._random.random() < 0.15 else "product"
        there = [one for one in self.resources if one.kind == kind and one.versions != {None}]
        chance = self._random.random()
        if chance < 0.1 and self._chain is not None:
            self._rotate(self._chain)
        elif chance < 0.45 or not there:
            self._create(kind)
        elif chance < 0.8:
            self._patch(self._random.choice(there))
        else:
            self._delete(self._random.choice(there))

    def _create(self, kind: Kind) -> None:
        self._made += 1
        new = Resource(kind, f"{self._tag}n{self._made}")
        self.resources.append(new)
        new.ask(0)
        answer = self._ask("POST", PATHS[kind], 201, fields(kind, new.tag, 0))
        new.id = answer.json["data"]["id"]
        new.acknowledge(0)

    def _patch(self, resource: Resource) -> None:
        version = resource.version
        assert version is not None
        resource.ask(version + 1)
        body = fields(resource.kind, resource.tag, version + 1)
        self._ask("PATCH", f"{PATHS[resource.kind]}/{resource.id}", 200, body)
        resource.acknowledge(version + 1)

    def _delete(self, resource: Resource) -> None:
        resource.ask(None)
        self._ask("DELETE", f"{PATHS[resource.kind]}/{resource.id}", 204)
        resource.acknowledge(None)

    def _rotate(self, chain: Chain) -> None:
        answer = self._ask("POST", "/v1/api-keys/rotate", 201)
        chain.keys.append(answer.json["data"]["key"])

    def _ask(self, method: str, path: str, expected: int, body: Any = None) -> Answer:
        with self._account.lock:
            self._account.sent += 1
        asked = time.monotonic()
        try:
            answer = self._service.ask(
                path,
                method=method,
                key=self._key if self._chain is None else self._chain.keys[-1],
                body=body,
                connection=self._connection,
            )
        except (OSError, http.client.HTTPException) as error:
            raise Gone from error
        now = time.monotonic()
        with self._account.lock:
            self._account.slowest = max(self._account.slowest, now - asked)
            if answer.status == 503:
                if answer.json["error"]["message"] != NO_ANSWER:
                    self._account.unavailable.append(answer.json["error"]["message"])
            else:
                self._account.answered.append(now)
        if answer.status == 503:
            raise Gone
        assert answer.status == expected, answer
        return answer
