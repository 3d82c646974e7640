"""JSON Web Tokens as Portico signs them: RS256 and nothing else (RFC 7519, RFC 8725)."""

import contextlib
import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

try:
    from joserfc import jws
    from joserfc.errors import JoseError
    from joserfc.jwk import RSAKey
except ImportError as error:
    raise ImportError(
        "to verify tokens, install the client with its extra [jwt], as its README says"
    ) from error

from portico_client.credentials import Claims
from portico_client.errors import InvalidToken

PublicKey: TypeAlias = RSAKey

ALGORITHM = "RS256"
LONGEST = 16_384
SMALLEST_KEY_BITS = 2048
BITS_PER_CHARACTER = 6
"""A key set writes numbers in base64url, which has 6 bits per character."""


def key_id(token: str, kind: str | None = None) -> str:
    """The id of the key that a token says it is signed with. Raises `InvalidToken`.

    `kind` is the `typ` that it must have. Nothing else in the header is trusted, such as a key or
    the URL of one.
    """
    if len(token) > LONGEST or token.count(".") != 2:
        raise InvalidToken("it is not a signed JSON Web Token")
    header = _members(token.partition(".")[0])
    if header.get("alg") != ALGORITHM:
        raise InvalidToken(f"it is not signed by {ALGORITHM}")
    if kind is not None and header.get("typ") != kind:
        raise InvalidToken(f"it is not of the type {kind}")
    if "crit" in header:
        raise InvalidToken("it has an unknown crit header")
    kid = header.get("kid")
    if not isinstance(kid, str):
        raise InvalidToken("it does not name its key")
    return kid


def public_keys(key_set: Any) -> dict[str, PublicKey]:
    """The keys of a key set (RFC 7517) that can verify tokens. Others are left out."""
    found: dict[str, PublicKey] = {}
    for one in key_set["keys"]:
        with contextlib.suppress(JoseError, KeyError, TypeError, ValueError, AttributeError):
            if _usable(one):
                numbers = {name: one[name] for name in ("kty", "n", "e")}
                found[one["kid"]] = RSAKey.import_key(numbers)
    return found


def _usable(key: Any) -> bool:
    kind = (key["kty"], key.get("use", "sig"), key.get("alg", ALGORITHM))
    long_enough = len(key["n"]) * BITS_PER_CHARACTER >= SMALLEST_KEY_BITS
    return kind == ("RSA", "sig", ALGORITHM) and long_enough


def verified(token: str, key: PublicKey, *, issuer: str, audience: str, now: float) -> Claims:
    """The claims of a token, after checking its signature, `exp`, `nbf`, `iss` and `aud`.

    `now` is in Unix seconds. Raises `InvalidToken`.
    """
    try:
        payload = jws.deserialize_compact(token, key, algorithms=[ALGORITHM]).payload
    except (JoseError, ValueError) as error:
        raise InvalidToken("its signature is invalid") from error
    claims = _object(payload)
    expires_at = _seconds(claims, "exp")
    if expires_at <= now:
        raise InvalidToken("it has expired")
    if "nbf" in claims and _seconds(claims, "nbf") > now:
        raise InvalidToken("it is not valid yet")
    if claims.get("iss") != issuer:
        raise InvalidToken("it was issued by another issuer")
    intended = claims.get("aud")
    if audience not in (intended if isinstance(intended, list) else [intended]):
        raise InvalidToken("it is for another audience")
    subject = claims.get("sub")
    if not isinstance(subject, str):
        raise InvalidToken("it has no subject")
    name, role = (_text(claims, one) for one in ("name", "role"))
    try:
        end = datetime.fromtimestamp(expires_at, UTC)
    except (ValueError, OverflowError, OSError):
        raise InvalidToken("its exp is not a time") from None
    return Claims(subject, end, name, role, claims)


def _members(part: str) -> Mapping[str, Any]:
    try:
        return _object(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except ValueError as error:
        raise InvalidToken("it is not a signed JSON Web Token") from error


def _object(content: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidToken("it is not a signed JSON Web Token")
    return found


def _seconds(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidToken(f"its {name} is not a time")
    return value


def _text(claims: Mapping[str, Any], name: str) -> str | None:
    value = claims.get(name)
    return value if isinstance(value, str) else None
