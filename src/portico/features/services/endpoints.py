"""`POST /verify`: a service asks whose credential it was sent, and what it may do."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from portico.core.caller import Principal
from portico.core.errors import (
    AuthenticationRequired,
    Fault,
    Invalid,
    Unreadable,
    invalid,
    unreadable,
)
from portico.core.scopes import SCOPES, VERIFY
from portico.core.services import Needed, Service
from portico.features.services.schemas import Verify, VerifyAnswer, verified
from portico.features.services.service import Decision, Decisions, needed_at
from portico.web.messages import BodyRequest, Reply, json_reply
from portico.web.reading import sent
from portico.web.routing import AnyRoute, BodyRoute


class _Asked(NamedTuple):
    """One check, read."""

    credential: str
    service: Service | None
    needed: Needed | None
    """None if nobody is asked."""
    method: str | None
    address: str | None
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
    needed: Needed | None = Needed()
    if path is not None:
        if service is None:
            raise invalid(Fault(f"{at}path", "needs service, whose rules decide"))
        try:
            needed = needed_at(service, method or "GET", path)
        except Unreadable as error:
            raise unreadable(Fault(f"{at}path", error.message)) from None
    if needed is not None:
        needed = Needed(
            (*needed.scopes, *([scope] if scope else [])),
            limit or needed.limit,
            check.get("cost", needed.cost),
            needed.refused,
        )
    label = f"verify {name}" if name else "verify"
    return _Asked(check["credential"], service, needed, method, check.get("address"), label)


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
    if asked.needed is None:
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
    if asked.needed is None or caller is None:
        return Decision(None, None, None)
    if isinstance(caller, AuthenticationRequired):
        return Decision(None, caller, None)
    return await decide.decide(
        caller,
        asked.needed,
        method=asked.method,
        address=asked.address,
        now=now,
        label=asked.label,
    )
