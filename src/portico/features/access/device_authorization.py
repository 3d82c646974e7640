"""Use cases of device authorization (RFC 8628): a program without a browser shows a code, its user
types it on a page and decides, and the program asks for the decision until there is one."""

from typing import NamedTuple

import msgspec

from portico.change import Change
from portico.core.audit import Author
from portico.core.errors import Fault, Invalid, invalid
from portico.core.oauth import (
    DEVICE_CODE_SECONDS,
    POLL_SECONDS,
    AuthorizationRefused,
    Client,
    asked_scopes,
    mint_user_code,
    narrowed,
    read_user_code,
)
from portico.core.scopes import of_role
from portico.core.secrets import DEVICE_CODE, digest, mint
from portico.core.sessions import Proof
from portico.core.times import SECOND
from portico.data.database import UniqueViolation
from portico.environment import Environment
from portico.features.access.authorization import ConsentRequest, remember
from portico.features.access.rules import ClientAuthorized, ClientDenied
from portico.features.access.signing import Signer
from portico.features.access.storage import Clients, DeviceCode, DeviceCodes
from portico.features.access.tokens import (
    Issued,
    begin,
    check_same,
    good_for_one_use,
    issue_first,
    target,
)
from portico.features.people.guard import guarded_code
from portico.features.people.storage import Users

_INVALID = "This device_code is not valid, or was used before."


class PendingDevice(NamedTuple):
    """A code that waits for a decision, and what its client wants. `wanted.scopes` may exceed the
    user's role."""

    code: DeviceCode
    wanted: ConsentRequest


async def offer(
    env: Environment, client: Client, scope: str | None, resource: str | None, by: Author
) -> tuple[str, str]:
    """Begins an authorization (RFC 8628 §3.1): a code for the device, and one for its user. Raises
    `AuthorizationRefused`."""
    device_code = mint(DEVICE_CODE, env.random)
    scopes = asked_scopes(client, scope)
    where = target(env, resource, scopes)

    async def work(change: Change) -> tuple[str, str]:
        change.noted_elsewhere()  # when the user decides
        if await change.lock(env[Clients], client.id) is None:
            raise AuthorizationRefused("invalid_client", "The client was deleted.")
        code = DeviceCode(
            user_code=mint_user_code(env.random),
            client_row_id=client.id,
            scopes=scopes,
            resource=where,
            expires_at=change.now + DEVICE_CODE_SECONDS * SECOND,
            wait_ms=POLL_SECONDS * SECOND,
        )
        await env[DeviceCodes].add(change.tx, digest(device_code), code)
        return device_code, code.user_code

    try:
        return await env.change(by, work)
    except UniqueViolation:  # one in 25,600,000,000 for each code that is kept
        return await env.change(by, work)


async def find(env: Environment, typed: str, by: Author) -> PendingDevice:
    """What the device whose code somebody has typed asks for. Raises `Invalid`, and `RateLimited`
    after too many wrong codes."""

    async def check() -> DeviceCode | None:
        return await env[DeviceCodes].to_decide(read_user_code(typed), env.clock())

    code = await guarded_code(env, by.actor.user_id or 0, by.address, check)
    client = None if code is None else await env[Clients].get(code.client_row_id)
    if code is None or client is None:
        raise _unknown()
    return PendingDevice(code, ConsentRequest(client, "", code.scopes, None, None, code.resource))


async def decide(
    env: Environment, asked: PendingDevice, proof: Proof, by: Author, *, allows: bool, first: bool
) -> None:
    """Stores the decision of the user of `by`, the only one on this code. `asked.wanted.scopes` are
    those that they allow, narrowed to their role; they are remembered with `first`. Raises
    `Invalid` if the code no longer waits for a decision."""

    async def work(change: Change) -> bool:
        user = await change.lock(env[Users], by.actor.user_id or 0)
        client = await change.lock(env[Clients], asked.wanted.client.id)
        if user is None or user.suspended_at is not None or client is None:
            return False
        scopes = narrowed(asked.wanted.scopes, of_role(user.role))
        decided = msgspec.structs.replace(
            asked.code,
            decision="allow" if allows else "deny",
            user_id=user.id,
            scopes=scopes,
            signed_in_at=proof.at,
            amr=proof.amr,
        )
        if not await env[DeviceCodes].decide(change.tx, decided, change.now):
            return False
        if not allows:
            change.note(ClientDenied(client))
            return True
        if first:
            await remember(env, change, asked.wanted, client, user, scopes)
        change.note(ClientAuthorized(client, scopes))
        return True

    if not await env.change(by, work):
        raise _unknown()


async def redeem(
    env: Environment, client: Client, device_code: str, resource: str | None, by: Author
) -> Issued:
    """The tokens for a device, once (RFC 8628 §3.4). Raises `AuthorizationRefused`, also as long as
    the user has not decided."""
    code_hash = digest(device_code)
    code = await env[DeviceCodes].by_hash(code_hash)
    if code is None or code.client_row_id != client.id:
        raise AuthorizationRefused("invalid_grant", _INVALID)
    if env.clock() >= code.expires_at:
        raise AuthorizationRefused("expired_token", "This device_code has expired. Begin again.")
    check_same(env, resource, code.resource)
    if code.decision == "deny":
        raise AuthorizationRefused("access_denied", "The user denied access.")
    if code.decision is None:
        raise await _pending(env, code_hash, by)
    await env[Signer].ready()

    async def work(change: Change) -> Issued | None:
        user = await change.lock(env[Users], code.user_id or 0)
        locked = await change.lock(env[Clients], client.id)
        if user is None or user.suspended_at is not None or locked is None:
            return None
        if not await env[DeviceCodes].take(change.tx, code_hash):
            return None
        change.noted_elsewhere()  # when the user decided
        scopes = narrowed(code.scopes, of_role(user.role))
        grant = await begin(
            *(env, change, client, user.id), scopes=scopes, proof=code.proof, resource=code.resource
        )
        return await issue_first(env, change, client, grant, user)

    with good_for_one_use():
        issued = await env.change(by, work)
    if issued is None:
        raise AuthorizationRefused("invalid_grant", _INVALID)
    return issued


async def _pending(env: Environment, code_hash: bytes, by: Author) -> AuthorizationRefused:
    async def work(change: Change) -> bool:
        change.noted_elsewhere()  # when the user decides
        return await env[DeviceCodes].poll(change.tx, code_hash, change.now)

    if await env.change(by, work):
        return AuthorizationRefused("authorization_pending", "The user has not decided yet.")
    return AuthorizationRefused(
        "slow_down", f"Wait {POLL_SECONDS} seconds longer between requests from now on."
    )


def _unknown() -> Invalid:
    return invalid(
        Fault(
            "user_code", "must be a code that waits for you; this one is mistyped, used or too old"
        )
    )
