"""Use cases of passkeys (WebAuthn level 3): register one, prove oneself by one, rename, remove.

A challenge is a time and random bytes under our code, for one purpose; it holds ten minutes, and is
used up by the change that believes its answer. Discoverable credentials with user verification are
asked for, so a passkey is two factors by itself.
"""

import asyncio
from hmac import compare_digest
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from portico.domain.audit import By
from portico.domain.base64url import base64url, from_base64url
from portico.domain.errors import AuthenticationRequired, Conflict, Fault, Invalid, NotFound
from portico.domain.events.factors import (
    FactorAdded,
    FactorRemoved,
    FactorRenamed,
    PasskeyRefused,
)
from portico.domain.factors import Passkey
from portico.domain.proofs import BY_PASSKEY
from portico.domain.secrets import digest
from portico.domain.times import AHEAD, MINUTE
from portico.domain.users import User
from portico.services.change import Change
from portico.services.environment import Environment
from portico.services.second_factor import (
    new_recovery_codes,
    store_recovery_codes,
)
from portico.services.users import locked_user
from portico.services.ways_in import keep_a_way_in, tell_of_ways_in
from portico.storage.database import UniqueViolation

KIND = "passkey"
SIGN_IN = "sign in"

MAX_PASSKEYS = 20
HOLDS = 10 * MINUTE
"""How long a challenge can be answered, in milliseconds."""

_ALGORITHMS = (-8, -7, -257)
"""EdDSA, ES256 and RS256, as COSE numbers them."""

_LONGEST_ID = 1023
"""WebAuthn §7.1: the longest id of a passkey, in bytes."""

_TIME_BYTES, _RANDOM_BYTES = 8, 16
_REFUSED = "This passkey did not work here, or it took too long: try again."


class Assertion(NamedTuple):
    """A passkey that has signed a challenge, and the count that it told."""

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
    clientDataJSON: str  # noqa: N815 - the name that browsers give it


class _Answer(msgspec.Struct):
    id: str
    response: _Response


def rp_id(env: Environment) -> str:
    """The host that passkeys belong to: the dashboard's."""
    return urlsplit(env.addresses.dashboard).hostname or ""


def _origins(env: Environment) -> list[str]:
    """Where a passkey may be used: at the dashboard, and at the authorization server where its
    host lies within the dashboard's."""
    parts = [urlsplit(one) for one in (env.addresses.dashboard, env.addresses.auth)]
    own = rp_id(env)
    within = [p for p in parts if p.hostname == own or (p.hostname or "").endswith(f".{own}")]
    return list(dict.fromkeys(f"{part.scheme}://{part.netloc}" for part in within))


async def creation_options(env: Environment, user: User, session_id: int) -> str:
    """What a browser makes a passkey of, as JSON (`PublicKeyCredentialCreationOptionsJSON`)."""
    factors = await env.factors.of_user(user.id)
    handle = env.vault.authenticate(f"passkey user {user.id}".encode())[:16]
    return _json(
        rp={"id": rp_id(env), "name": "Portico"},
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
    """What a browser asks passkeys for, as JSON (`PublicKeyCredentialRequestOptionsJSON`); empty
    for pages of an origin where none may be used."""
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
    env: Environment, user_id: int, session_id: int, *, answer: str, name: str, by: By
) -> tuple[str, ...]:
    """Keeps a passkey that a browser has made for a user who is signed in, whose session is then
    one of two factors.

    Returns recovery codes where it is the first factor, else none. Raises `Invalid` for what is not
    the answer to a challenge of this session, and `Conflict` for a passkey that is known, or one
    too many.
    """
    challenge = _answered(env, answer, _registering(session_id))
    credential = await _verified(env, answer, challenge) if challenge else None
    if challenge is None or credential is None:
        raise Invalid(_REFUSED, [Fault("credential", _REFUSED)])
    codes = new_recovery_codes(env)

    async def work(change: Change) -> tuple[str, ...]:
        user = await locked_user(env, change, user_id)
        factors = await env.factors.of_user(user_id, change.tx)
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
        change.note(FactorAdded(user, KIND, await env.factors.add_passkey(change.tx, new)))
        await env.sessions.prove(change.tx, session_id, user_id, BY_PASSKEY, change.now)
        await tell_of_ways_in(env, change, user, "passkey-added", by, name=name)
        if factors:
            return ()
        await store_recovery_codes(env, change, user, codes)
        return codes

    try:
        return await env.change(by, work)
    except UniqueViolation as error:
        raise Conflict("This passkey is registered already.") from error


