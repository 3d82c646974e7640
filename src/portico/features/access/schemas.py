"""The JSON shapes of API keys, OAuth clients and tokens."""

from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from portico.core.errors import BrokenRule
from portico.core.ids import MAX_ID
from portico.core.networks import network
from portico.core.oauth import (
    ACCESS_TOKEN_KIND,
    CLIENT_ASSERTION_TYPE,
    EXTRA_GRANTS,
    GRANT_TYPES,
    MAX_URIS,
    Client,
    client_name,
    redirect_uri,
    spelled,
)
from portico.core.rules import Between, Measured, OneOf
from portico.core.scopes import SCOPES
from portico.core.text import web_url
from portico.core.times import moment
from portico.features.access.client_keys import key_set
from portico.features.access.rules import (
    MOST_NETWORKS,
    ApiKey,
    KeyType,
    Status,
    key_name,
    key_type,
    scope,
    status,
)
from portico.web.envelope import Identifier, Timestamp, optional_timestamp, timestamp
from portico.web.fields import Boolean, FormOnly, Integer, Items, Nullable, Text, any_text
from portico.web.lists import ListQuery, UserId
from portico.web.reading import Faults

_HINT = "The part of the key that may be shown."
ScopeName = Annotated[str, Meta(extra_json_schema={"enum": SCOPES})]
_NO_END = "Null if the key does not expire."


Secret = (
    Annotated[
        str,
        Meta(
            description="The secret; store it now. It is omitted when a request with the same"
            " `Idempotency-Key` is repeated.",
            examples=["sk_live_…"],
        ),
    ]
    | UnsetType
)


class PreviousKey(msgspec.Struct, frozen=True):
    """The key that was rotated, and when it expires."""

    id: Identifier
    expires_at: Timestamp


class ApiKeyItem(msgspec.Struct, frozen=True, kw_only=True):
    """An API key without its secret."""

    id: Identifier
    name: Annotated[str, Meta(examples=["Storefront"])]
    type: KeyType
    hint: Annotated[str, Meta(description=_HINT, examples=["sk_live_…x7Qd"])]
    scopes: Annotated[
        list[ScopeName] | None,
        Meta(
            description="Null if it has all scopes of its owner.",
            examples=[["read:products"]],
        ),
    ]
    networks: Annotated[
        list[str] | None,
        Meta(
            description="The networks from which it may be used; null for any.",
            examples=[["203.0.113.0/24"]],
        ),
    ]
    created_at: Timestamp
    expires_at: Annotated[Timestamp | None, Meta(description=_NO_END)]
    last_used_at: Timestamp | None
    status: Status


class SuccessorKey(ApiKeyItem, frozen=True, kw_only=True):
    """A key that replaced a rotated one."""

    previous_key: PreviousKey


def api_key_item(key: ApiKey, now: int) -> ApiKeyItem:
    """A key with its status at `now`, in epoch milliseconds."""
    return ApiKeyItem(**_facts(key, now))


def _facts(key: ApiKey, now: int) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "type": key.type,
        "hint": key.hint,
        "scopes": in_order(key.scopes),
        "networks": None if key.networks is None else list(key.networks),
        "created_at": timestamp(key.created_at),
        "expires_at": optional_timestamp(key.expires_at),
        "last_used_at": optional_timestamp(key.last_used_at),
        "status": status(key, now),
    }


def in_order(scopes: frozenset[str] | None) -> list[str] | None:
    """Scopes in their usual order, the least powerful first."""
    return None if scopes is None else [scope for scope in SCOPES if scope in scopes]


def successor_key(key: ApiKey, previous: PreviousKey, now: int) -> SuccessorKey:
    """The successor of a rotated key with its status at `now`."""
    return SuccessorKey(**_facts(key, now), previous_key=previous)


ROTATED = "Key rotated. Store the new one now; the old one works until {}."


class RotatedKey(msgspec.Struct, frozen=True, kw_only=True):
    """The successor of a rotated key. `key` is shown only once."""

    message: ClassVar[str] = ROTATED.format("2026-02-01T08:15:30.123Z")
    id: Identifier
    name: Annotated[str, Meta(examples=["Storefront"])]
    type: KeyType
    key: Secret = UNSET
    hint: Annotated[str, Meta(description=_HINT, examples=["sk_live_…x7Qd"])]
    created_at: Timestamp
    expires_at: Annotated[Timestamp | None, Meta(description=_NO_END)]
    previous_key: PreviousKey


