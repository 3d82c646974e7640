"""The parameters and answers of the OAuth endpoints."""

from typing import Annotated, ClassVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from portico.contract.kinds import Text, any_text
from portico.domain.oauth import GRANT_TYPES
from portico.domain.rules import OneOf


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


class OneTokenForm(ClientForm, kw_only=True):
    """The parameters of POST /revoke (RFC 7009) and POST /introspect (RFC 7662)."""

    EXAMPLE: ClassVar = {
        "token": "ort_…",
        "client_id": "client_…",
        "client_secret": "ocs_…",
    }

    token: Annotated[str, _parameter("An access or a refresh token.")]


class IssuedTokens(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer of POST /token (RFC 6749 §5.1)."""

    access_token: Annotated[str, Meta(examples=["oat_…"])]
    token_type: Annotated[str, Meta(examples=["Bearer"])]
    expires_in: Annotated[int, Meta(description="Seconds.", examples=[3600])]
    refresh_token: Annotated[str, Meta(description="Can be used once.", examples=["ort_…"])]
    scope: Annotated[
        str,
        Meta(description="The scopes of the access token.", examples=["openid read:products"]),
    ]
    id_token: (
        Annotated[str, Meta(description="With the scope `openid`.", examples=["eyJ…"])] | UnsetType
    ) = UNSET


class Ended(msgspec.Struct, frozen=True):
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
