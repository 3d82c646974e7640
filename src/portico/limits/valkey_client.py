"""Connections to Valkey or Redis: to one server, to the primary that Sentinels name, or to a
cluster.

`store` makes one of the three from a URL. They have the same methods: `send`, `queue`, `samples`,
`recover` and `close`.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from valkey.asyncio import Connection, ConnectionPool, Sentinel, Valkey
from valkey.asyncio.connection import SSLConnection, parse_url
from valkey.crc import key_slot
from valkey.exceptions import InvalidResponse, ReadOnlyError, ResponseError, ValkeyError

from portico.core.networks import read_store_url
from portico.data.database import in_time

ANSWER_SECONDS = 1.0
"""How long one exchange may take, including a new connection."""

NODE_SECONDS = 0.3
"""How long a Sentinel or a cluster node may take, so that there is time to ask another."""

SLOTS = 16_384

UNUSABLE = "the address of the Valkey server is not a usable URL"
NAMELESS = "the hosts must be followed by the primary's name: +sentinel://h1:26379,h2:26379/NAME"
NUMBERED = "a cluster has no databases: the hosts must not be followed by a path"
SEVERAL = "several hosts must be Sentinels (+sentinel) or nodes of a cluster (+cluster)"

PASSING = ("ASK ", "CLUSTERDOWN ", "MASTERDOWN ", "TRYAGAIN ")
"""The beginnings of temporary errors, such as until the nodes agree on who has a slot."""

_REPLACED = ("READONLY", "NOREPLICAS", "MOVED", *PASSING)
"""Signs in an error that another server may be in charge. Some servers put them into the middle of
a script's error."""

_PORTS = {"": 6379, "sentinel": 26379, "cluster": 6379}

# `Any`, here and below: valkey-py types its asynchronous classes like the synchronous ones.
Options = dict[str, Any]
HostPort = tuple[str, int]
Command = tuple[int | str, ...]


@contextmanager
def readable() -> Iterator[None]:
    """Turns errors in reading an answer into `InvalidResponse`: another kind of server sent it."""
    try:
        yield
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise InvalidResponse("the answer is not that of a Valkey or Redis server") from error


class OneServer:
    """One server, by its address."""

    takes_any_keys = True
    """Whether one script may have keys in different slots."""

    def __init__(self, options: Options) -> None:
        """`options` are those of valkey-py's connections."""
        secure = options.get("ssl", False)
        self.connected = 0.0
        """When the last connection was made, by `time.monotonic`."""
        pool: Any = ConnectionPool(
            connection_class=SSLConnection if secure else Connection,
            valkey_connect_func=self._greet,
            **{key: value for key, value in options.items() if key != "ssl"},
        )
        pool.make_connection()  # checks the options without connecting
        self.client: Any = Valkey.from_pool(pool)

    def queue(self, _key: str) -> str:
        """The name of the queue of a key. Commands for keys with the same name may be sent
        together."""
        return ""

    async def send(self, _key: str, commands: Iterable[Command]) -> list[Any]:
        """The answers to commands for this key and others of its queue: each an answer or an error.
        Raises `ValkeyError` or `OSError` if there are none."""
        first, *others = commands
        with readable():
            if not others:  # nearly always, and a third faster than a pipeline
                try:
                    return [await self.client.execute_command(*first)]
                except ResponseError as error:
                    return [error]
            pipeline = self.client.pipeline(transaction=False)
            for command in (first, *others):
                pipeline.execute_command(*command)
            answers: list[Any] = await pipeline.execute(raise_on_error=False)
            return answers

    async def samples(self, keys: Iterable[str]) -> list[list[str]]:
        """Keys for a probe, in groups that are each sent together: a store that accepts all of them
        works for every key. One server gets two keys in one group, which no cluster node accepts; a
        cluster gets one key for each primary."""
        return [list(islice(keys, 2))]

    async def recover(self) -> None:
        """Drops idle connections, so that new ones are made: another server may be in charge by
        now."""
        await self.client.connection_pool.disconnect(inuse_connections=False)

    async def close(self) -> None:
        """Closes every connection."""
        await self.client.aclose()

    async def _greet(self, connection: Any) -> None:
        await connection.on_connect()
        self.connected = time.monotonic()