def rotated_key(
    successor: ApiKey, key: str | UnsetType, previous_id: int, previous_end: int
) -> RotatedKey:
    """The answer of POST /api-keys/rotate."""
    return RotatedKey(
        id=successor.id,
        name=successor.name,
        type=successor.type,
        key=key,
        hint=successor.hint,
        created_at=timestamp(successor.created_at),
        expires_at=optional_timestamp(successor.expires_at),
        previous_key=PreviousKey(previous_id, timestamp(previous_end)),
    )


class ListKeys(ListQuery, frozen=True):
    """The query of GET /api-keys."""

    user_id: UserId = None


class CreateApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """The body of POST /api-keys. A null field counts as omitted."""

    name: Annotated[str, FormOnly(Text(key_name))]
    type: Annotated[
        str,
        FormOnly(
            Text(key_type, description="`live` and `read` are for live, `test` for the sandbox.")
        ),
    ]
    user_id: Annotated[
        int | None,
        Nullable(Integer(Between(1, MAX_ID), description="Its owner; the caller if omitted.")),
    ] = None
    scopes: Annotated[
        list[str] | None,
        FormOnly(Nullable(Items(Text(scope), SCOPES, 1))),
    ] = None
    networks: Annotated[
        list[str] | None,
        FormOnly(Nullable(Items(Text(network), MOST_NETWORKS, 1))),
    ] = None
    expires_at: Annotated[str | None, FormOnly(Nullable(Text(moment)))] = None

    EXAMPLE: ClassVar[dict[str, Any]] = {
        "name": "Storefront",
        "type": "live",
        "scopes": ["read:products"],
        "networks": ["203.0.113.0/24"],
    }


class ApiKeyWithSecret(ApiKeyItem, frozen=True, kw_only=True):
    """A new key. `key` is shown only once."""

    message: ClassVar[str] = "Key created. Store it now: it is not shown again."
    key: Secret = UNSET


def api_key_with_secret(key: ApiKey, secret: str | UnsetType, now: int) -> ApiKeyWithSecret:
    """The answer of POST /api-keys."""
    return ApiKeyWithSecret(**_facts(key, now), key=secret)


class KeySetText:
    """A JSON Web Key Set in a body, as the text that is stored."""

    def read(self, value: Any, path: str, faults: Faults) -> Any:
        if not isinstance(value, dict):
            faults.cannot_read(path, "must be an object")
            return None
        try:
            return key_set(msgspec.json.encode(value).decode())
        except BrokenRule as broken:
            faults.breaks_rule(path, str(broken))
            return None

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "description": "Public keys (RFC 7517): RSA of 2048 bits or more, or EC of P-256.",
            "additionalProperties": True,
        }


class OAuthClientItem(msgspec.Struct, frozen=True, kw_only=True):
    """An OAuth client."""

    client_id: Annotated[str, Meta(examples=["client_6a1f"])]
    name: Annotated[str, Meta(examples=["Shop"])]
    redirect_uris: Annotated[list[str], Meta(examples=[["https://shop.example.com/callback"]])]
    scopes: Annotated[list[ScopeName], Meta(examples=[["read:products"]])]
    public: Annotated[bool, Meta(description="Whether it has no secret.")]
    owner_id: Annotated[
        Identifier | None, Meta(description="The user whose plan limits its requests, if any.")
    ]
    first_party: Annotated[bool, Meta(description="Whether its users are not asked for consent.")]
    grants: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"enum": [*EXTRA_GRANTS]})]],
        Meta(
            description="What it may use beyond codes and refresh tokens.",
            examples=[["client_credentials"]],
        ),
    ]
    service: Annotated[
        str | None,
        Meta(
            description="The service whose tokens it may introspect, if any.",
            examples=["invoices"],
        ),
    ]
    post_logout_redirect_uris: Annotated[
        list[str],
        Meta(
            description="Where the browser may go after signing out.",
            examples=[["https://shop.example.com/goodbye"]],
        ),
    ]
    backchannel_logout_uri: Annotated[
        str | None,
        Meta(
            description="Where logout tokens are sent, if anywhere.",
            examples=["https://shop.example.com/ended"],
        ),
    ]
    jwks: (
        Annotated[
            dict[str, Any],
            Meta(
                description="Its public keys (RFC 7517), if it signs instead of sending a secret.",
                examples=[{"keys": [{"kty": "EC", "crv": "P-256", "x": "…", "y": "…"}]}],
                extra_json_schema={"additionalProperties": True},
            ),
        ]
        | None
    )
    jwks_uri: Annotated[
        str | None,
        Meta(
            description="Where its public keys are, if they are not here.",
            examples=["https://shop.example.com/jwks.json"],
        ),
    ]
    created_at: Timestamp


