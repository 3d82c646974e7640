"""What clients must know of a resource to ask for a token for it (RFC 9728)."""

from collections.abc import Collection
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from portico.core.oauth import resource_metadata
from portico.core.scopes import SCOPES
from portico.features.access.signing import PUBLISHED_SECONDS
from portico.web.cors import Sharing
from portico.web.messages import Reply, Request, json_reply
from portico.web.routing import Access, Route


class ResourceMetadata(msgspec.Struct, frozen=True):
    """The metadata of a resource."""

    resource: Annotated[str, Meta(examples=["https://localhost:8443/v1"])]
    authorization_servers: list[str]
    scopes_supported: list[str]
    bearer_methods_supported: list[str]


def route(resource: str, scopes: Collection[str]) -> Route:
    """The route of the metadata of the resource at this address; its mount has no prefix."""
    supported = [scope for scope in SCOPES if scope in scopes]

    async def read_metadata(request: Request) -> Reply:
        issuer = request.environment.addresses.auth
        return json_reply(200, ResourceMetadata(resource, [issuer], supported, ["header"]))

    return Route(
        method="GET",
        path=urlsplit(resource_metadata(resource)).path,
        handler=read_metadata,
        access=Access.ANYONE,
        summary="Read the resource's metadata",
        answer=ResourceMetadata,
        public_seconds=PUBLISHED_SECONDS,
        sharing=Sharing.ALL,
    )
