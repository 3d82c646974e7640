"""Users on the wire."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from portico.contract.envelope import Identifier, Timestamp, timestamp
from portico.contract.kinds import Boolean, Nullable, Object, Text
from portico.contract.paging import Limit, PageNumber, choice
from portico.domain import users
from portico.domain.users import User

Role = Literal["admin", "editor", "viewer"]


class UserItem(msgspec.Struct, frozen=True):
    """A user in a list, and as POST /users answers."""

    id: Identifier
    name: str
    email: str
    role: Role
    created_at: Timestamp
    updated_at: Timestamp


class PreferencesBody(msgspec.Struct, frozen=True):
    """What a user prefers."""

    theme: Literal["system", "light", "dark"]
    language: str
    notifications: bool


class UserBody(UserItem, frozen=True):
    """A user by itself."""

    avatar_url: str | None
    last_login_at: Timestamp | None
    preferences: PreferencesBody


def user_item(user: User) -> UserItem:
    """A user as lists show it."""
    return UserItem(
        user.id,
        user.name,
        user.email,
        user.role,  # type: ignore[arg-type]  # the database holds no other
        timestamp(user.created_at),
        timestamp(user.updated_at),
    )


def user_body(user: User) -> UserBody:
    """A user as it shows by itself."""
    return UserBody(
        user.id,
        user.name,
        user.email,
        user.role,  # type: ignore[arg-type]  # the database holds no other
        timestamp(user.created_at),
        timestamp(user.updated_at),
        user.avatar_url,
        None if user.last_login_at is None else timestamp(user.last_login_at),
        PreferencesBody(
            user.theme,  # type: ignore[arg-type]  # the database holds no other
            user.language,
            bool(user.notifications),
        ),
    )


_Name = Annotated[str, Text(users.name, minLength=2, maxLength=100, pattern=r"^\S(.*\S)$")]
_Email = Annotated[str, Text(users.email, format="email", maxLength=254)]
_Role = Annotated[str, Text(users.role, enum=list(users.ROLES))]
_Password = Annotated[
    str,
    Text(
        users.password,
        minLength=8,
        maxLength=128,
        pattern="^(?=.*[A-Z])(?=.*[a-z])(?=.*[0-9])",
        writeOnly=True,
    ),
]


class CreateUser(msgspec.Struct):
    """The body of POST /users."""

    name: _Name
    email: _Email
    password: _Password
    role: _Role = "viewer"


class PreferencesIn(msgspec.Struct):
    """What a user prefers, as it is sent: what is left out stays."""

    theme: Annotated[str, Text(users.theme, enum=["system", "light", "dark"])] = "system"
    language: Annotated[str, Text(users.language, maxLength=35)] = "en"
    notifications: Annotated[bool, Boolean()] = True


class ChangeUser(msgspec.Struct):
    """The body of PATCH /users/{id} and /users/me: what is left out stays."""

    name: _Name | UnsetType = UNSET
    email: _Email | UnsetType = UNSET
    role: _Role | UnsetType = UNSET
    avatar_url: (
        Annotated[str | None, Nullable(Text(users.avatar_url, format="uri", maxLength=2048))]
        | UnsetType
    ) = UNSET
    preferences: Annotated[dict[str, Any], Object(PreferencesIn)] | UnsetType = UNSET
    password: _Password | UnsetType = UNSET
    current_password: (
        Annotated[str, Text(lambda text: text, maxLength=128, writeOnly=True)] | UnsetType
    ) = UNSET


class ListUsers(msgspec.Struct, frozen=True):
    """The query of GET /users."""

    page: PageNumber = 1
    limit: Limit = 25
    sort: Annotated[str, choice("name", "email", "created_at")] = "created_at"
    order: Annotated[str, choice("asc", "desc")] = "desc"
    role: Annotated[str | None, choice(*users.ROLES)] = None