class BySentinel(OneServer):
    """The server that Sentinels name as the primary. They are asked for every new connection."""

    def __init__(self, sentinels: list[HostPort], name: str, options: Options) -> None:
        """`options` may contain `sentinel_username` and `sentinel_password`."""
        own = {key: options.pop(f"sentinel_{key}", None) for key in ("username", "password")}
        own |= {key: value for key, value in options.items() if key.startswith("ssl")}
        own |= {"socket_timeout": NODE_SECONDS}
        self.connected = 0.0
        options["valkey_connect_func"] = self._greet
        self._sentinel: Any = Sentinel(sentinels, sentinel_kwargs=own)  # type: ignore[no-untyped-call]
        self.client = self._sentinel.master_for(name, **options)
        self.client.connection_pool.make_connection()

    async def close(self) -> None:
        await super().close()
        for sentinel in self._sentinel.sentinels:
            await sentinel.aclose()


class InCluster:
    """The nodes of a cluster. Each has its own queue, so that one that is away does not hold up the
    others. valkey-py's `ValkeyCluster` closes the connections to all nodes if one fails."""

    takes_any_keys = False

    def __init__(self, nodes: list[HostPort], options: Options) -> None:
        self._options = {**options, "socket_timeout": NODE_SECONDS}
        self._named = nodes
        self._nodes = {address: self._node(address) for address in nodes}
        self._primaries: list[HostPort] = []
        self._turn = 0

    @property
    def connected(self) -> float:
        return max(node.connected for node in self._nodes.values())

    def queue(self, key: str) -> str:
        return str(self._primaries[key_slot(key.encode())]) if self._primaries else ""

    async def send(self, key: str, commands: Iterable[Command]) -> list[Any]:
        if not self._primaries:
            await self.recover()
        commands = list(commands)
        answers = await self._of_slot(key_slot(key.encode())).send(key, commands)
        if any(map(_has_moved, answers)):
            await self.recover()
            for i, answer in enumerate(answers):
                if _has_moved(answer):
                    with readable():
                        node = self._of_slot(int(str(answer).split()[1]))
                    answers[i], *_ = await node.send(key, [commands[i]])
        return answers

    async def samples(self, keys: Iterable[str]) -> list[list[str]]:
        if not self._primaries:
            await self.recover()
        primaries = len(set(self._primaries))
        found: dict[str, str] = {}
        for key in keys:
            found.setdefault(self.queue(key), key)
            if len(found) == primaries:
                break
        return [[key] for key in found.values()]

    async def recover(self) -> None:
        """Asks the nodes which of them has which slots, beginning with another node each time.
        Raises `ValkeyError` or `OSError` if none answers."""
        addresses = list(dict.fromkeys((*self._nodes, *self._named)))
        self._turn += 1
        first = self._turn  # other calls may change it meanwhile
        error: Exception = ValkeyError("no slots")
        for i in range(len(addresses)):
            address = addresses[(i + first) % len(addresses)]
            node = self._nodes.get(address)
            if node is None:  # another call has removed it meanwhile
                continue
            try:
                with readable():
                    async with in_time(NODE_SECONDS):
                        slots = await node.client.execute_command("CLUSTER SLOTS")
                    await self._follow(address, slots)
            except (ValkeyError, OSError) as silent:  # TimeoutError is an OSError
                error = silent
            else:
                return
        raise error

    async def _follow(self, asked: HostPort, slots: Iterable[Sequence[Any]]) -> None:
        """Takes over the answer of CLUSTER SLOTS. Closes nodes that are no longer listed."""
        unassigned: HostPort = ("", 0)
        primaries = [unassigned] * SLOTS
        listed = dict.fromkeys(self._named)
        for first, last, *nodes in slots:
            # A node that does not know its own address has the one by which it was asked.
            addresses = [(host.decode() if host else asked[0], port) for host, port, *_ in nodes]
            primaries[first : last + 1] = [addresses[0]] * (last + 1 - first)
            listed.update(dict.fromkeys(addresses))
        before = self._nodes
        self._nodes = {address: before.get(address) or self._node(address) for address in listed}
        self._primaries = primaries
        for address, node in before.items():
            if address not in listed:
                await node.close()

    def _of_slot(self, slot: int) -> OneServer:
        node = self._nodes.get(self._primaries[slot])
        if node is None:
            raise ValkeyError(f"no node of the cluster has slot {slot}")
        return node

    def _node(self, address: HostPort) -> OneServer:
        host, port = address
        return OneServer({"host": host, "port": port, **self._options})

    async def close(self) -> None:
        for node in self._nodes.values():
            await node.close()


