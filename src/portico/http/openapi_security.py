"""The credentials of the OpenAPI document: how each is sent, and what each operation needs."""

from portico.domain.oauth import OPENID_SCOPES, OPENID_WORDS
from portico.domain.scopes import SCOPE_WORDS
from portico.http.openapi_responses import Json
from portico.http.routing import Access, AnyRoute

_BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "An API key, the JSON Web Token of a login, or an access token of OAuth.",
}
_COOKIE = {
    "type": "apiKey",
    "in": "cookie",
    "name": "__Host-session",
    "description": "A session; `__Secure-session` where a domain shares it.",
}
_CLIENT = {
    "type": "http",
    "scheme": "basic",
    "description": "An OAuth client's id and secret.",
}

OF_API: list[Json] = [{"bearer": []}, {"oauth": []}, {"cookie": []}]
"""Any credential that the API takes."""


def security_schemes(auth_address: str) -> Json:
    """Every credential, by the name that operations give it."""
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


def needed(route: AnyRoute) -> list[Json] | None:
    """What an operation needs; None where that is any credential of the API's."""
    if route.access is Access.CLIENT:
        return [{"client": []}, {}]
    if route.access is Access.ANYONE:
        return [{"bearer": []}, {}] if route.bearer_instead else []
    if route.scope in OPENID_SCOPES:
        return [{"oauth": [route.scope]}]
    if route.sets_cookie:
        return [{"cookie": []}]
    if route.scope:
        return [{"bearer": []}, {"oauth": [route.scope]}, {"cookie": []}]
    return None
