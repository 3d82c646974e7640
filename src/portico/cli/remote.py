"""The API as the source of a command, on a machine that has no data directory."""

from __future__ import annotations

import os
import re
import secrets
import ssl
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
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
from portico.web.reading import NotJson, parse_json

PAGE = 100
ANSWER_SECONDS = 45.0
"""How long an answer may take, and a stream be silent: it has a comment every 15 seconds."""

AGAIN_AFTER = (1.0, 2.0, 4.0, 8.0, 16.0)
"""How long to wait before something is asked again, in seconds."""

_NEXT = re.compile(r'<[^>?]*\?([^>]*)>; *rel="next"')

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
        is_named = all(os.environ.get(name) for name in ("PORTICO_BASE_URL", "PORTICO_API_KEY"))
        if not is_named or is_prepared(settings):
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

    def read(self, path: str, query: str = "") -> tuple[Any, str]:
        """The JSON at a path, fractions as `Decimal`, and the query of the next page, if there is
        one. Raises `CommandError`."""
        with self._again(lambda: self._asked(path, query)) as answer:
            value = self._value(answer)
            found = _NEXT.search(answer.headers.get("link") or "")
        return value, found[1] if found else ""

    def pages(self, path: str, filters: Mapping[str, str]) -> Iterator[list[Any]]:
        """The items of a list, in pages. Raises `CommandError`."""
        query = urlencode({"limit": PAGE, **filters})
        while query:
            page, query = self.read(path, query)
            yield page["data"]

    def send(self, path: str, body: bytes) -> Any:
        """The JSON answer to a POST, which is repeated safely. Raises `CommandError`."""
        key = {"idempotency-key": secrets.token_hex(16), "content-type": "application/json"}
        with self._again(lambda: self._asked(path, "", body, key)) as answer:
            return self._value(answer)

    def _value(self, answer: Any) -> Any:
        try:
            return parse_json(answer.read().decode(), sys.maxsize)
        except (NotJson, UnicodeDecodeError, OSError, HTTPException) as error:
            raise CommandError(f"{self.base} sent no JSON: {error}") from None

    def _again(self, ask: Callable[[], Any]) -> Any:
        """Asks until the limit is no more reached, and a few times where there is no answer. Raises
        `CommandError`."""
        for pause in AGAIN_AFTER:
            try:
                return ask()
            except _Unreachable as error:
                mention(f"{plain(str(error))} Trying again.")
                time.sleep(pause)
            except RefusedRequest as error:
                if error.status != 429:
                    raise
                mention(f"The limit is reached. Going on in {error.retry_after} s.")
                time.sleep(error.retry_after)
        return ask()

    def _opened(self, path: str, query: dict[str, Any]) -> Any:
        return self._asked(path, urlencode(query))

    def _asked(
        self,
        path: str,
        query: str,
        body: bytes | None = None,
        more: Mapping[str, str] | None = None,
    ) -> Any:
        headers = {"authorization": f"Bearer {self._key}", "accept-encoding": "identity"}
        address = f"{self.base}/{path}?{query}" if query else f"{self.base}/{path}"
        request = Request(address, body, headers | dict(more or {}))  # noqa: S310 - https, as was checked
        try:
            return self._opener.open(request, timeout=ANSWER_SECONDS)
        except HTTPError as error:
            with error:
                said, refusal = _reason(error)
                if error.code >= 500:
                    raise _Unreachable(said) from None
                raise RefusedRequest(said, error, refusal) from None
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise _Unreachable(f"{self.base} cannot be reached: {reason}") from None


class _Unreachable(CommandError):
    """There is no answer, or none yet."""


class RefusedRequest(CommandError):
    """The API refuses; `error` is that of its body, and `retry_after` in seconds."""

    def __init__(self, reason: str, answer: HTTPError, error: Any) -> None:
        super().__init__(reason)
        self.status = answer.code
        self.error = error
        seconds = answer.headers.get("retry-after") or ""
        self.retry_after = int(seconds) if re.fullmatch("[0-9]{1,6}", seconds) else 60


class _NoRedirects(HTTPRedirectHandler):
    """Sends the key nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _reason(error: HTTPError) -> tuple[str, Any]:
    """What the API says of a refusal, and the error itself."""
    try:
        refusal = msgspec.json.decode(error.read())["error"]
        return f"{refusal['code']}: {plain(refusal['message'])}", refusal
    except (msgspec.MsgspecError, KeyError, TypeError, OSError):
        message = f"The answer is {error.code}, and not from Portico."
        return message, {"message": message, "details": []}
