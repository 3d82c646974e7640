"""Use cases of passkeys (WebAuthn level 3): register, authenticate.

A challenge consists of a time, random bytes, and an authentication code bound to one purpose. It is
valid for ten minutes, and is used up by the change that accepts its answer. Credentials must be
discoverable and verify the user, so a passkey alone counts as two factors.
"""

import asyncio
from hmac import compare_digest
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from portico.change import Change
from portico.core.audit import Author
from portico.core.errors import AuthenticationRequired, Conflict, Fault, Invalid
from portico.core.secrets import base64url, digest, from_base64url
from portico.core.sessions import BY_PASSKEY
from portico.core.times import MINUTE
from portico.core.users import User
from portico.data.database import UniqueViolation
from portico.data.vault import Vault
from portico.environment import Environment
from portico.features.people.storage import Users
from portico.features.people.users import locked_user
from portico.features.signin.rules import PASSKEY, FactorAdded, Passkey, PasskeyRefused
from portico.features.signin.second_factor import (
    new_recovery_codes,
    store_recovery_codes,
    tell_of_ways_in,
)
from portico.features.signin.storage import FactorStore, Sessions

SIGN_IN = "sign in"

MAX_PASSKEYS = 20
HOLDS = 10 * MINUTE
"""How long a challenge can be answered, in milliseconds."""

_ALGORITHMS = (-8, -7, -257)
"""EdDSA, ES256 and RS256, by their COSE numbers."""

_LONGEST_ID = 1023
"""The longest credential id, in bytes (WebAuthn §7.1)."""

_LONGEST_KEY = 1100
"""The longest public key (COSE), in bytes: enough for RSA with 8192 bits."""

_TIME_BYTES, _RANDOM_BYTES = 8, 16
_REFUSED = "This passkey was not accepted, or it took too long: try again."


class Assertion(NamedTuple):
    """A passkey that has signed a challenge, with the sign count that it sent."""

    passkey: Passkey
    sign_count: int
    challenge: str


class _Id(msgspec.Struct):
    id: str


class _ClientData(msgspec.Struct):
    challenge: str
    crossOrigin: bool = False  # noqa: N815 - the name that browsers give it
    topOrigin: str | None = None  # noqa: N815 - the name that browsers give it


class _Response(msgspec.Struct):
    clientDataJSON: str  # noqa: N815 - the name in WebAuthn


class _Answer(msgspec.Struct):
    id: str
    response: _Response


def rp_id(env: Environment) -> str:
    """The relying party's id, to which passkeys are bound: the dashboard's host."""
    return urlsplit(env.addresses.dashboard).hostname or ""


def _origins(env: Environment) -> list[str]:
    """The origins where a passkey may be used: the dashboard's, and the authorization server's if
    its host is the dashboard's or a subdomain of it."""
    parts = [urlsplit(one) for one in (env.addresses.dashboard, env.addresses.auth)]
    own = rp_id(env)
    within = [p for p in parts if p.hostname == own or (p.hostname or "").endswith(f".{own}")]
    return list(dict.fromkeys(f"{part.scheme}://{part.netloc}" for part in within))


async def creation_options(env: Environment, user: User, session_id: int) -> str:
    """The options to register a passkey, as JSON (`PublicKeyCredentialCreationOptionsJSON`)."""
    factors = await env[FactorStore].of_user(user.id)
    handle = env[Vault].authenticate(f"passkey user {user.id}".encode())[:16]
    return _json(
        rp={"id": rp_id(env), "name": env.settings.site_name},
        user={"id": base64url(handle), "name": user.email, "displayName": user.name},
        challenge=base64url(_challenge(env, _registering(session_id))),
        pubKeyCredParams=[{"type": "public-key", "alg": one} for one in _ALGORITHMS],
        timeout=HOLDS,
        excludeCredentials=[
            {"type": "public-key", "id": base64url(one.credential_id)} for one in factors.passkeys
        ],
        authenticatorSelection={
            "residentKey": "required",
            "requireResidentKey": True,
            "userVerification": "required",
        },
        attestation="none",
    )


def request_options(env: Environment, origin: str) -> str:
    """The options to authenticate with a passkey, as JSON
    (`PublicKeyCredentialRequestOptionsJSON`); empty for an origin where none may be used."""
    if origin not in _origins(env):
        return ""
    return _json(
        rpId=rp_id(env),
        challenge=base64url(_challenge(env, SIGN_IN)),
        timeout=HOLDS,
        userVerification="required",
    )


def _json(**options: Any) -> str:
    return msgspec.json.encode(options).decode()


async def add_passkey(
    env: Environment, user_id: int, session_id: int, *, answer: str, name: str, by: Author
) -> tuple[str, ...]:
    """Registers a passkey for a user who is signed in; their session then counts as authenticated
    with it.

    Returns recovery codes if it is the user's first factor, otherwise none. Raises `Invalid` if
    `answer` does not answer a challenge of this session, and `Conflict` for a passkey that is
    already registered, or one more than `MAX_PASSKEYS`.
    """
    challenge = _answered(env, answer, _registering(session_id))
    credential = await _verified(env, answer, challenge) if challenge else None
    if challenge is None or credential is None:
        raise Invalid(_REFUSED, [Fault("credential", _REFUSED)])
    codes = new_recovery_codes(env)

    async def work(change: Change) -> tuple[str, ...]:
        user = await locked_user(env, change, user_id)
        factors = await env[FactorStore].of_user(user_id, change.tx)
        if len(factors.passkeys) >= MAX_PASSKEYS:
            raise Conflict(f"An account has at most {MAX_PASSKEYS} passkeys: remove one first.")
        if not await _use(env, change, challenge):
            raise Invalid(_REFUSED, [Fault("credential", _REFUSED)])
        new = Passkey(
            id=0,
            user_id=user_id,
            name=name,
            credential_id=credential.credential_id,
            public_key=credential.credential_public_key,
            sign_count=credential.sign_count,
            created_at=change.now,
            last_used_at=None,
        )
        change.note(FactorAdded(user, await env[FactorStore].add_passkey(change.tx, new)))
        await env[Sessions].prove(change.tx, session_id, user_id, BY_PASSKEY, change.now)
        await tell_of_ways_in(env, change, user, "passkey-added", by, name=name)
        if factors:
            return ()
        await store_recovery_codes(env, change, user, codes)
        return codes

    try:
        return await env.change(by, work)
    except UniqueViolation as error:
        raise Conflict("This passkey is already registered.") from error


