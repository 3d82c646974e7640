"""The Model Context Protocol's messages: JSON-RPC 2.0, one for each POST. Since the revision
2026-07-28 each request says which revision it speaks; the two before it begin with `initialize`.
None needs a session here.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType, field

from portico.version import version
from portico.web.envelope import encode
from portico.web.messages import JSON, Reply, Request

CURRENT = "2026-07-28"
EARLIER = ("2025-11-25", "2025-06-18")
"""The revisions with `initialize`, the newest first."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022

VERSION_HEADER = "mcp-protocol-version"

_META = "io.modelcontextprotocol/"


class RpcError(Exception):
    """An error of the protocol, with the id of the request, None where it could not be read."""

    def __init__(
        self,
        code: int,
        message: str,
        data: Any = None,
        *,
        message_id: int | str | None = None,
        is_current: bool = True,
    ) -> None:
        super().__init__(message)
        error = {"code": code, "message": message}
        self.body = {"jsonrpc": "2.0", "id": message_id, "error": error}
        if data is not None:
            error["data"] = data
        self.status = 404 if code == METHOD_NOT_FOUND else 400
        if not is_current and code in (METHOD_NOT_FOUND, INVALID_PARAMS):
            self.status = 200  # as any other answer

    def reply(self) -> Reply:
        """The answer."""
        return _reply(self.status, self.body)


class _Envelope(msgspec.Struct):
    """A request, or without `id` a notification."""

    jsonrpc: Literal["2.0"]
    method: str
    id: int | str | UnsetType = UNSET
    params: Raw = Raw(b"{}")


class _Meta(msgspec.Struct):
    """What a request says of itself since 2026-07-28."""

    version: str | UnsetType = field(default=UNSET, name=f"{_META}protocolVersion")
    capabilities: Mapping[str, Any] | UnsetType = field(
        default=UNSET, name=f"{_META}clientCapabilities"
    )


class Params(msgspec.Struct):
    """The parameters that some method here reads."""

    meta: _Meta = field(default_factory=_Meta, name="_meta")
    name: str = ""
    arguments: Raw = Raw(b"{}")
    version: str = field(default="", name="protocolVersion")


class Message(NamedTuple):
    """A message that was read. A notification has no `id`. `is_current` is false for the earlier
    revisions."""

    id: int | str | None
    method: str
    params: Params
    is_current: bool

    def result(self, result: Mapping[str, Any]) -> Reply:
        """The answer with this result."""
        if self.is_current:
            about = {"resultType": "complete", "_meta": {f"{_META}serverInfo": server_info()}}
            result = {**result, **about}
        return _reply(200, {"jsonrpc": "2.0", "id": self.id, "result": result})

    def error(self, code: int, message: str, data: Any = None) -> RpcError:
        """An error of this request."""
        return RpcError(code, message, data, message_id=self.id, is_current=self.is_current)


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_params = msgspec.json.Decoder(Params).decode


def read(request: Request, body: bytes) -> Message:
    """The message in a body, checked against the headers as its revision demands. Raises
    `RpcError`."""
    try:
        envelope = _decode_envelope(body.decode())  # what it leaves raw is UTF-8 too
    except msgspec.ValidationError as error:
        raise RpcError(INVALID_REQUEST, f"Send one JSON-RPC request: {error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RpcError(PARSE_ERROR, f"The body is not JSON: {error}.") from None
    message_id = None if envelope.id is UNSET else envelope.id
    header = request.listed(VERSION_HEADER)
    try:
        params = _decode_params(envelope.params)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RpcError(
            INVALID_PARAMS,
            f"The params cannot be read: {error}.",
            message_id=message_id,
            is_current=header not in EARLIER,
        ) from None
    claimed = params.meta.version
    is_current = claimed is not UNSET or not (header is None or header in EARLIER)
    message = Message(message_id, envelope.method, params, is_current)
    if is_current:
        _check(message, request, header)
    return message


def _check(message: Message, request: Request, header: str | None) -> None:
    """Raises `RpcError` unless a message of the current revision says the same as its headers."""
    claimed, name = message.params.meta.version, message.params.name
    if claimed is UNSET and (message.id is None or header != CURRENT):
        claimed = header or ""  # of a notification, or of a revision that nobody has heard of
    elif claimed is UNSET or message.params.meta.capabilities is UNSET:
        raise message.error(
            INVALID_PARAMS,
            f"params._meta must have {_META}protocolVersion and {_META}clientCapabilities.",
        )
    else:
        said = {VERSION_HEADER: claimed, "mcp-method": message.method}
        if message.method == "tools/call":
            said["mcp-name"] = name
        for one, value in said.items():
            if request.listed(one) != value:
                raise message.error(
                    HEADER_MISMATCH, f"The header {one} must say the same as the body."
                )
    if claimed != CURRENT:
        raise message.error(
            UNSUPPORTED_VERSION,
            "This revision of the protocol is not supported.",
            {"supported": [CURRENT, *EARLIER], "requested": claimed},
        )


def server_info() -> dict[str, str]:
    """Who answers."""
    return {"name": "portico", "title": "Portico", "version": version()}


def _reply(status: int, body: Any) -> Reply:
    return Reply(status, encode(body), [("content-type", JSON), ("cache-control", "no-store")])