class OAuthClientWithSecret(OAuthClientItem, frozen=True, kw_only=True):
    """A client with its new secret."""

    message: ClassVar[str] = "Client registered. Store its secret now: it is not shown again."
    client_secret: (
        Annotated[
            str,
            Meta(
                description="Only of a confidential client. It is shown only once, and omitted"
                " when a request with the same `Idempotency-Key` is repeated.",
                examples=["ocs_…"],
            ),
        ]
        | UnsetType
    ) = UNSET


def client_item(client: Client) -> OAuthClientItem:
    """A client as it is shown."""
    return OAuthClientItem(**_client_facts(client))


def client_with_secret(client: Client, secret: str | UnsetType) -> OAuthClientWithSecret:
    """A client with its new secret, if that is shown."""
    return OAuthClientWithSecret(**_client_facts(client), client_secret=secret)


def _client_facts(client: Client) -> dict[str, Any]:
    return {
        "client_id": client.client_id,
        "name": client.name,
        "redirect_uris": list(client.redirect_uris),
        "scopes": spelled(client.scopes).split(),
        "public": client.public,
        "owner_id": client.user_id,
        "first_party": client.first_party,
        "grants": list(client.grants),
        "service": client.service,
        "post_logout_redirect_uris": list(client.post_logout_redirect_uris),
        "backchannel_logout_uri": client.backchannel_logout_uri,
        "jwks": client.jwks and msgspec.json.decode(client.jwks),
        "jwks_uri": client.jwks_uri,
        "created_at": timestamp(client.created_at),
    }


_ClientName = Annotated[str, Text(client_name)]
_RedirectUris = Annotated[list[str], Items(Text(redirect_uri), MAX_URIS)]
_ClientScopes = Annotated[list[str], Items(Text(scope), SCOPES)]
_FirstParty = Annotated[bool, Boolean()]
_Grants = Annotated[list[str], Items(Text(OneOf(EXTRA_GRANTS)), EXTRA_GRANTS)]
_BackchannelUri = Annotated[str | None, Nullable(Text(web_url))]
_KeySet = Annotated[str | None, Nullable(KeySetText())]
_KeysUri = Annotated[str | None, Nullable(Text(web_url))]
_Service = Annotated[str | None, Nullable(Text(Measured(1, 100)))]


class CreateOAuthClient(msgspec.Struct, kw_only=True):
    """The body of POST /clients."""

    EXAMPLE: ClassVar[dict[str, Any]] = {
        "name": "Shop",
        "redirect_uris": ["https://shop.example.com/callback"],
        "scopes": ["read:products"],
    }

    name: _ClientName
    redirect_uris: _RedirectUris = []
    scopes: _ClientScopes = []
    public: Annotated[bool, Boolean()] = False
    first_party: _FirstParty = False
    grants: _Grants = []
    service: _Service = None
    post_logout_redirect_uris: _RedirectUris = []
    backchannel_logout_uri: _BackchannelUri = None
    jwks: _KeySet = None
    jwks_uri: _KeysUri = None


class ChangeOAuthClient(msgspec.Struct, kw_only=True):
    """The body of PATCH /clients/{id}. Omitted fields stay unchanged."""

    EXAMPLE: ClassVar[dict[str, Any]] = {"scopes": ["read:products", "write:products"]}

    name: _ClientName | UnsetType = UNSET
    redirect_uris: _RedirectUris | UnsetType = UNSET
    scopes: _ClientScopes | UnsetType = UNSET
    first_party: _FirstParty | UnsetType = UNSET
    grants: _Grants | UnsetType = UNSET
    service: _Service | UnsetType = UNSET
    post_logout_redirect_uris: _RedirectUris | UnsetType = UNSET
    backchannel_logout_uri: _BackchannelUri | UnsetType = UNSET
    jwks: _KeySet | UnsetType = UNSET
    jwks_uri: _KeysUri | UnsetType = UNSET


