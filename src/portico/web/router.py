"""Finds the routes at the path of a request, by dictionary look-ups only."""

import re
from collections.abc import Sequence
from functools import lru_cache

from portico.core.errors import Unreadable
from portico.web.cors import Sharing
from portico.web.messages import Scope
from portico.web.routing import ID, ID_PART, AnyRoute, Endpoint, Mount, PathMatch

LONGEST_HOST = 261
"""The longest host name (RFC 1035 §2.3.4) with a port, in characters. Longer ones are not cached,
since any client can make them up."""

_HOST = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=%:\[\]-]*")
"""The characters of a host with a port (RFC 3986 §3.2.2)."""


@lru_cache(maxsize=4096)
def host_name(host: str) -> str:
    """A host in its normal form (RFC 9110 §4.2.3, §7.2): lower case, without the port of HTTPS and
    without the dot that ends an absolute name."""
    name, colon, port = host.lower().rpartition(":")
    if not colon or "]" in port:  # the last colon is inside an IPv6 address
        name, port = host.lower(), ""
    name = name.removesuffix(".")
    return name if port in ("", "443") else f"{name}:{port}"


@lru_cache(maxsize=4096)
def _is_host(text: str) -> bool:
    return _HOST.fullmatch(text) is not None


def _host_header(scope: Scope) -> str:
    """The Host header, empty if there is none. Raises `Unreadable` if it is missing in HTTP/1.1,
    was sent twice or is not a host (RFC 9112 §3.2): a proxy in front may have chosen by another
    host."""
    hosts = scope.headers.get_all("host")
    if len(hosts) != 1 and (hosts or scope.http_version == "1.1"):
        raise Unreadable("Send the Host header once.")
    host = hosts[0] if hosts else ""
    is_host = _is_host if len(host) <= LONGEST_HOST else _HOST.fullmatch
    if not is_host(host):
        raise Unreadable("Send a Host header with a host name only.")
    return host


class _Branch:
    """A node of the tree of paths that have an id before their last segment. `next` has the nodes
    below by path segment, with None for an id; `match` belongs to the path that ends here."""

    __slots__ = ("match", "next")

    def __init__(self) -> None:
        self.next: dict[str | None, _Branch] = {}
        self.match: PathMatch | None = None


class Router:
    """The routing table of all mounts."""

    def __init__(self, mounts: Sequence[Mount]) -> None:
        """Paths outside every mount are answered by the first mount."""
        self._mounts = mounts
        hosts = {host_name(mount.host) for mount in mounts if mount.host}
        # With a single host its name is ignored, so that every address of the server works.
        self._by_host = len(hosts) > 1
        self._exact: dict[str, PathMatch] = {}
        self._everywhere: dict[str, PathMatch] = {}
        self._with_id: dict[str, PathMatch] = {}
        self._inside = _Branch()
        self._named: list[tuple[str, PathMatch]] = []
        """What takes a text for an id, and the path before that."""
        self._bases: list[tuple[str, PathMatch]] = []
        """For each mount its base, the longest first, and what is found below it where nothing
        is."""
        for mount in mounts:
            self._add(mount)
        self._bases.sort(key=lambda one: -len(one[0]))
        outside = mounts[0]
        self._outside = PathMatch(
            outside.environment, outside.responder, {}, outside.cors.get(Sharing.LISTED)
        )

    def _add(self, mount: Mount) -> None:
        host = host_name(mount.host) if self._by_host else ""
        if mount.host:
            cors = mount.cors.get(Sharing.LISTED)
            nothing = PathMatch(mount.environment, mount.responder, {}, cors, mount.extra_headers)
            self._bases.append((host + mount.prefix, nothing))
        for route in mount.routes:
            if not mount.responder.serves(route.access):
                raise ValueError(
                    f"{route.method} {route.path}: its responder cannot check its access."
                )
            match = self._match_at(host, mount, route)
            environment = mount.environment.name if mount.environment else ""
            name = f"/{mount.name}" if mount.name else ""
            endpoint = Endpoint(route, environment, name + route.path)
            match.methods[route.method] = endpoint
            if route.method == "GET":
                match.methods["HEAD"] = endpoint

    def _match_at(self, host: str, mount: Mount, route: AnyRoute) -> PathMatch:
        """The match of the route's path; the first route at a path creates it."""
        key = host + mount.prefix + route.path
        cors = mount.cors.get(route.sharing)
        made = PathMatch(mount.environment, mount.responder, {}, cors, mount.extra_headers)
        if not route.ids:
            table = self._exact if mount.host else self._everywhere
            return table.setdefault(key, made)
        parent = key.removesuffix(f"/{ID}")
        if "{" not in parent:
            if route.named and parent not in self._with_id:
                self._named.append((f"{parent}/", made))
            return self._with_id.setdefault(parent, made)
        branch = self._inside
        for part in key.split("/"):
            branch = branch.next.setdefault(None if ID_PART.fullmatch(part) else part, _Branch())
        branch.match = branch.match or made
        return branch.match

    def find(self, path: str, scope: Scope) -> tuple[PathMatch, Sequence[str]]:
        """The match of a path, and the ids in it as the client sent them. An unknown path gets a
        match without methods. With several hosts, the authority of the request target takes
        precedence over the Host header (RFC 9112 §3.2.2, RFC 9113 §8.3.1). Raises `Unreadable` for
        a Host header that RFC 9112 §3.2 forbids."""
        host = _host_header(scope)
        where = path
        if self._by_host:
            host = scope.authority or host
            where = (host_name(host) if len(host) <= LONGEST_HOST else host) + path
        match = self._exact.get(where)
        if match is not None:
            return match, ()
        parent, _, last = where.rpartition("/")
        match = self._with_id.get(parent)
        if match is not None and last:
            return match, (last,)
        match = self._everywhere.get(path)
        if match is not None:
            return match, ()
        return self._find_inside(where) or self._find_url(where) or (self._nowhere(where), ())

    def _find_url(self, where: str) -> tuple[PathMatch, Sequence[str]] | None:
        """The match of a path that ends in a URL for an id. Its slashes came encoded, but the path
        is decoded by now."""
        for before, match in self._named:
            if where.startswith(f"{before}https://"):
                return match, (where.removeprefix(before),)
        return None

    def _find_inside(self, where: str) -> tuple[PathMatch, Sequence[str]] | None:
        """The match of a path that has an id before its last segment, if there is one."""
        branch = self._inside
        ids: list[str] = []
        for part in where.split("/"):
            following = branch.next.get(part)
            if following is None:
                following = branch.next.get(None)
                if following is None or not part:
                    return None
                ids.append(part)
            branch = following
        return None if branch.match is None else (branch.match, ids)

    def _nowhere(self, where: str) -> PathMatch:
        """The match of an unknown path, with what the innermost mount around it declares."""
        for base, match in self._bases:
            if where.startswith(base) and (len(where) == len(base) or where[len(base)] == "/"):
                return match
        return self._outside
