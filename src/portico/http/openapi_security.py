"""The security schemes of the OpenAPI document, and which of them each operation needs."""

from portico.domain.oauth import OPENID_SCOPES, OPENID_WORDS
from portico.domain.scopes import SCOPE_WORDS
from portico.http.openapi_responses import Json
from portico.http.routing import Access, AnyRoute

_BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "An API key, the JSON Web Token of a login, or an OAuth access token.",
}
_COOKIE = {
    "type": "apiKey",
    "in": "cookie",
    "name": "__Host-session",
    "description": "The session cookie, named `__Secure-session` if the hosts of a domain share"
    " it.",
}
_CLIENT = {
    "type": "http",
    "scheme": "basic",
    "description": "An OAuth client's id and secret.",
}

ANY_CREDENTIAL: list[Json] = [{"bearer": []}, {"oauth": []}, {"cookie": []}]
"""The default: any credential that the API accepts."""


def security_schemes(auth_address: str) -> Json:
    """Every security scheme, by the name that operations use."""
    code = {
        "authorizationUrl": f"{auth_address}/authorize",
        "tokenUrl": f"{auth_address}/token",
        "refreshUrl": f"{auth_address}/token",
        "scopes": {**OPENID_WORDS, **SCOPE_WORDS},
    }
    oauth = {
        "type": "oauth2",
        "description": "An access token that a user has granted to a client, with PKCE.",
        "flows": {"authorizationCode": code},
    }
    return {"bearer": _BEARER, "oauth": oauth, "cookie": _COOKIE, "client": _CLIENT}


def requirements(route: AnyRoute) -> list[Json] | None:
    """The security requirements of an operation; None if `ANY_CREDENTIAL` applies."""
    if route.access is Access.CLIENT:
        return [{"client": []}, {}]
    if route.access is Access.ANYONE:
        return [{"bearer": []}, {}] if route.bearer_instead else []
    if route.scope in OPENID_SCOPES:
        return [{"oauth": [route.scope]}]
    if route.sets_cookie:
        return [{"cookie": []}]
    if route.access is Access.WHOLE_CALLER:
        return [{"bearer": []}, {"cookie": []}]
    if route.scope:
        return [{"bearer": []}, {"oauth": [route.scope]}, {"cookie": []}]
    return None
