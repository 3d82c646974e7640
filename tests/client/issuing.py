"""Tokens and key sets as an issuer makes them."""

from functools import cache
from typing import Any

from joserfc import jwt
from joserfc.jwk import RSAKey

from client.scripted import answer

AUTH = "https://portico.example/auth"
BASE = "https://portico.example/v1"
NOW = 1_800_000_000
GOOD: dict[str, Any] = {
    "sub": "17",
    "name": "Ada Lovelace",
    "role": "editor",
    "iat": NOW - 60,
    "exp": NOW + 60,
    "iss": AUTH,
    "aud": BASE,
}


@cache
def key(_name: str) -> RSAKey:
    """A key of this name; making one takes a while."""
    return RSAKey.generate_key(2048, private=True)


def public(name: str, **changes: Any) -> dict[str, Any]:
    """What a key set says of a key."""
    own = key(name).as_dict(private=False)
    return {**own, "kid": name, "use": "sig", "alg": "RS256", **changes}


def published(*names: str) -> Any:
    """An answer with these keys."""
    return answer(200, {"keys": [public(name) for name in names]})


def signed_token(kid: str = "one", **changes: Any) -> str:
    """A token with other claims."""
    header = {"alg": "RS256", "typ": "JWT", "kid": kid}
    return jwt.encode(header, {**GOOD, **changes}, key(kid), algorithms=["RS256"])
