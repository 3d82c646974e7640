"""The keys with which clients prove who they are (RFC 7517), and what they sign (RFC 7523)."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from portico.core.errors import BrokenRule
from portico.features.access.signing import unverified

ALGORITHMS = {"RS256": "RSA", "ES256": "EC"}
"""The algorithms that clients may sign with, and the type of key of each."""

MOST_KEYS = 20
_RSA_BITS = range(2048, 4097)
_EXPONENT_BITS = 32
"""Those in use have 17 at most. The longest take a hundred times as long to verify a signature, and
anybody may publish keys."""
_PUBLIC = ("kty", "kid", "use", "alg", "n", "e", "crv", "x", "y")

Key = RSAKey | ECKey


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]


class _Header(msgspec.Struct):
    alg: str
    kid: str | None = None


class AssertionClaims(msgspec.Struct):
    """The claims of an assertion, times in seconds."""

    iss: str
    sub: str
    aud: str | list[str]
    exp: float
    jti: str
    iat: float | None = None
    nbf: float | None = None


def key_set(text: str) -> str:
    """Accepts a JSON Web Key Set of public keys for signing: RSA of 2048 to 4096 bits, or EC of
    P-256. Returns it without what is not needed. Raises `BrokenRule`."""
    try:
        keys = msgspec.json.decode(text, type=_KeySet).keys
    except (ValueError, RecursionError):
        raise BrokenRule("must be a JSON Web Key Set: an object with keys") from None
    if not 1 <= len(keys) <= MOST_KEYS:
        raise BrokenRule(f"must have 1 to {MOST_KEYS} keys")
    for key in keys:
        if "d" in key or "k" in key:
            raise BrokenRule("must have public keys alone: this one is not to leave its owner")
        _key(key)
    public = [{name: key[name] for name in _PUBLIC if name in key} for key in keys]
    return msgspec.json.encode({"keys": public}).decode()


@lru_cache(maxsize=1_000)
def keys_of(text: str) -> tuple[Key, ...]:
    """The keys of what `key_set` returned."""
    return tuple(map(_key, msgspec.json.decode(text, type=_KeySet).keys))


def published_keys(body: bytes) -> tuple[Key, ...]:
    """Those keys of a published set that may sign assertions; others may be for other purposes.
    Raises `ValueError`."""
    found = []
    for key in msgspec.json.decode(body, type=_KeySet).keys[:MOST_KEYS]:
        try:
            found.append(_key(key))
        except BrokenRule:
            continue
    return tuple(found)


def _key(jwk: Mapping[str, Any]) -> Key:
    public = {name: jwk[name] for name in _PUBLIC if name in jwk}
    if not all(isinstance(value, str) for value in public.values()):
        raise BrokenRule("must have keys whose members are strings")
    if public.get("use", "sig") != "sig":
        raise BrokenRule("must have keys for signing (use)")
    if public.get("alg", "RS256" if public.get("kty") == "RSA" else "ES256") not in ALGORITHMS:
        raise BrokenRule(f"must have keys for {' or '.join(ALGORITHMS)} (alg)")
    try:
        if public.get("kty") == "RSA":
            rsa = RSAKey.import_key(public)
            if isinstance(rsa.raw_value, RSAPublicKey) and _fits(rsa.raw_value):
                return rsa
        elif (public.get("kty"), public.get("crv")) == ("EC", "P-256"):
            return ECKey.import_key(public)
    except (JoseError, ValueError):
        raise BrokenRule("must have keys that can be read") from None
    raise BrokenRule("must have RSA keys of 2048 to 4096 bits, or EC keys of P-256")


def _fits(key: RSAPublicKey) -> bool:
    exponent = key.public_numbers().e
    return key.key_size in _RSA_BITS and exponent.bit_length() <= _EXPONENT_BITS


class _Subject(msgspec.Struct):
    sub: str


def claimed_subject(assertion: str) -> str | None:
    """Whose assertion this claims to be; it is not verified."""
    claims = unverified(assertion, 1, _Subject)
    return None if claims is None else claims.sub


def signed_claims(assertion: str, keys: Sequence[Key]) -> AssertionClaims | None:
    """The claims of an assertion, if one of the keys has signed it."""
    header = unverified(assertion, 0, _Header)
    if header is None:
        return None
    for key in keys:
        if ALGORITHMS.get(header.alg) != key.key_type or key.alg not in (None, header.alg):
            continue
        if header.kid is not None and key.kid not in (None, header.kid):
            continue
        try:
            signed = jws.deserialize_compact(assertion, key, algorithms=[header.alg])
            return msgspec.json.decode(signed.payload, type=AssertionClaims)
        except (JoseError, ValueError, RecursionError):
            continue
    return None
