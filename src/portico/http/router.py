"""Where the path of a request leads."""

from collections.abc import Sequence
from functools import lru_cache

from portico.domain.errors import Unreadable
from portico.http.cors import Sharing
from portico.http.messages import Scope
from portico.http.routing import ID, ID_PART, AnyRoute, Endpoint, Mount, Place

LONGEST_HOST = 261
"""The longest name of a host (RFC 1035 §2.3.4), with a port, in characters. Nothing longer is
remembered, for strangers choose it."""


@lru_cache(maxsize=4096)
def host_name(host: str) -> str:
    """A host in its one spelling (RFC 9110 §4.2.3, §7.2): lower case, without the port of HTTPS
    and without the dot that ends an absolute name."""
    name, colon, port = host.lower().rpartition(":")
    if not colon or "]" in port:  # the last colon of an IPv6 address is none before a port
        name, port = host.lower(), ""
    name = name.removesuffix(".")
    return name if port in ("", "443") else f"{name}:{port}"


class _Branch:
    """Where paths with ids inside lead that begin alike, and what may follow: their next parts, an
    id's being None."""

    __slots__ = ("next", "place")

    def __init__(self) -> None:
        self.next: dict[str | None, _Branch] = {}
        self.place: Place | None = None


class Router:
    """Finds the route of a path by dictionary look-ups alone."""

    def __init__(self, mounts: Sequence[Mount]) -> None:
        """The first mount's environment answers for paths that belong to none."""
        self._mounts = mounts
        hosts = {host_name(mount.host) for mount in mounts if mount.host}
        # One host for all: its name is not looked at, so that any address of the server works.
        self._by_host = len(hosts) > 1
        self._exact: dict[str, Place] = {}
        self._everywhere: dict[str, Place] = {}
        self._with_id: dict[str, Place] = {}
        self._inside = _Branch()
        for mount in mounts:
            self._add(mount)

    def _add(self, mount: Mount) -> None:
        host = host_name(mount.host) if self._by_host else ""
        for route in mount.routes:
            if not mount.responder.serves(route.access):
                raise ValueError(
                    f"{route.method} {route.path}: its responder cannot tell who calls."
                )
            place = self._place(host, mount, route)
            environment = mount.environment.name if mount.environment else ""
            name = f"/{mount.name}" if mount.name else ""
            endpoint = Endpoint(route, environment, name + route.path)
            place.methods[route.method] = endpoint
            if route.method == "GET":
                place.methods["HEAD"] = endpoint

    def _place(self, host: str, mount: Mount, route: AnyRoute) -> Place:
        """Where a route's path leads, made by the first route there."""
        key = host + mount.prefix + route.path
        cors = mount.cors.get(route.sharing)
        made = Place(mount.environment, mount.responder, {}, cors, mount.extra_headers)
        if not route.ids:
            table = self._exact if mount.host else self._everywhere
            return table.setdefault(key, made)
        parent = key.removesuffix(f"/{ID}")
        if "{" not in parent:
            return self._with_id.setdefault(parent, made)
        branch = self._inside
        for part in key.split("/"):
            branch = branch.next.setdefault(None if ID_PART.fullmatch(part) else part, _Branch())
        branch.place = branch.place or made
        return branch.place

    def find(self, path: str, scope: Scope) -> tuple[Place, Sequence[str]]:
        """Where a path leads, and the texts of the ids in it. Where hosts matter, the target's own
        comes before the header's (RFC 9112 §3.2.2, RFC 9113 §8.3.1). Raises `Unreadable` for two
        (RFC 9112 §3.2)."""
        where = path
        if self._by_host:
            hosts = scope.headers.get_all("host")
            if len(hosts) > 1:
                raise Unreadable("Send the Host header once.")
            host = scope.authority or "".join(hosts)
            where = (host_name(host) if len(host) <= LONGEST_HOST else host) + path
        place = self._exact.get(where)
        if place is not None:
            return place, ()
        parent, _, last = where.rpartition("/")
        place = self._with_id.get(parent)
        if place is not None and last:
            return place, (last,)
        place = self._everywhere.get(path)
        if place is not None:
            return place, ()
        return self._find_inside(where) or (self._nowhere(where), ())

    def _find_inside(self, where: str) -> tuple[Place, Sequence[str]] | None:
        """Where a path leads that has ids elsewhere than at its end alone."""
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
        return None if branch.place is None else (branch.place, ids)

    def _nowhere(self, where: str) -> Place:
        """The innermost mount around a path that leads nowhere."""
        best = self._mounts[0]
        longest = -1
        for mount in filter(lambda mount: mount.host, self._mounts):
            base = (host_name(mount.host) if self._by_host else "") + mount.prefix
            if len(base) > longest and (where == base or where.startswith(f"{base}/")):
                best, longest = mount, len(base)
        extra_headers = best.extra_headers if longest >= 0 else ()
        cors = best.cors.get(Sharing.LISTED)
        return Place(best.environment, best.responder, {}, cors, extra_headers)
