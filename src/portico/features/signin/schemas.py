"""The JSON shapes of sessions and logins, and of the metadata of the authorization server."""

from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from portico.core.oauth import ACCESS_SECONDS
from portico.core.sessions import Session, idle_end
from portico.core.times import SECOND
from portico.core.users import User
from portico.features.people.schemas import UserItem, user_item
from portico.web.envelope import Timestamp, timestamp
from portico.web.fields import any_text

_EXAMPLE = {"email": "ada@example.com", "password": "Analytical1"}


class SignIn(msgspec.Struct):
    """The body of POST /sessions and POST /login."""

    EXAMPLE: ClassVar = _EXAMPLE

    email: Annotated[str, any_text()]
    password: Annotated[str, any_text(writeOnly=True)]
    otp: (
        Annotated[
            str,
            any_text(
                writeOnly=True,
                description="Required if the account has a second factor: the code from its"
                " authenticator app, or a recovery code.",
            ),
        ]
        | UnsetType
    ) = UNSET


class Refresh(msgspec.Struct):
    """The body of POST /refresh."""

    EXAMPLE: ClassVar = {"refresh_token": "ort_…"}

    refresh_token: Annotated[str, any_text(writeOnly=True)]


class LogOut(msgspec.Struct):
    """The body of POST /logout, unless the access token is the request's credential."""

    EXAMPLE: ClassVar = {"refresh_token": "ort_…"}

    refresh_token: Annotated[str, any_text(writeOnly=True)]


class SessionBody(msgspec.Struct, frozen=True):
    """A session that was just opened. Its secret is only in the cookie."""

    message: ClassVar[str] = "You are signed in."
    user: UserItem
    expires_at: Annotated[Timestamp, Meta(description="24 hours after it was opened.")]
    idle_expires_at: Annotated[Timestamp, Meta(description="30 minutes after its latest request.")]


class LoginTokens(msgspec.Struct, frozen=True):
    """The answer of POST /login and POST /refresh (specification §4.3)."""

    access_token: Annotated[str, Meta(description="A JSON Web Token.", examples=["eyJ…"])]
    refresh_token: Annotated[str, Meta(description="Can be used once.", examples=["ort_…"])]
    expires_in: Annotated[int, Meta(description="Seconds.", examples=[ACCESS_SECONDS])]
    token_type: Annotated[str, Meta(examples=["Bearer"])]


class UserInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """The claims (OpenID Connect Core §5.1) that the token's scopes give access to."""

    sub: Annotated[str, Meta(examples=["17"])]
    name: Annotated[str, Meta(examples=["Ada Lovelace"])] | UnsetType = UNSET
    preferred_username: Annotated[str, Meta(examples=["ada@example.com"])] | UnsetType = UNSET
    picture: Annotated[str, Meta(examples=["https://example.com/ada.png"])] | UnsetType = UNSET
    locale: Annotated[str, Meta(examples=["en"])] | UnsetType = UNSET
    updated_at: Annotated[int, Meta(examples=[1_767_225_600])] | UnsetType = UNSET
    email: Annotated[str, Meta(examples=["ada@example.com"])] | UnsetType = UNSET
    email_verified: Annotated[bool, Meta(examples=[True])] | UnsetType = UNSET


class PublicKey(msgspec.Struct, frozen=True):
    """A JSON Web Key (RFC 7517): a public signing key."""

    kid: Annotated[
        str, Meta(description="The `kid` of tokens signed with it.", examples=["Zk3vQm9x1a2b3c4d"])
    ]
    kty: Annotated[str, Meta(examples=["RSA"])]
    use: Annotated[str, Meta(examples=["sig"])]
    alg: Annotated[str, Meta(examples=["RS256"])]
    n: Annotated[str, Meta(description="The modulus, in base64url.", examples=["v1Kx…"])]
    e: Annotated[str, Meta(description="The exponent, in base64url.", examples=["AQAB"])]


class KeySet(msgspec.Struct, frozen=True):
    """A JSON Web Key Set (RFC 7517)."""

    keys: list[PublicKey]


_Here = Annotated[str, Meta(examples=["https://localhost:8443/auth/…"])]
_ClientAlgorithms = list[Annotated[str, Meta(examples=["ES256"])]]
_ClientMethods = list[Annotated[str, Meta(examples=["client_secret_basic"])]]


class ServerMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The server's metadata for clients (RFC 8414, OpenID Connect Discovery 1.0)."""

    issuer: Annotated[str, Meta(examples=["https://localhost:8443/auth"])]
    authorization_endpoint: _Here
    token_endpoint: _Here
    userinfo_endpoint: _Here
    jwks_uri: _Here
    revocation_endpoint: _Here
    introspection_endpoint: _Here
    end_session_endpoint: _Here
    device_authorization_endpoint: _Here
    registration_endpoint: _Here | UnsetType = UNSET
    client_id_metadata_document_supported: bool
    scopes_supported: list[Annotated[str, Meta(examples=["openid"])]]
    response_types_supported: list[Annotated[str, Meta(examples=["code"])]]
    response_modes_supported: list[Annotated[str, Meta(examples=["query"])]]
    grant_types_supported: list[Annotated[str, Meta(examples=["authorization_code"])]]
    code_challenge_methods_supported: list[Annotated[str, Meta(examples=["S256"])]]
    token_endpoint_auth_methods_supported: _ClientMethods
    token_endpoint_auth_signing_alg_values_supported: _ClientAlgorithms
    revocation_endpoint_auth_methods_supported: _ClientMethods
    revocation_endpoint_auth_signing_alg_values_supported: _ClientAlgorithms
    introspection_endpoint_auth_methods_supported: _ClientMethods
    introspection_endpoint_auth_signing_alg_values_supported: _ClientAlgorithms
    authorization_response_iss_parameter_supported: bool
    backchannel_logout_supported: bool
    backchannel_logout_session_supported: bool
    subject_types_supported: list[Annotated[str, Meta(examples=["public"])]]
    id_token_signing_alg_values_supported: list[Annotated[str, Meta(examples=["RS256"])]]
    acr_values_supported: list[Annotated[str, Meta(examples=["1"])]]
    claims_supported: list[Annotated[str, Meta(examples=["sub"])]]
    prompt_values_supported: list[Annotated[str, Meta(examples=["login"])]]
    request_parameter_supported: bool
    request_uri_parameter_supported: bool
    claims_parameter_supported: bool


def session_body(session: Session, user: User) -> SessionBody:
    """The answer of POST /sessions."""
    return SessionBody(
        user_item(user), timestamp(session.expires_at), timestamp(idle_end(session.last_seen_at))
    )


def user_info(user: User, scopes: frozenset[str]) -> UserInfo:
    """The claims of a user that these scopes give access to."""
    return UserInfo(sub=str(user.id), **personal_claims(user, scopes))


def personal_claims(user: User, scopes: frozenset[str]) -> dict[str, Any]:
    """The claims of a user that these scopes give access to (OpenID Connect Core §5.4)."""
    claims: dict[str, Any] = {}
    if "profile" in scopes:
        claims |= {
            "name": user.name,
            "preferred_username": user.email,
            "locale": user.language,
            "updated_at": user.updated_at // SECOND,
        }
        if user.avatar_url:
            claims["picture"] = user.avatar_url
    if "email" in scopes:
        claims |= {"email": user.email, "email_verified": user.email_verified_at is not None}
    return claims