def _has_moved(answer: object) -> bool:
    return isinstance(answer, ResponseError) and str(answer).startswith("MOVED ")


def _has_failed(answer: object) -> bool:
    if not isinstance(answer, ResponseError) or isinstance(answer, ReadOnlyError):
        return isinstance(answer, Exception)
    return any(sign in str(answer) for sign in _REPLACED)


Store = OneServer | InCluster


async def answer_of(store: Store, key: str, command: Command) -> Any:
    """The answer to one command for this key. Raises `ValkeyError` or `OSError`, also if it does
    not come in time; before that, lets the store recover."""
    try:
        async with in_time(ANSWER_SECONDS):
            (answer,) = await store.send(key, [command])
        if isinstance(answer, Exception):
            raise answer
    except (ValkeyError, OSError) as error:  # TimeoutError is an OSError
        await recover(store, [error])
        raise
    return answer


async def recover(store: Store, answers: Iterable[object]) -> None:
    """Lets a store recover if one of these answers shows that it has failed. A server that merely
    refuses a command has not, and others are using it."""
    if not any(map(_has_failed, answers)):
        return
    with suppress(ValkeyError, OSError):
        async with in_time(ANSWER_SECONDS):
            await store.recover()


class _Address(NamedTuple):
    """The parts of a URL. `kind` is `sentinel`, `cluster` or empty."""

    kind: str
    hosts: list[HostPort]
    path: str
    options: Options


def store(url: str) -> Store:
    """The store of a URL, not connected yet.

    - `valkey://`, `redis://`, or over TLS `valkeys://`, `rediss://`: one server, with a user, a
      password and a database if needed. The query takes options of valkey-py, such as
      `ssl_ca_certs`.
    - `valkey+sentinel://h1:26379,h2:26379/NAME`: the primary that Sentinels know by this name. The
      options include `sentinel_username` and `sentinel_password`.
    - `valkey+cluster://h1:6379,h2:6379`: a cluster, by some of its nodes.

    Raises ValueError for an unusable URL, without quoting it.
    """
    try:
        address = _read(url)
        kind, hosts, path, options = address
        if kind == "sentinel" and path and "/" not in path:
            return BySentinel(hosts, path, options)
        if kind == "cluster" and not path and not options.get("db"):
            return InCluster(hosts, options)
        if not kind and len(hosts) == 1:
            (host, port), *_ = hosts
            return OneServer({"host": host, "port": port, **options})
    except (TypeError, ValueError, ValkeyError, KeyError):
        # Without the cause, which may quote a part of the URL and so of its password.
        raise ValueError(UNUSABLE) from None
    raise ValueError({"sentinel": NAMELESS, "cluster": NUMBERED}.get(kind, SEVERAL))


def _read(url: str) -> _Address:
    given = read_store_url(url)
    scheme, _, kind = given.rest.scheme.partition("+")
    hosts = []
    for named in given.hosts:
        host = urlsplit(f"//{named}")
        if not host.hostname and (kind or len(given.hosts) > 1):
            raise ValueError(UNUSABLE)
        hosts.append((host.hostname or "localhost", host.port or _PORTS[kind]))
    path = given.rest.path.strip("/")
    if not kind and path and not path.isdecimal():  # valkey-py would take it for database 0
        raise ValueError(UNUSABLE)
    # valkey-py parses the rest, and knows only one host and no kinds.
    rest = given.rest._replace(scheme=scheme, path="" if kind else given.rest.path)
    one = given._replace(rest=rest).naming("localhost")
    options: Options = {"socket_timeout": None, **parse_url(one)}
    options.pop("host", None)
    if options.pop("connection_class", None):
        options = {"ssl": True, "ssl_check_hostname": True, **options}
    return _Address(kind, hosts, path, options)