async def check_assertion(env: Environment, answer: str, by: Author) -> tuple[User, Assertion]:
    """The user who answers a challenge with a passkey, and the assertion.

    Raises `AuthenticationRequired` with the same message for every failure. A sign count that did
    not increase means that the passkey was cloned: it is refused, and noted.
    """
    challenge = _answered(env, answer, SIGN_IN)
    passkey = await _known(env, answer)
    user = await env[Users].get(passkey.user_id) if passkey else None
    read = await _verified(env, answer, challenge, passkey) if challenge and passkey else None
    if challenge is None or passkey is None or user is None or read is None:
        raise AuthenticationRequired(_REFUSED)
    count = read.new_sign_count
    if count <= passkey.sign_count and (count or passkey.sign_count):
        await env.change.note(by.proving(PASSKEY), PasskeyRefused(user, passkey))
        raise AuthenticationRequired(_REFUSED)
    return user, Assertion(passkey, count, challenge)


async def use_assertion(env: Environment, change: Change, assertion: Assertion) -> None:
    """Uses up an assertion of a locked user. Raises `AuthenticationRequired` if it was used before,
    or the passkey was removed meanwhile."""
    counted = await env[FactorStore].count_passkey(
        change.tx, assertion.passkey.id, assertion.sign_count, change.now
    )
    if not counted or not await _use(env, change, assertion.challenge):
        raise AuthenticationRequired(_REFUSED)


def _registering(session_id: int) -> str:
    return f"register in session {session_id}"


def _challenge(env: Environment, purpose: str) -> bytes:
    stamp = env.clock().to_bytes(_TIME_BYTES, "big") + env.random(_RANDOM_BYTES)
    return stamp + _codes(env, purpose, stamp)[0]


def _codes(env: Environment, purpose: str, stamp: bytes) -> list[bytes]:
    """The valid codes of a stamp; the first is the one to send."""
    return env[Vault].codes(f"{env.name} passkey {purpose} ".encode() + stamp)


def _answered(env: Environment, answer: str, purpose: str) -> str | None:
    """The challenge of an answer, in base64url. None if we did not issue it for this purpose, if it
    has expired, or if the answer came from a frame of another site (WebAuthn §7.1, §7.2)."""
    try:
        sent = msgspec.json.decode(answer, type=_Answer)
        data = from_base64url(sent.response.clientDataJSON)
        client = msgspec.json.decode(data, type=_ClientData)
        challenge = from_base64url(client.challenge)
    except (ValueError, RecursionError):
        return None
    if client.crossOrigin or client.topOrigin is not None:
        return None  # made in a frame of another site's page, where none of ours can be
    stamp = challenge[: _TIME_BYTES + _RANDOM_BYTES]
    code, known = challenge[len(stamp) :], _codes(env, purpose, stamp)
    if not any(compare_digest(code, one) for one in known):
        return None
    age = env.clock() - int.from_bytes(stamp[:_TIME_BYTES], "big")
    return base64url(challenge) if age < HOLDS else None


async def _use(env: Environment, change: Change, challenge: str) -> bool:
    # Kept until no host accepts it any more: their clocks differ a little.
    until = change.now + HOLDS + MINUTE
    return await env[FactorStore].use_challenge(change.tx, digest(challenge), until)


async def _known(env: Environment, answer: str) -> Passkey | None:
    try:
        credential_id = from_base64url(msgspec.json.decode(answer, type=_Id).id)
    except (ValueError, RecursionError):
        return None
    return await env[FactorStore].passkey(credential_id)


def _load() -> Any:
    import webauthn  # takes 0.3 s, so only when a passkey is used

    return webauthn


async def _verified(
    env: Environment, answer: str, challenge: str, passkey: Passkey | None = None
) -> Any:
    """An answer as verified by py_webauthn: that of `passkey`, or of a new one if that is None.
    None if the answer is invalid."""
    # Loaded in a thread: it would block the event loop for too long.
    webauthn = await asyncio.to_thread(_load)
    expected: dict[str, Any] = {
        "credential": answer,
        "expected_challenge": from_base64url(challenge),
        "expected_rp_id": rp_id(env),
        "expected_origin": _origins(env),
        "require_user_verification": True,
    }
    try:
        if passkey is None:
            made = webauthn.verify_registration_response(**expected)
            fits = len(made.credential_id) <= _LONGEST_ID
            return made if fits and len(made.credential_public_key) <= _LONGEST_KEY else None
        return webauthn.verify_authentication_response(
            **expected,
            credential_public_key=passkey.public_key,
            credential_current_sign_count=0,  # the caller checks it, and notes a refusal
        )
    except Exception:  # noqa: BLE001 - malformed keys and statements make it raise anything
        return None
