"""Hosts get other files of kinds one after the other, while clients use them all."""

import shutil
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from operating import Answer, Installation, until
from portico.secret_file import NAME as SECRET_FILE
from reliability.boundless import beside, boundless
from servers import PostgresServer

NOTES = """from portico.kinds import Kind, Record, text


class Note(Record):
    title: str = text(1, 40, search=True)
    {field}


notes = Kind(Note, one="note", many="notes")
"""
BEFORE, AFTER = (
    NOTES.format(field=""),
    NOTES.format(field="place: str = text(0, 9, default='desk')"),
)


class Fleet:
    """Hosts behind a balancer, which sends requests to those in turn alone."""

    def __init__(self, hosts: list[Installation]) -> None:
        self._hosts = hosts
        self._stack = ExitStack()
        self._services = [self._stack.enter_context(one.serving()) for one in hosts]
        self._in_turn = [*self._services]
        self._asked = dict.fromkeys(self._services, 0)
        self._lock = threading.Lock()
        self.answered = 0
        self.failed: list[object] = []

    def close(self) -> None:
        """Ends all hosts."""
        self._stack.close()

    def restart(self, place: int) -> None:
        """Takes one host out of turn, stops it and starts it with the files that it has now."""
        old = self._services[place]
        with self._lock:
            self._in_turn.remove(old)
        until(lambda: self._asked[old] == 0, "the end of its requests")
        old.stop()
        new = self._services[place] = self._stack.enter_context(self._hosts[place].serving())
        with self._lock:
            self._asked[new] = 0
            self._in_turn.append(new)

    def send(self, path: str, **more: Any) -> Answer | None:
        """The answer of one host; None if it gave none."""
        with self._lock:
            service = self._in_turn.pop(0)
            self._in_turn.append(service)
            self._asked[service] += 1
        try:
            return service.ask(path, key=self._hosts[0].key, **more)
        except OSError as error:
            self.failed.append(error)
            return None
        finally:
            with self._lock:
                self._asked[service] -= 1

    def use(self, over: threading.Event) -> None:
        """Creates, reads and lists notes until it is over."""
        while not over.is_set():
            made = self.send("/v1/notes", method="POST", body={"title": "Lamp"})
            path = f"/v1/notes/{made.json['data']['id']}" if made and made.status == 201 else ""
            for answer in (made, path and self.send(path), self.send("/v1/notes?search=lamp")):
                if not answer or answer.status not in (200, 201):
                    self.failed.append(answer)
            self.answered += 3


def test_hosts_get_a_new_field_one_after_the_other_and_no_request_fails(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    places = [tmp_path / name for name in ("first", "second", "third")]
    for place in places:
        (place / "kinds").mkdir(parents=True)
        (place / "kinds" / "notes.py").write_text(BEFORE)
    first = boundless(places[0], database_url=postgres.fresh_database())
    hosts = [first, *(beside(first, place) for place in places[1:])]
    for host in hosts[1:]:
        host.data.mkdir()
        shutil.copy(first.data / SECRET_FILE, host.data / SECRET_FILE)
    fleet, over = Fleet(hosts), threading.Event()
    clients = [threading.Thread(target=fleet.use, args=(over,)) for _ in range(3)]
    try:
        for client in clients:
            client.start()
        for number, place in enumerate(places):
            (place / "kinds" / "notes.py").write_text(AFTER)
            fleet.restart(number)
            enough = fleet.answered + 60
            until(lambda: fleet.answered >= enough, "answers")  # noqa: B023 - called at once
    finally:
        over.set()
        for client in clients:
            client.join()
        last = fleet.send("/v1/notes")
        fleet.close()
    assert fleet.failed == []
    assert last is not None
    assert {note["place"] for note in last.json["data"]} == {"desk"}
