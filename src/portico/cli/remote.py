"""The API as the source of a command, on a machine that has no data directory."""

from __future__ import annotations

import os
import ssl
import sys
import time
from argparse import Namespace
from collections.abc import Generator, Iterator, Sequence
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

import msgspec
from msgspec import UNSET, Raw, UnsetType

from portico.cli.output import CommandError, mention, plain
from portico.core.events import StoredEvent
from portico.core.times import moment
from portico.lost import is_prepared
from portico.settings import Settings

PAGE = 100
ANSWER_SECONDS = 45.0
"""How long an answer may take, and a stream be silent: it has a comment every 15 seconds."""

AGAIN_SECONDS = 1.0
"""How long to wait before a stream that ended is opened again."""


class _Sent(msgspec.Struct):
    """An event as the API sends it."""

    id: int
    type: str
    timestamp: str
    data: Raw
    previous: Raw | UnsetType = UNSET

    def stored(self) -> StoredEvent:
        """The event as the database has it."""
        previous = None if self.previous is UNSET else bytes(self.previous).decode()
        at = moment(self.timestamp)
        return StoredEvent(self.id, self.type, at, bytes(self.data).decode(), previous)


class _Position(msgspec.Struct):
    has_more: bool


class _Page(msgspec.Struct):
    data: list[_Sent]
    pagination: _Position


def chosen_api(settings: Settings, chosen: Namespace) -> Api | None:
    """The API that a command shall read; None: the database. Raises `CommandError`."""
    named = chosen.base_url
    if named is None and not chosen.api_key_stdin:
        named = os.environ.get("PORTICO_BASE_URL") and os.environ.get("PORTICO_API_KEY")
        if not named or is_prepared(settings):
            return None
    base = named or os.environ.get("PORTICO_BASE_URL") or "https://localhost:8443/v1"
    if chosen.sandbox:
        raise CommandError("--sandbox is for a data directory: name the sandbox's address.", 2)
    parts = urlsplit(base)
    if parts.scheme != "https" or not parts.hostname:
        raise CommandError(f"{plain(base)} is not an https:// address", 2)
    given = sys.stdin.readline() if chosen.api_key_stdin else os.environ.get("PORTICO_API_KEY", "")
    key = given.strip()
    if not key or not key.isascii() or not key.isprintable():
        raise CommandError("Set PORTICO_API_KEY, or send the key to --api-key-stdin.", 2)
    return Api(base.rstrip("/"), key)


class Api:
    """One environment's API."""

    def __init__(self, base: str, key: str) -> None:
        self.base = base
        self._key = key
        trusted = os.environ.get("PORTICO_CA") or None
        try:
            tls = ssl.create_default_context(cafile=trusted)
        except OSError as error:
            raise CommandError(f"PORTICO_CA cannot be read: {error}", 2) from None
        self._opener: OpenerDirector = build_opener(HTTPSHandler(context=tls), _NoRedirects)

    def event_pages(
        self, after: int, types: Sequence[str] | None, limit: int
    ) -> Iterator[tuple[list[StoredEvent], bool]]:
        """Events, oldest first, in pages with whether there are more. Raises `CommandError`."""
        has_more = True
        while limit and has_more:
            query: dict[str, Any] = {"after": after, "limit": min(limit, PAGE)}
            if types:
                query["type"] = ",".join(types)
            with self._opened("events", query) as answer:
                try:
                    page = msgspec.json.decode(answer.read(), type=_Page)
                except (msgspec.MsgspecError, OSError, HTTPException) as error:
                    raise CommandError(f"{self.base} sent no list of events: {error}") from None
            has_more = page.pagination.has_more
            found = [one.stored() for one in page.data]
            yield found, has_more
            if not found:
                return
            limit, after = limit - len(found), found[-1].id

    def events(
        self, after: int | None, types: Sequence[str] | None
    ) -> Generator[StoredEvent, None, None]:
        """Events as they happen, without end. A connection that breaks is made again. Raises
        `CommandError` if the API refuses."""
        lost = False
        while True:
            query: dict[str, Any] = {"type": ",".join(types)} if types else {}
            if after is not None:
                query["after"] = after
            try:
                with self._opened("events/stream", query) as answer:
                    lost = False
                    for line in answer:
                        if line.startswith(b"data:"):
                            event = msgspec.json.decode(line[5:], type=_Sent).stored()
                            yield event
                            after = event.id
                fault = "The stream ended."
            except (_Unreachable, OSError, HTTPException) as error:
                fault = str(error) or "The connection is lost."
            if not lost:
                mention(f"{plain(fault)} Trying again.")
            lost = True
            time.sleep(AGAIN_SECONDS)

    def _opened(self, path: str, query: dict[str, Any]) -> Any:
        headers = {"authorization": f"Bearer {self._key}", "accept-encoding": "identity"}
        request = Request(f"{self.base}/{path}?{urlencode(query)}", headers=headers)  # noqa: S310 - https, as was checked
        try:
            return self._opener.open(request, timeout=ANSWER_SECONDS)
        except HTTPError as error:
            with error:
                kind = _Unreachable if error.code >= 500 else CommandError
                raise kind(_reason(error)) from None
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise _Unreachable(f"{self.base} cannot be reached: {reason}") from None


class _Unreachable(CommandError):
    """There is no answer, or none yet."""


class _NoRedirects(HTTPRedirectHandler):
    """Sends the key nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _reason(error: HTTPError) -> str:
    """What the API says of a refusal."""
    try:
        refusal = msgspec.json.decode(error.read())["error"]
        return f"{refusal['code']}: {plain(refusal['message'])}"
    except (msgspec.MsgspecError, KeyError, TypeError, OSError):
        return f"The answer is {error.code}, and not from Portico."
