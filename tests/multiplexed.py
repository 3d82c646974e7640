"""An HTTP/2 client that tests control frame by frame (RFC 9113): it can send what no client should,
and delay the opening of its windows."""

import contextlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from hpack import Decoder, Encoder

from operating import Service, until

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS, ACKNOWLEDGED = 1, 4, 1
MAX_STREAMS, INITIAL_WINDOW = 3, 4
MOST = 16_384
"""The most bytes of a frame's payload (§4.2)."""

Fields = list[tuple[str, str]]


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame (§4.1)."""
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags])
    return head + stream.to_bytes(4, "big") + payload


@dataclass
class Exchange:
    """The response on one stream."""

    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    ended: bool = False
    reset: int | None = None
    """The error code (§7), if the server reset it."""

    @property
    def status(self) -> int:
        """The status, or 0 before it has arrived."""
        return int(self.headers.get(":status", 0))


class Multiplexed:
    """One connection, with the responses by stream."""

    def __init__(self, service: Service, *, window: int = 65_535, reads: bool = True) -> None:
        """`window` is the initial window: how many bytes of a response the server may send. If the
        client `reads`, it enlarges the window by what it receives."""
        self._service = service
        self._reads = reads
        context = service.trusting()
        context.set_alpn_protocols(["h2", "http/1.1"])
        self.socket = service.connect(context=context)
        assert self.socket.selected_alpn_protocol() == "h2"
        self._encoder = Encoder()
        self._decoder = Decoder()
        self._next = 1
        self._heard = b""
        self.exchanges: dict[int, Exchange] = {}
        self.most_streams = 0
        """How many requests the server accepts at once."""
        self.ended: int | None = None
        """The error code with which the server closed the connection, -1 if it gave none."""
        settings = frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW, window))
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings)
        until(lambda: self.most_streams or not self.hear(), "its settings")

    def __enter__(self) -> "Multiplexed":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def fields(self, path: str | None, *more: tuple[str, str], method: str = "GET") -> bytes:
        """The encoded fields of a request, with the first admin's credential."""
        made: Fields = [(":method", method), (":scheme", "https"), (":authority", "localhost")]
        made += [(":path", path)] if path is not None else []
        made += [("authorization", f"Bearer {self._service.installation.key}")]
        return bytes(self._encoder.encode([*made, *more]))

    def begin(
        self, path: str | None, *more: tuple[str, str], method: str = "GET", whole: bool = True
    ) -> int:
        """Sends a request, and returns the number of its stream. Unless it is `whole`, a body is to
        follow."""
        number, self._next = self._next, self._next + 2
        self.exchanges[number] = Exchange()
        flags = END_HEADERS | (END_STREAM if whole else 0)
        block = self.fields(path, *more, method=method)
        first, *rest = [block[at : at + MOST] for at in range(0, len(block), MOST)]
        sent = frame(HEADERS, flags & ~END_HEADERS if rest else flags, number, first)
        for at, part in enumerate(rest, 1):
            sent += frame(CONTINUATION, END_HEADERS if at == len(rest) else 0, number, part)
        self.socket.sendall(sent)
        return number

    def hear(self, seconds: float = 20) -> bool:
        """Receives the next data. Returns False if the connection is closed; raises TimeoutError if
        nothing arrives."""
        self.socket.settimeout(seconds)
        try:
            data = self.socket.recv(65_536)
        except TimeoutError:
            raise
        except OSError:
            data = b""
        if not data:
            self.ended = -1 if self.ended is None else self.ended
            return False
        self._heard += data
        while len(self._heard) >= 9 + (size := int.from_bytes(self._heard[:3], "big")):
            kind, flags = self._heard[3:5]
            stream = int.from_bytes(self._heard[5:9], "big")
            payload, self._heard = self._heard[9 : 9 + size], self._heard[9 + size :]
            self._note(kind, flags, stream, payload)
        return True

    def _note(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        exchange = self.exchanges.get(stream, Exchange())
        if kind == HEADERS:
            exchange.headers = {
                str(name): str(value) for name, value in self._decoder.decode(payload)
            }
        elif kind == DATA:
            exchange.body += payload
            if self._reads and payload:
                more = len(payload).to_bytes(4, "big")
                self.tell(frame(WINDOW, 0, 0, more) + frame(WINDOW, 0, stream, more))
        elif kind == RESET:
            exchange.reset = int.from_bytes(payload, "big")
        elif kind == GOAWAY:
            self.ended = int.from_bytes(payload[4:8], "big")
        elif kind == PING and not flags:
            self.tell(frame(PING, ACKNOWLEDGED, 0, payload))
        elif kind == SETTINGS and not flags:
            told = dict(struct.iter_unpack(">HI", payload))
            self.most_streams = told[MAX_STREAMS]
            self.tell(frame(SETTINGS, ACKNOWLEDGED, 0))
        if kind in (DATA, HEADERS) and flags & END_STREAM:
            exchange.ended = True

    def tell(self, sent: bytes) -> None:
        """Sends bytes, unless the connection is closed."""
        with contextlib.suppress(OSError):
            self.socket.sendall(sent)

    def answers(self, numbers: Iterable[int]) -> list[Exchange]:
        """Waits until these streams have ended or were reset, or the connection is closed, and
        returns their responses."""
        wanted = [self.exchanges[number] for number in numbers]
        while not all(one.ended or one.reset is not None for one in wanted) and self.hear():
            pass
        return wanted

    def ask(self, path: str | None, *more: tuple[str, str], method: str = "GET") -> Exchange:
        """Sends a request and returns its response."""
        return self.answers([self.begin(path, *more, method=method)])[0]

    def end(self) -> int:
        """Waits until the server closes the connection, and returns the error code; see `ended`."""
        while self.hear():
            pass
        assert self.ended is not None
        return self.ended
