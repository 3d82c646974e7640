"""The answers to GET requests (RFC 9110 §8), of which some are kept in memory while valid.

The answers of a route that declares what it `shows` are the same for every permitted caller. They
are kept under the version of that part of the data. Permission and rate limits are checked before
an answer is looked up here.
"""

from array import array
from collections import OrderedDict
from collections.abc import Callable
from typing import Self

import msgspec

from portico.data.database import Dependency, Version
from portico.web.conditions import coded_tag, entity_tag, matches, require_tag
from portico.web.content import BY_CODING, GZIP, LEAST, check_accept, gzipped, takes_gzip
from portico.web.messages import Reply, Request
from portico.web.routing import Endpoint

CACHE = ("cache-control", "private, no-cache")
"""Only the caller's own cache may keep an answer, and must revalidate it by its entity tag."""

_SHORT, _LONG = (CACHE,), (CACHE, BY_CODING)
"""The headers of every answer beside its tag, also of 304."""

_OVERHEAD = 470
"""Bytes of memory for a kept answer beside its body and its key."""

REMEMBERED = 1 << 12
"""How many missed keys are remembered at most. Fewer than there is room for, so that an answer
that is let in is requested more often than the one that is evicted."""


class Representation(msgspec.Struct, gc=False):
    """The body of a success with its entity tags, ready to be sent again.

    The garbage collector does not track them: it would walk a hundred thousand at a time, and none
    is part of a cycle.
    """

    _body: bytes
    _headers: tuple[tuple[str, str], ...]
    _tag: str
    size: int
    """Bytes of the body, in each coding that was requested, and of headers such as `Link`."""
    _gzipped: bytes | None = None

    @classmethod
    def of(cls, reply: Reply) -> Self:
        """The representation that a reply sends."""
        size = len(reply.body)
        for _, value in reply.headers:
            size += len(value)
        return cls(reply.body, tuple(reply.headers), entity_tag(reply.body), size)

    def reply(self, request: Request) -> Reply:
        """The reply to this request: compressed if it is worth it, 304 if the client has the
        current version. Raises `PreconditionFailed` if `If-Match` names another."""
        if "if-match" in request.headers:
            require_tag(request, self._tag)
        is_long = len(self._body) >= LEAST
        coded = is_long and takes_gzip(request)
        tag = coded_tag(self._tag) if coded else self._tag
        headers = [("etag", tag), *(_LONG if is_long else _SHORT)]
        known = request.listed("if-none-match")
        if known is not None and matches(known, tag, weak=True):
            return Reply(304, b"", headers)
        if not coded:
            return Reply(200, self._body, [*self._headers, *headers])
        if self._gzipped is None:
            self._gzipped = gzipped(self._body)
            self.size += len(self._gzipped)
        return Reply(200, self._gzipped, [*self._headers, *headers, GZIP])


def tagged(request: Request, reply: Reply) -> Reply:
    """The reply to a GET that is not kept, with its entity tag, compression and conditions. Raises
    `PreconditionFailed`."""
    headers = request.headers
    if len(reply.body) >= LEAST or "if-none-match" in headers or "if-match" in headers:
        return Representation.of(reply).reply(request)
    reply.headers += ("etag", entity_tag(reply.body)), *_SHORT
    return reply


class _Kept(Representation, gc=False):
    """A kept representation, valid while this part of the data has this version."""

    part: Dependency = ()
    version: Version = 0
    counted: int = 0
    """The size that `Representations.size` includes for it."""


class Representations:
    """The representations that this process keeps, within a bound; the least recently used is
    evicted first.

    When there is no room, an answer that is requested once evicts nothing: it is kept from the
    second request on.
    """

    def __init__(self, bound: int) -> None:
        """`bound` is in bytes; 0 keeps nothing."""
        self._bound = bound
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._missed = array("q", bytes(8 * REMEMBERED))
        """The hashes of missed keys, as a table in which a new one replaces the old."""
        self.size = 0
        """In bytes."""
        self.hits = 0
        self.misses = 0

    async def find(self, request: Request, endpoint: Endpoint) -> Reply | None:
        """The kept answer to a request, if there is a valid one. Raises `NotAcceptable` and
        `PreconditionFailed`."""
        key = _key(request, endpoint)
        kept = self._kept.get(key)
        if kept is None or kept.version != await request.environment.db.version_of(kept.part):
            return None
        check_accept(request, endpoint.media)
        self.hits += 1
        reply = kept.reply(request)
        if self._kept.get(key) is kept:  # it may have been evicted meanwhile
            self._kept.move_to_end(key)
            if kept.size != kept.counted:
                self._count(kept)
        return reply

    async def read(
        self, request: Request, endpoint: Endpoint, shows: Callable[[Request], Dependency]
    ) -> Reply:
        """The handler's answer, which is kept from now on if there is room."""
        part = shows(request)
        # Before the handler reads: a change in the meantime then makes another version.
        version = await request.environment.db.version_of(part)
        reply = await endpoint.handler(request)
        self.misses += 1
        key = _key(request, endpoint)
        made = _Kept.of(reply)
        made.size += _OVERHEAD + len(key)
        answer = made.reply(request)  # adds the compressed size
        if version is None or not self._has_room(key, made.size):
            return answer
        made.part, made.version = part, version
        if before := self._kept.pop(key, None):
            self.size -= before.counted
        self._kept[key] = made
        self._count(made)
        return answer

    def _has_room(self, key: str, size: int) -> bool:
        """Whether to keep an answer of so many bytes, even if others must be evicted."""
        if size > self._bound:
            return False
        if key in self._kept or self.size + size <= self._bound:
            return True
        asked = hash(key)
        place = asked % REMEMBERED
        if self._missed[place] == asked:
            return True
        self._missed[place] = asked
        return False

    def _count(self, kept: _Kept) -> None:
        """Updates the total by one answer's size, and evicts others beyond the bound."""
        self.size += kept.size - kept.counted
        kept.counted = kept.size
        while self.size > self._bound:
            _, oldest = self._kept.popitem(last=False)
            self.size -= oldest.counted


def _key(request: Request, endpoint: Endpoint) -> str:
    """The key of an answer: the endpoint's number (which implies version, host and environment),
    the query, preceded by its length, and the path as it was routed."""
    query = request.query_string
    return f"{endpoint.number} {len(query)} {query}{request.path}"
