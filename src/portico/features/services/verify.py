"""`POST /verify`: a service asks whose credential it was sent, and what it may do."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from portico.core.caller import Principal
from portico.core.errors import (
    AuthenticationRequired,
    BrokenRule,
    Fault,
    Invalid,
    Unreadable,
    invalid,
    unreadable,
)
from portico.core.requests import NO_KEY, RequestCounts
from portico.core.rules import Between, Measured
from portico.core.scopes import SCOPES, VERIFY
from portico.core.services import MOST_COST, Needed, Service
from portico.core.times import HOUR
from portico.features.services.service import Decision, Decisions, needed_at
from portico.web.envelope import Identifier, Timestamp, optional_timestamp
from portico.web.fields import Integer, Items, Object, Text
from portico.web.messages import BodyRequest, Origin, Reply, json_reply
from portico.web.peers import address_of
from portico.web.problems import status_of
from portico.web.reading import sent
from portico.web.routing import AnyRoute, BodyRoute

MOST_CHECKS = 100
LONGEST = 8192

_FINE = "The credential is valid for this."


_short = Measured(0, LONGEST)


def _address(text: str) -> str:
    address = address_of(text) if len(text) <= 64 else None
    if address is None:
        raise BrokenRule("must be an IP address")
    return address


def _text(description: str, example: str) -> Any:
    return Text(_short, description=description, examples=[example])


_Credential = Annotated[
    str,
    Text(
        _short,
        writeOnly=True,
        description="An API key, an access token, or the value of a session cookie.",
    ),
]


class _About(msgspec.Struct):
    """What a check may say of the request that is asked about."""

    service: Annotated[str, _text("A declared service.", "invoices")] | UnsetType = UNSET
    scope: Annotated[str, _text("A scope that it needs.", "read:products")] | UnsetType = UNSET
    cost: (
        Annotated[int, Integer(Between(0, MOST_COST), description="What it takes. By default 1.")]
        | UnsetType
    ) = UNSET
    limit: Annotated[str, _text("A named limit.", "heavy")] | UnsetType = UNSET
    address: (
        Annotated[str, Text(_address, description="The caller's address.", examples=["192.0.2.7"])]
        | UnsetType
    ) = UNSET
    method: Annotated[str, _text("Its method.", "GET")] | UnsetType = UNSET
    path: Annotated[str, _text("Its path at the service.", "/7")] | UnsetType = UNSET


class Check(_About, kw_only=True):
    """What to ask about one request."""

    credential: _Credential


class Verify(_About):
    """The body of POST /verify: one check, or up to 100 as `checks`."""

    EXAMPLE: ClassVar = {"credential": "sk_live_…", "scope": "read:products"}

    credential: _Credential | UnsetType = UNSET
    checks: Annotated[list[dict[str, Any]], Items(Object(Check), MOST_CHECKS, 1)] | UnsetType = (
        UNSET
    )


class VerifiedUser(msgspec.Struct, frozen=True):
    """Whose credential it is."""

    id: Identifier
    name: Annotated[str, Meta(examples=["Ada Lovelace"])]
    role: Annotated[str, Meta(examples=["editor"])]
    plan: Annotated[str, Meta(examples=["pro"])]


class VerifiedCredential(msgspec.Struct, frozen=True):
    """The credential. `scopes` are those that its user's role has too; `name` is that of a key."""

    kind: Literal["api_key", "jwt", "oauth", "session"]
    id: Identifier
    name: Annotated[str | None, Meta(examples=["Laptop"])]
    scopes: Annotated[list[str], Meta(examples=[["read:products"]])]
    expires_at: Timestamp | None


class VerifiedLimit(msgspec.Struct, frozen=True):
    """The window with the least left, as the headers of a request tell it."""

    limit: Annotated[int, Meta(ge=1, examples=[100])]
    remaining: Annotated[int, Meta(ge=0, examples=[99])]
    reset: Annotated[int, Meta(description="Unix seconds.", examples=[1773576060])]
    retry_after: Annotated[
        int, Meta(ge=0, description="Seconds; 0 unless the limit is reached.", examples=[0])
    ]


class Verified(msgspec.Struct, frozen=True):
    """What the caller would have got."""

    valid: Annotated[bool, Meta(examples=[True])]
    code: Annotated[
        str,
        Meta(description="`VALID`, or the error code that the caller gets.", examples=["VALID"]),
    ]
    message: Annotated[str, Meta(description="For people.", examples=[_FINE])]
    user: VerifiedUser | None
    credential: VerifiedCredential | None
    limit: VerifiedLimit | None


class VerifyAnswer(msgspec.Struct, frozen=True):
    """One verdict, or for `checks` one for each of them, in their order."""

    data: Verified | list[Verified]


