"""What a GET is answered with (RFC 9110 §8), and those answers that are kept while they are true.

A route that declares what it `shows` has answers that are the same for all who may have them. They
are kept under the version of that part of the data; whether a caller may have one, and whether it
is counted, was settled before anything is looked for here.
"""

from array import array
from collections import OrderedDict
from collections.abc import Callable
from typing import Self

import msgspec

from portico.http.conditions import coded_tag, entity_tag, matches, require_tag
from portico.http.content import BY_CODING, GZIP, LEAST, check_accept, gzipped, takes_gzip
from portico.http.messages import Reply, Request
from portico.http.routing import Endpoint
from portico.storage.parts import Part, Version

CACHE = ("cache-control", "private, no-cache")
"""A caller's answers are theirs alone, and fresh: caches ask with the entity tag."""

_SHORT, _LONG = (CACHE,), (CACHE, BY_CODING)
"""What stands on every answer beside its tag, 304 too."""

_OVERHEAD = 470
"""Bytes that keeping one takes beside its body and its address."""

REMEMBERED = 1 << 12
"""Of how many answers it is known at most that somebody has asked for them: fewer than there is
room for, so that what comes in is asked for more than what goes."""


class Representation(msgspec.Struct, gc=False):
    """The body of a success with its entity tags, ready to be sent again.

    The garbage collector is spared them: it would walk a hundred thousand at a time, and none is
    part of a cycle.
    """

    _body: bytes
    _headers: tuple[tuple[str, str], ...]
    _tag: str
    size: int
    """Bytes of the body, in each coding that was asked for, and of headers such as `Link`."""
    _gzipped: bytes | None = None

    @classmethod
    def of(cls, reply: Reply) -> Self:
        """That of a reply."""
        size = len(reply.body)
        for _, value in reply.headers:
            size += len(value)
        return cls(reply.body, tuple(reply.headers), entity_tag(reply.body), size)

    def reply(self, request: Request) -> Reply:
        """As this caller takes it: compressed where that pays, or 304 where they have it. Raises
        `PreconditionFailed` where they want another."""
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
    """A success that is not kept, with its entity tag, as this caller takes it. Raises
    `PreconditionFailed`."""
    headers = request.headers
    if len(reply.body) >= LEAST or "if-none-match" in headers or "if-match" in headers:
        return Representation.of(reply).reply(request)
    reply.headers += ("etag", entity_tag(reply.body)), *_SHORT
    return reply


class _Kept(Representation, gc=False):
    """One that is true for as long as that part of the data has this version."""

    part: Part = ()
    version: Version = 0
    counted: int = 0
    """The size that it was last counted with."""


class Representations:
    """Those that this process keeps, within a bound; the least recently used go first.

    Where there is no room, what is asked for once drives nothing out: it is kept from the second
    time on.
    """

    def __init__(self, bound: int) -> None:
        """`bound` is in bytes; with 0 none is kept."""
        self._bound = bound
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._asked = array("q", bytes(8 * REMEMBERED))
        """The hashes of keys that were asked for, each at a place of its own or of another's."""
        self.size = 0
        """In bytes."""
        self.hits = 0
        self.misses = 0

    async def find(self, request: Request, endpoint: Endpoint) -> Reply | None:
        """The answer to a request, where it is kept and true. Raises `NotAcceptable` and
        `PreconditionFailed`."""
        key = _key(request, endpoint)
        kept = self._kept.get(key)
        if kept is None or kept.version != await request.environment.db.version_of(kept.part):
            return None
        check_accept(request, endpoint.media)
        self.hits += 1
        reply = kept.reply(request)
        if self._kept.get(key) is kept:  # it may have gone for others meanwhile
            self._kept.move_to_end(key)
            if kept.size != kept.counted:
                self._count(kept)
        return reply

    async def read(
        self, request: Request, endpoint: Endpoint, shows: Callable[[Request], Part]
    ) -> Reply:
        """The handler's answer, which is kept from now on, where it is worth the room."""
        part = shows(request)
        # Before anything is read: what changes while the handler reads has then another version.
        version = await request.environment.db.version_of(part)
        reply = await endpoint.handler(request)
        self.misses += 1
        key = _key(request, endpoint)
        made = _Kept.of(reply)
        made.size += _OVERHEAD + len(key)
        answer = made.reply(request)  # which adds what it takes compressed
        if version is None or not self._has_room(key, made.size):
            return answer
        made.part, made.version = part, version
        if before := self._kept.pop(key, None):
            self.size -= before.counted
        self._kept[key] = made
        self._count(made)
        return answer

    def _has_room(self, key: str, size: int) -> bool:
        """Whether one of so many bytes is to be kept, if others must go for it."""
        if size > self._bound:
            return False
        if key in self._kept or self.size + size <= self._bound:
            return True
        asked = hash(key)
        place = asked % REMEMBERED
        if self._asked[place] == asked:
            return True
        self._asked[place] = asked
        return False

    def _count(self, kept: _Kept) -> None:
        """Counts the bytes of one, and has others go where there are too many."""
        self.size += kept.size - kept.counted
        kept.counted = kept.size
        while self.size > self._bound:
            _, oldest = self._kept.popitem(last=False)
            self.size -= oldest.counted


def _key(request: Request, endpoint: Endpoint) -> str:
    """What answers are kept under: an endpoint, which is of one version at one host in one
    environment, and the query, which has so many characters, and the path as it was routed."""
    query = request.query_string
    return f"{endpoint.number} {len(query)} {query}{request.path}"