class ListClients(ListQuery, frozen=True):
    """The query of GET /clients."""


def _parameter(description: str) -> Text:
    return any_text(description=description)


class ClientForm(msgspec.Struct, kw_only=True):
    """The credentials of a client that does not use HTTP Basic (RFC 6749 §2.3.1)."""

    client_id: (
        Annotated[str, _parameter("Required unless HTTP Basic names the client.")] | UnsetType
    ) = UNSET
    client_secret: (
        Annotated[
            str,
            any_text(
                writeOnly=True,
                description="Of a confidential client that does not use HTTP Basic.",
            ),
        ]
        | UnsetType
    ) = UNSET
    client_assertion_type: (
        Annotated[
            str,
            _parameter(f"With `client_assertion`: `{CLIENT_ASSERTION_TYPE}`."),
        ]
        | UnsetType
    ) = UNSET
    client_assertion: (
        Annotated[
            str,
            any_text(writeOnly=True, description="Of a client with keys of its own (RFC 7523)."),
        ]
        | UnsetType
    ) = UNSET


class TokenForm(ClientForm, kw_only=True):
    """The parameters of POST /token (RFC 6749 §4.1.3 and §6)."""

    EXAMPLE: ClassVar = {
        "grant_type": "authorization_code",
        "code": "oac_…",
        "redirect_uri": "https://example.com/callback",
        "code_verifier": "…",
        "client_id": "client_…",
        "client_secret": "ocs_…",
    }

    grant_type: Annotated[str, Text(OneOf(GRANT_TYPES))]
    code: Annotated[str, _parameter("With `authorization_code`.")] | UnsetType = UNSET
    redirect_uri: (
        Annotated[str, _parameter("With `authorization_code`: where the code was sent to.")]
        | UnsetType
    ) = UNSET
    code_verifier: (
        Annotated[str, _parameter("With `authorization_code`, if PKCE was used (RFC 7636).")]
        | UnsetType
    ) = UNSET
    refresh_token: Annotated[str, _parameter("With `refresh_token`.")] | UnsetType = UNSET
    scope: (
        Annotated[str, _parameter("With `refresh_token`: a subset of the granted scopes.")]
        | UnsetType
    ) = UNSET
    resource: (
        Annotated[str, _parameter("What the token is for, as it was granted (RFC 8707).")]
        | UnsetType
    ) = UNSET

    device_code: Annotated[str, _parameter("With device authorization (RFC 8628).")] | UnsetType = (
        UNSET
    )

    subject_token: Annotated[str, _parameter("With token exchange (RFC 8693).")] | UnsetType = UNSET
    subject_token_type: (
        Annotated[str, _parameter("With token exchange: that of an access token.")] | UnsetType
    ) = UNSET
    requested_token_type: (
        Annotated[str, _parameter("With token exchange: that of an access token.")] | UnsetType
    ) = UNSET
    audience: (
        Annotated[str, _parameter("With token exchange: the same as `resource`.")] | UnsetType
    ) = UNSET
    actor_token: Annotated[str, _parameter("Is not supported.")] | UnsetType = UNSET


class DeviceForm(ClientForm, kw_only=True):
    """The parameters of POST /device_authorization (RFC 8628 §3.1)."""

    EXAMPLE: ClassVar = {"client_id": "client_…", "scope": "read:products"}

    scope: Annotated[str, _parameter("What to ask the user for.")] | UnsetType = UNSET
    resource: Annotated[str, _parameter("What the token is for (RFC 8707).")] | UnsetType = UNSET


class OneTokenForm(ClientForm, kw_only=True):
    """The parameters of POST /revoke (RFC 7009) and POST /introspect (RFC 7662)."""

    EXAMPLE: ClassVar = {
        "token": "ort_…",
        "client_id": "client_…",
        "client_secret": "ocs_…",
    }

    token: Annotated[str, _parameter("An access or a refresh token.")]