def verified(decision: Decision) -> Verified:
    """A decision as it is told."""
    caller, error, verdict, _cost = decision
    user = credential = limit = None
    if caller is not None:
        user = VerifiedUser(caller.user_id, caller.name, caller.role, caller.plan)
        credential = VerifiedCredential(
            caller.credential,
            caller.credential_id,
            caller.credential_name,
            sorted(caller.scopes),
            optional_timestamp(caller.expires_at),
        )
    if verdict is not None:
        limit = VerifiedLimit(verdict.limit, verdict.remaining, verdict.reset, verdict.retry_after)
    code, message = ("VALID", _FINE) if error is None else (error.code, error.message)
    return Verified(error is None, code, message, user, credential, limit)


class _Asked(NamedTuple):
    """One check, read."""

    credential: str
    service: Service | None
    needed: Needed
    method: str | None
    origin: Origin | None
    label: str


def routes(decisions: Mapping[str, Decisions]) -> tuple[AnyRoute, ...]:
    """`POST /verify` of each environment; `decisions` are by their names."""

    async def verify_credential(request: BodyRequest[Verify]) -> Reply:
        decide = decisions[request.environment.name]
        values = sent(request.body)
        many = values.pop("checks", None)
        if many is None and "credential" not in values:
            raise unreadable(Fault("credential", "is required, here or in each of `checks`"))
        if many is not None and values:
            raise unreadable(Fault(next(iter(values)), "must not be sent beside checks"))
        asked = [
            _read(decide, check, "" if many is None else f"checks.{number}.")
            for number, check in enumerate([values] if many is None else many)
        ]
        found = [verified(one) for one in await _decide_all(decide, asked, request.now)]
        return json_reply(200, VerifyAnswer(found[0] if many is None else found))

    return (
        BodyRoute(
            method="POST",
            path="/verify",
            handler=verify_credential,
            access=VERIFY,
            summary="Verify a credential",
            description="For services of your own: whether a credential that they were sent is"
            " valid, has a scope, and has not reached a limit. What is asked about counts against"
            " its own account, by `cost`; the asking counts against nobody. With `service` and"
            " `path`, the service's rules decide.",
            body=Verify,
            answer=VerifyAnswer,
            errors=(Invalid,),
            no_store=True,
            uncounted=True,
        ),
    )


def _read(decide: Decisions, check: Mapping[str, Any], at: str) -> _Asked:
    """Reads one check. Raises `Unreadable` and `Invalid`, and counts nothing."""
    name, path, method = check.get("service"), check.get("path"), check.get("method")
    scope, limit = check.get("scope"), check.get("limit")
    service = None if name is None else decide.service(name)
    if name is not None and service is None:
        raise invalid(Fault(f"{at}service", "is not declared"))
    if limit is not None and limit not in decide.env.settings.declared.limits:
        raise invalid(Fault(f"{at}limit", "is not declared"))
    if scope is not None and scope not in SCOPES:
        raise invalid(Fault(f"{at}scope", "is no scope"))
    needed = Needed()
    if path is not None:
        if service is None:
            raise invalid(Fault(f"{at}path", "needs service, whose rules decide"))
        try:
            needed = needed_at(service, method or "GET", path)
        except Unreadable as error:
            raise unreadable(Fault(f"{at}path", error.message)) from None
    needed = Needed(
        (*needed.scopes, *([scope] if scope else [])),
        limit or needed.limit,
        check.get("cost", needed.cost),
        needed.refused,
        needed.public,
    )
    label = f"verify {name}" if name else "verify"
    address = check.get("address")
    origin = None if address is None else Origin(address, known=True, secure=True, headers=())
    return _Asked(check["credential"], service, needed, method, origin, label)


async def _decide_all(decide: Decisions, asked: Sequence[_Asked], now: int) -> list[Decision]:
    """Decides in order: of two checks of one account, the first is counted first."""
    if len(asked) == 1:  # a task for each check costs more than deciding
        (one,) = asked
        return [await _decide(decide, one, await _caller(decide, one, now), now)]
    callers = await asyncio.gather(*(_caller(decide, one, now) for one in asked))
    pairs = zip(asked, callers, strict=True)
    return await asyncio.gather(*(_decide(decide, one, caller, now) for one, caller in pairs))


async def _caller(
    decide: Decisions, asked: _Asked, now: int
) -> Principal | AuthenticationRequired | None:
    if asked.needed.public:
        return None
    try:
        return await decide.caller_of(asked.credential, asked.service, now)
    except AuthenticationRequired as error:
        return error


async def _decide(
    decide: Decisions,
    asked: _Asked,
    caller: Principal | AuthenticationRequired | None,
    now: int,
) -> Decision:
    if caller is None:
        return Decision(None, None, None)
    if isinstance(caller, AuthenticationRequired):
        return Decision(None, caller, None)
    decision = await decide.decide(caller, asked.needed, asked.method, asked.origin, now)
    key_id = caller.credential_id if caller.credential == "api_key" else NO_KEY
    status = 200 if decision.error is None else status_of(type(decision.error))
    kind = (caller.user_id, now // HOUR, asked.label, status, key_id)
    decide.env[RequestCounts].count(kind, decision.cost)
    return decision
