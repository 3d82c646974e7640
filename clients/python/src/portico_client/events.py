"""A class of events for each `type`. `Event` is one of any type.

`id` increases with every event of the environment. `data` is the resource as the API shows a single
one, without its `etag`; for a deleted resource, its last state. `previous` has the old values of
the fields that changed, and is None unless the event is an update.
"""

import typing
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from portico_client.models import (
    AccountItem,
    ApiKey,
    Ping,
    PreviousAccount,
    PreviousProduct,
    PreviousUser,
    Product,
    ProductsImported,
    QuotaReached,
    SandboxReset,
    SuccessorKey,
    User,
)

Type = TypeVar("Type", bound=str)
Data = TypeVar("Data")
Previous = TypeVar("Previous")


@dataclass(frozen=True, slots=True)
class _Event(Generic[Type, Data, Previous]):
    id: int
    type: Type
    timestamp: datetime
    data: Data
    previous: Previous


@dataclass(frozen=True, slots=True)
class UserCreatedEvent(_Event[Literal["user.created"], User, None]):
    """A user was created."""


@dataclass(frozen=True, slots=True)
class UserUpdatedEvent(_Event[Literal["user.updated"], User, PreviousUser]):
    """A user was changed."""


@dataclass(frozen=True, slots=True)
class UserDeletedEvent(_Event[Literal["user.deleted"], User, None]):
    """A user was deleted."""


@dataclass(frozen=True, slots=True)
class AccountUpdatedEvent(_Event[Literal["account.updated"], AccountItem, PreviousAccount]):
    """An account was changed, suspended or resumed."""


@dataclass(frozen=True, slots=True)
class QuotaReachedEvent(_Event[Literal["quota.reached"], QuotaReached, None]):
    """An account has used 80 % or all of its month's limit."""


@dataclass(frozen=True, slots=True)
class ProductCreatedEvent(_Event[Literal["product.created"], Product, None]):
    """A product was created."""


@dataclass(frozen=True, slots=True)
class ProductUpdatedEvent(_Event[Literal["product.updated"], Product, PreviousProduct]):
    """A product was changed."""


@dataclass(frozen=True, slots=True)
class ProductDeletedEvent(_Event[Literal["product.deleted"], Product, None]):
    """A product was deleted."""


@dataclass(frozen=True, slots=True)
class ProductsImportedEvent(_Event[Literal["products.imported"], ProductsImported, None]):
    """Products were imported, which is one event for all."""


@dataclass(frozen=True, slots=True)
class ApiKeyCreatedEvent(_Event[Literal["api_key.created"], ApiKey, None]):
    """An API key was created."""


@dataclass(frozen=True, slots=True)
class ApiKeyRotatedEvent(_Event[Literal["api_key.rotated"], SuccessorKey, None]):
    """An API key was replaced."""


@dataclass(frozen=True, slots=True)
class ApiKeyRevokedEvent(_Event[Literal["api_key.revoked"], ApiKey, None]):
    """An API key was revoked."""


@dataclass(frozen=True, slots=True)
class SandboxResetEvent(_Event[Literal["sandbox.reset"], SandboxReset, None]):
    """The sandbox was reset."""


@dataclass(frozen=True, slots=True)
class PingEvent(_Event[Literal["ping"], Ping, None]):
    """A webhook was tested."""


@dataclass(frozen=True, slots=True)
class UnknownEvent(_Event[Literal["unknown"], Mapping[str, Any], Mapping[str, Any] | None]):
    """An event from a newer server: of a type that this client does not know, or with data that it
    cannot read. `name` is the type as the server calls it; `data` and `previous` hold JSON values,
    with fractions as `Decimal`."""

    name: str


Event: TypeAlias = (
    UserCreatedEvent
    | UserUpdatedEvent
    | UserDeletedEvent
    | AccountUpdatedEvent
    | QuotaReachedEvent
    | ProductCreatedEvent
    | ProductUpdatedEvent
    | ProductDeletedEvent
    | ProductsImportedEvent
    | ApiKeyCreatedEvent
    | ApiKeyRotatedEvent
    | ApiKeyRevokedEvent
    | SandboxResetEvent
    | PingEvent
    | UnknownEvent
)
"""An event of any type."""


def shape(kind: type) -> tuple[str, Any, Any]:
    """The `type` of a class of events, and the types of its `data` and `previous`."""
    (base,) = kind.__orig_bases__  # type: ignore[attr-defined]  # every class above has one
    literal, data, previous = typing.get_args(base)
    return typing.get_args(literal)[0], data, previous
