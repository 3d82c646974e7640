"""The endpoint of API keys."""

from msgspec import UNSET, UnsetType

from portico.contract.api_keys import RotatedKey, rotated_key
from portico.contract.envelope import Created
from portico.domain.errors import Conflict
from portico.http.messages import Reply, Request, json_reply
from portico.http.routing import Access, Route
from portico.services.api_keys import Rotation
from portico.services.api_keys import rotate_key as rotate

_ROTATED = "Key rotated: store the new one now, the old one works until {}."


async def rotate_key(request: Request) -> Reply:
    """POST /api-keys/rotate."""
    previous = request.caller.credential_id

    def reply(rotation: Rotation, key: str | UnsetType = UNSET) -> Reply:
        body = rotated_key(rotation.successor, key, previous, rotation.previous_end)
        message = _ROTATED.format(body.previous_key.expires_at)
        return json_reply(201, Created(body, message), ("cache-control", "no-store"))

    rotation = await rotate(request.environment, request.caller, request.answering(reply))
    return reply(rotation, rotation.key)


ROUTES = (
    Route(
        method="POST",
        path="/api-keys/rotate",
        handler=rotate_key,
        access=Access.ANY_CALLER,
        summary="Rotate the calling API key",
        description="The successor keeps name, type, owner, scopes, networks and expiry. The old"
        " key works for 24 hours more, or until its own earlier expiry.",
        status=201,
        answer=Created[RotatedKey],
        errors=(Conflict,),
        no_store=True,
        repeatable=True,
    ),
)
