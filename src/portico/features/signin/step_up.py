"""Asking for a fresh proof before actions that a session left open must not allow.

The page that asks for the proof carries a token. It is sent with the form that waits for the proof,
and is used up by a valid proof, so that the form is carried out only once.
"""

from portico.change import Change
from portico.core.audit import Author
from portico.core.errors import AuthenticationRequired, Conflict, NotFound
from portico.core.secrets import digest, mint
from portico.core.sessions import BY_PASSKEY, Session
from portico.core.times import HOUR, MINUTE
from portico.core.users import User
from portico.environment import Environment
from portico.features.access.credentials import ENDED
from portico.features.people.storage import Users
from portico.features.people.users import prove_password
from portico.features.signin.passkeys import Assertion, check_assertion, use_assertion
from portico.features.signin.storage import Challenges, Sessions

FRESH = 15 * MINUTE
"""How long a proof is fresh, in milliseconds."""

WAITS = HOUR
"""How long a form waits for a proof, in milliseconds."""

_DONE = (
    "This form was already carried out, or has waited too long. Nothing was changed now: send it"
    " again if you still want to."
)


def is_fresh(session: Session, now: int) -> bool:
    """Whether a session's owner has recently proved who they are."""
    return now - session.proved_at < FRESH


async def ask_proof(env: Environment, session: Session, by: Author) -> str:
    """Creates the token of a form that waits for its sender's proof."""
    token = mint("", env.random)

    async def work(change: Change) -> None:
        if await change.lock(env[Sessions], session.id) is None:
            raise NotFound(ENDED)
        await env[Challenges].insert(
            change.tx, digest(token), session_id=session.id, expires_at=change.now + WAITS
        )
        change.noted_elsewhere()  # by what the form does

    await env.change(by, work)
    return token


async def prove_by_password(
    env: Environment, user: User, session: Session, token: str, password: str, by: Author
) -> None:
    """Proves who a session's owner is by their password, and uses up the form's token.

    Raises what `prove_password` raises, and `Conflict` if the token was used before or has expired.
    """
    proven = await prove_password(env, user, password, by)
    await _prove(env, user, session, token, proven, None, by)


async def prove_by_passkey(
    env: Environment, user: User, session: Session, token: str, answer: str, by: Author
) -> None:
    """As `prove_by_password`, by a passkey. Raises what `check_assertion` raises, and
    `Conflict`."""
    found, assertion = await check_assertion(env, answer, by)
    if found.id != user.id:
        raise AuthenticationRequired("This passkey belongs to another account.")
    await _prove(env, user, session, token, found.password_hash, assertion, by)


async def _prove(
    env: Environment,
    user: User,
    session: Session,
    token: str,
    password_hash: str | None,
    assertion: Assertion | None,
    by: Author,
) -> None:
    amr = session.amr if assertion is None else BY_PASSKEY

    async def work(change: Change) -> None:
        current = await change.lock(env[Users], user.id)
        if current is None or current.password_hash != password_hash:
            raise Conflict(_DONE)
        if not await env[Challenges].take(
            change.tx, digest(token), session_id=session.id, now=change.now
        ):
            raise Conflict(_DONE)
        if assertion is not None:
            await use_assertion(env, change, assertion)
        await env[Sessions].prove(change.tx, session.id, user.id, amr, change.now)
        change.noted_elsewhere()  # by what the form does

    await env.change(by, work)
