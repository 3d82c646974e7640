"""The JSON shapes of `/verify`."""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from portico.core.caller import Principal
from portico.core.errors import BrokenRule
from portico.core.plans import Verdict
from portico.core.rules import Between
from portico.core.services import MOST_COST
from portico.features.services.service import Decision
from portico.web import json_schema
from portico.web.envelope import Identifier, Timestamp, optional_timestamp
from portico.web.fields import Integer, Items, Object, Text
from portico.web.peers import address_of

MOST_CHECKS = 100
LONGEST = 8192

_FINE = "The credential is valid for this."


def _short(text: str) -> str:
    if len(text) > LONGEST:
        raise BrokenRule(f"must be at most {LONGEST} characters long")
    return text


def _address(text: str) -> str:
    address = address_of(text) if len(text) <= 64 else None
    if address is None:
        raise BrokenRule("must be an IP address")
    return address


def _text(description: str, example: str) -> Any:
    return Text(
        _short,
        pattern=json_schema.TEXT,
        maxLength=LONGEST,
        description=description,
        examples=[example],
    )


_Credential = Annotated[
    str,
    Text(
        _short,
        pattern=json_schema.TEXT,
        writeOnly=True,
        description="An API key, an access token, or the value of a session cookie.",
        maxLength=LONGEST,
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
    caller, error, verdict = decision
    return Verified(
        error is None,
        "VALID" if error is None else error.code,
        _FINE if error is None else error.message,
        None if caller is None else _user(caller),
        None if caller is None else _credential(caller),
        None if verdict is None else _limit(verdict),
    )


def _user(caller: Principal) -> VerifiedUser:
    return VerifiedUser(caller.user_id, caller.name, caller.role, caller.plan)


def _credential(caller: Principal) -> VerifiedCredential:
    return VerifiedCredential(
        caller.credential,
        caller.credential_id,
        caller.credential_name,
        sorted(caller.scopes),
        optional_timestamp(caller.expires_at),
    )


def _limit(verdict: Verdict) -> VerifiedLimit:
    return VerifiedLimit(verdict.limit, verdict.remaining, verdict.reset, verdict.retry_after)