async def check_assertion(env: Environment, answer: str, by: By) -> tuple[User, Assertion]:
    """Who answers a challenge of ours by a passkey, and how.

    Raises `AuthenticationRequired` with one message for all that is wrong. A count that went back
    means that there are two of one passkey: it is refused, and noted.
    """
    challenge = _answered(env, answer, SIGN_IN)
    passkey = await _known(env, answer)
    user = await env.users.get(passkey.user_id) if passkey else None
    read = await _verified(env, answer, challenge, passkey) if challenge and passkey else None
    if challenge is None or passkey is None or user is None or read is None:
        raise AuthenticationRequired(_REFUSED)
    count = read.new_sign_count
    if count <= passkey.sign_count and (count or passkey.sign_count):
        await _note_refusal(env, user, passkey, by)
        raise AuthenticationRequired(_REFUSED)
    return user, Assertion(passkey, count, challenge)


async def use_assertion(env: Environment, change: Change, assertion: Assertion) -> None:
    """Uses up what a passkey has signed, its user being locked. Raises `AuthenticationRequired`
    where that was done before, or the passkey was removed meanwhile."""
    counted = await env.factors.count_passkey(
        change.tx, assertion.passkey.id, assertion.sign_count, change.now
    )
    if not counted or not await _use(env, change, assertion.challenge):
        raise AuthenticationRequired(_REFUSED)


async def rename_passkey(env: Environment, user_id: int, row_id: int, name: str, by: By) -> None:
    """Gives a user's passkey another name. Raises `NotFound`."""

    async def work(change: Change) -> None:
        user = await locked_user(env, change, user_id)
        found = (await env.factors.of_user(user_id, change.tx)).passkey(row_id)
        if found is None:
            raise _gone()
        await env.factors.rename_passkey(change.tx, user_id, row_id, name)
        change.note(FactorRenamed(user, KIND, found, name))

    await env.change(by, work)


async def remove_passkey(env: Environment, user_id: int, row_id: int, by: By) -> None:
    """Removes a user's passkey; with the last factor the recovery codes go. Raises `NotFound`, and
    `Conflict` where it is the last way in."""

    async def work(change: Change) -> None:
        user = await locked_user(env, change, user_id)
        found = (await env.factors.of_user(user_id, change.tx)).passkey(row_id)
        if found is None:
            raise _gone()
        await env.factors.remove_passkey(change.tx, user_id, row_id)
        await keep_a_way_in(env, change, user)
        if not await env.factors.of_user(user_id, change.tx):
            await env.factors.set_recovery_codes(change.tx, user_id, ())
        change.note(FactorRemoved(user, KIND, found))
        await tell_of_ways_in(env, change, user, "passkey-removed", by, name=found.name)

    await env.change(by, work)


async def _note_refusal(env: Environment, user: User, passkey: Passkey, by: By) -> None:
    async def work(change: Change) -> None:
        change.note(PasskeyRefused(user, passkey))

    await env.change(by.alone.named(credential=KIND), work)


def _registering(session_id: int) -> str:
    return f"register in session {session_id}"


def _challenge(env: Environment, purpose: str) -> bytes:
    stamp = env.clock().to_bytes(_TIME_BYTES, "big") + env.random(_RANDOM_BYTES)
    return stamp + _codes(env, purpose, stamp)[0]


def _codes(env: Environment, purpose: str, stamp: bytes) -> list[bytes]:
    """The codes that count, the one to send first."""
    return env.vault.codes(f"{env.name} passkey {purpose} ".encode() + stamp)


def _answered(env: Environment, answer: str, purpose: str) -> str | None:
    """The challenge that an answer is to, in base64url; None where it is none of ours for this
    purpose, too old, or was answered in a frame (WebAuthn §7.1, §7.2)."""
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
    return base64url(challenge) if -AHEAD <= age < HOLDS else None


async def _use(env: Environment, change: Change, challenge: str) -> bool:
    # Kept while it may be answered by any clock: by that which made it, from a time ahead.
    until = change.now + HOLDS + 2 * AHEAD
    return await env.factors.use_challenge(change.tx, digest(challenge), until)


async def _known(env: Environment, answer: str) -> Passkey | None:
    try:
        credential_id = from_base64url(msgspec.json.decode(answer, type=_Id).id)
    except (ValueError, RecursionError):
        return None
    return await env.factors.passkey(credential_id)


def _load() -> Any:
    import webauthn  # 0.3 s, which a server that sees no passkey is spared

    return webauthn


async def _verified(
    env: Environment, answer: str, challenge: str, passkey: Passkey | None = None
) -> Any:
    """What py_webauthn has read of an answer: of a passkey, or, without one, of a new one. None
    where it does not believe it."""
    # In a thread, since to load it takes longer than a request may wait for the event loop.
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
            return made if len(made.credential_id) <= _LONGEST_ID else None
        return webauthn.verify_authentication_response(
            **expected,
            credential_public_key=passkey.public_key,
            credential_current_sign_count=0,  # judged by whoever asks, who notes it
        )
    except Exception:  # noqa: BLE001 - of malformed keys and statements it raises almost anything
        return None


def _gone() -> NotFound:
    return NotFound("This passkey was removed meanwhile.")