class DeviceAuthorization(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of POST /device_authorization (RFC 8628 §3.2)."""

    device_code: Annotated[
        str, Meta(description="For the device, which keeps it secret.", examples=["odc_…"])
    ]
    user_code: Annotated[str, Meta(description="For the user.", examples=["WDJB-MJHT"])]
    verification_uri: Annotated[str, Meta(examples=["https://localhost:8443/auth/device"])]
    verification_uri_complete: Annotated[
        str, Meta(examples=["https://localhost:8443/auth/device?user_code=WDJB-MJHT"])
    ]
    expires_in: Annotated[int, Meta(description="Seconds.", examples=[900])]
    interval: Annotated[int, Meta(description="Seconds between two requests.", examples=[5])]


class IssuedTokens(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer of POST /token (RFC 6749 §5.1)."""

    access_token: Annotated[str, Meta(examples=["oat_…"])]
    token_type: Annotated[str, Meta(examples=["Bearer"])]
    expires_in: Annotated[int, Meta(description="Seconds.", examples=[3600])]
    refresh_token: (
        Annotated[
            str,
            Meta(description="Can be used once. Grants of programs have none.", examples=["ort_…"]),
        ]
        | UnsetType
    )
    scope: Annotated[
        str,
        Meta(description="The scopes of the access token.", examples=["openid read:products"]),
    ]
    id_token: (
        Annotated[str, Meta(description="With the scope `openid`.", examples=["eyJ…"])] | UnsetType
    ) = UNSET
    issued_token_type: (
        Annotated[
            str, Meta(description="With token exchange (RFC 8693).", examples=[ACCESS_TOKEN_KIND])
        ]
        | UnsetType
    ) = UNSET


class RegisteredClient(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of POST /register (RFC 7591 §3.2.1)."""

    client_id: Annotated[str, Meta(examples=["client_…"])]
    client_id_issued_at: Annotated[int, Meta(examples=[1_767_225_600])]
    client_name: Annotated[str, Meta(examples=["Editor"])]
    redirect_uris: list[Annotated[str, Meta(examples=["http://127.0.0.1/callback"])]]
    scope: Annotated[str, Meta(examples=["openid read:products"])]
    token_endpoint_auth_method: Annotated[str, Meta(examples=["none"])]
    grant_types: list[Annotated[str, Meta(examples=["authorization_code"])]]
    response_types: list[Annotated[str, Meta(examples=["code"])]]


class EndedSession(msgspec.Struct, frozen=True):
    """The answer of POST /revoke: an empty object, because some clients accept only JSON."""


class TokenFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """A token's properties (RFC 7662 §2.2): only `active`, unless it is valid and the client's."""

    active: bool
    scope: Annotated[str, Meta(examples=["openid read:products"])] | UnsetType = UNSET
    client_id: Annotated[str, Meta(examples=["client_…"])] | UnsetType = UNSET
    username: (
        Annotated[str, Meta(description="With the scope `email`.", examples=["ada@example.com"])]
        | UnsetType
    ) = UNSET
    token_type: Annotated[str, Meta(examples=["Bearer"])] | UnsetType = UNSET
    exp: Annotated[int, Meta(examples=[1_767_229_200])] | UnsetType = UNSET
    iat: Annotated[int, Meta(examples=[1_767_225_600])] | UnsetType = UNSET
    sub: Annotated[str, Meta(examples=["17"])] | UnsetType = UNSET
    aud: Annotated[str, Meta(examples=["https://localhost:8443/v1"])] | UnsetType = UNSET
    iss: Annotated[str, Meta(examples=["https://localhost:8443/auth"])] | UnsetType = UNSET
    auth_time: (
        Annotated[int, Meta(description="When the user signed in.", examples=[1_767_225_590])]
        | UnsetType
    ) = UNSET
    acr: Annotated[str, Meta(examples=["1"])] | UnsetType = UNSET
    amr: list[Annotated[str, Meta(examples=["pwd"])]] | UnsetType = UNSET


class OAuthError(msgspec.Struct, frozen=True):
    """The body of an error response (RFC 6749 §5.2)."""

    error: Annotated[str, Meta(examples=["invalid_grant"])]
    error_description: Annotated[str, Meta(description="For people.")]
