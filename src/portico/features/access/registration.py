"""`POST /register`: a client without a secret registers itself (RFC 7591), where that is on."""

import msgspec

from portico.core.errors import Invalid, PermissionDenied
from portico.core.oauth import spelled
from portico.core.times import SECOND
from portico.features.access.clients import register_itself
from portico.features.access.documents import Metadata, public_registration
from portico.features.access.schemas import OAuthError, RegisteredClient
from portico.web.cors import Sharing
from portico.web.messages import Reply, Request, json_reply
from portico.web.routing import PUBLIC_BODY_LIMIT, Access, Route


async def register(request: Request) -> Reply:
    """POST /register."""
    env = request.environment
    if not env.settings.client_registration:
        raise PermissionDenied(
            "Clients cannot register themselves here: an administrator registers them."
        )
    try:
        metadata = msgspec.json.decode(await request.read_body(PUBLIC_BODY_LIMIT), type=Metadata)
        wanted = public_registration(metadata, "An application")
        client = await register_itself(env, wanted, request.by)
    except (ValueError, RecursionError) as error:
        return _refused("invalid_client_metadata", f"The metadata cannot be read: {error}.")
    except Invalid as invalid:
        fault = invalid.details[0]
        is_uri = fault.field == "redirect_uris"
        kind = "invalid_redirect_uri" if is_uri else "invalid_client_metadata"
        return _refused(kind, f"{fault.field} {fault.message}.")
    registered = RegisteredClient(
        client_id=client.client_id,
        client_id_issued_at=client.created_at // SECOND,
        client_name=client.name,
        redirect_uris=list(client.redirect_uris),
        scope=spelled(client.registered),
        token_endpoint_auth_method="none",  # noqa: S106 - no password
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
    )
    return json_reply(201, registered)


def _refused(error: str, message: str) -> Reply:
    reply = json_reply(400, OAuthError(error, message))
    reply.headers.append(("cache-control", "no-store"))  # RFC 7591 §3.2.2
    return reply


ROUTES = (
    Route(
        method="POST",
        path="/register",
        handler=register,
        access=Access.ANYONE,
        summary="Register a client",
        description="A client without a secret registers itself (RFC 7591). Only where the setting"
        " `client_registration` is on. It is removed after 30 days in which no user allows it"
        " anything.",
        status=201,
        answer=RegisteredClient,
        errors=(PermissionDenied,),
        no_store=True,
        sharing=Sharing.ALL,
    ),
)
