"""The JSON shapes of users."""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType
from msgspec.structs import asdict

from portico.core import users
from portico.core.rules import MAX_METADATA_KEYS, Measured, metadata_key, metadata_value
from portico.core.users import User
from portico.features.people.rules import Invitation
from portico.web.envelope import Identifier, Timestamp, optional_timestamp, timestamp
from portico.web.fields import Boolean, Nullable, Object, Text, Texts, any_text
from portico.web.lists import ListQuery, choice
from portico.web.reading import Param

MetadataIn = Annotated[
    dict[str, str], Texts(Text(metadata_key), Text(metadata_value), most=MAX_METADATA_KEYS)
]
MetadataBody = Annotated[
    Raw,
    Meta(
        examples=[{"colour": "brass"}],
        extra_json_schema={"type": "object", "additionalProperties": {"type": "string"}},
    ),
]

Role = Annotated[str, Meta(examples=["editor"], extra_json_schema={"enum": users.ROLES})]


class UserItem(msgspec.Struct, frozen=True):
    """A user in a list, and in the answer of POST /users."""

    message: ClassVar[str] = "User created."
    id: Identifier
    name: Annotated[str, Meta(examples=["Ada Lovelace"])]
    email: Annotated[str, Meta(examples=["ada@example.com"])]
    role: Role
    created_at: Timestamp
    updated_at: Timestamp


class PreferencesBody(msgspec.Struct, frozen=True):
    """A user's preferences."""

    theme: Literal["system", "light", "dark"]
    language: Annotated[
        str, Meta(description="BCP 47. Mails are in German or English.", examples=["en"])
    ]
    notifications: Annotated[
        bool,
        Meta(
            description="Whether the user gets mails about sign-ins on new devices, new and"
            " expiring API keys and a new role. Each kind can be turned off on the profile page."
        ),
    ]


class UserBody(UserItem, frozen=True):
    """A user with all fields."""

    avatar_url: Annotated[str | None, Meta(examples=["https://example.com/ada.png"])]
    last_login_at: Annotated[
        Timestamp | None, Meta(description="The last sign-in, with any method.")
    ]
    preferences: PreferencesBody


def user_item(user: User) -> UserItem:
    """A user as lists show it."""
    return UserItem(
        user.id,
        user.name,
        user.email,
        user.role,
        timestamp(user.created_at),
        timestamp(user.updated_at),
    )


def user_body(user: User) -> UserBody:
    """A user as GET /users/{id} shows it."""
    return UserBody(
        user.id,
        user.name,
        user.email,
        user.role,
        timestamp(user.created_at),
        timestamp(user.updated_at),
        user.avatar_url,
        optional_timestamp(user.last_login_at),
        PreferencesBody(
            user.theme,  # type: ignore[arg-type]  # the database holds no other
            user.language,
            bool(user.notifications),
        ),
    )


_Name = Annotated[str, Text(users.name)]
_Email = Annotated[str, Text(users.email)]
_Role = Annotated[str, Text(users.role)]
_Password = Annotated[str, Text(users.password)]


class CreateUser(msgspec.Struct):
    """The body of POST /users."""

    EXAMPLE: ClassVar = {
        "name": "Ada Lovelace",
        "email": "ada@example.com",
        "password": "Analytical1",
        "role": "editor",
    }

    name: _Name
    email: _Email
    password: _Password
    role: _Role = "viewer"


class PreferencesIn(msgspec.Struct):
    """A user's preferences in a request. Omitted fields stay unchanged."""

    theme: Annotated[str, Text(users.theme)] | UnsetType = UNSET
    language: Annotated[str, Text(users.language)] | UnsetType = UNSET
    notifications: Annotated[bool, Boolean()] | UnsetType = UNSET


class ChangeUser(msgspec.Struct):
    """The body of PATCH /users/{id} and /users/me. Omitted fields stay unchanged."""

    EXAMPLE: ClassVar = {"name": "Ada King", "preferences": {"theme": "dark"}}

    name: _Name | UnsetType = UNSET
    email: _Email | UnsetType = UNSET
    role: _Role | UnsetType = UNSET
    avatar_url: Annotated[str | None, Nullable(Text(users.avatar_url))] | UnsetType = UNSET
    preferences: Annotated[dict[str, Any], Object(PreferencesIn)] | UnsetType = UNSET
    password: _Password | UnsetType = UNSET
    current_password: (
        Annotated[
            str,
            any_text(
                writeOnly=True,
                description="The present password, if callers change their own.",
            ),
        ]
        | UnsetType
    ) = UNSET


class ListUsers(ListQuery, frozen=True):
    """The query of GET /users."""

    sort: Annotated[str, choice("name", "email", "created_at")] = "created_at"
    order: Annotated[str, choice("asc", "desc")] = "desc"
    role: Annotated[str | None, Param(users.role, type="string")] = None
    external_id: Annotated[
        str | None,
        Param(
            users.external_id,
            type="string",
            description="What another system calls the account; needs the scope `admin`.",
        ),
    ] = None


class AccountItem(msgspec.Struct, frozen=True):
    """What a user has as the owner of credentials, as events show it."""

    id: Annotated[Identifier, Meta(description="The user's.")]
    plan: Annotated[str, Meta(examples=["pro"])]
    suspended: Annotated[bool, Meta(description="If so, no credential of the account is accepted.")]
    suspended_at: Timestamp | None
    external_id: Annotated[
        str | None,
        Meta(description="What another system calls the account; unique.", examples=["crm-4711"]),
    ]
    metadata: MetadataBody
    last_login_at: Annotated[
        Timestamp | None, Meta(description="The last sign-in, with any method.")
    ]


class AccountBody(AccountItem, frozen=True):
    """What a user has as the owner of credentials."""

    second_factor: Annotated[
        bool, Meta(description="Whether signing in needs more than the password.")
    ]


_Plan = Annotated[str, Text(Measured(1, 100), description="One of GET /plans.")]


class ChangeAccount(msgspec.Struct):
    """The body of PATCH /users/{id}/account. Omitted fields stay unchanged."""

    EXAMPLE: ClassVar = {"plan": "pro", "external_id": "crm-4711"}

    plan: _Plan | UnsetType = UNSET
    suspended: Annotated[bool, Boolean()] | UnsetType = UNSET
    external_id: Annotated[str | None, Nullable(Text(users.external_id))] | UnsetType = UNSET
    metadata: MetadataIn | UnsetType = UNSET


class InvitationItem(msgspec.Struct, frozen=True):
    """An invitation that was not accepted yet."""

    id: Identifier
    email: Annotated[str, Meta(examples=["ada@example.com"])]
    name: Annotated[str | None, Meta(examples=["Ada Lovelace"])]
    role: Role
    plan: Annotated[str, Meta(examples=["pro"])]
    inviter_id: Annotated[Identifier | None, Meta(description="The user who sent it, if any.")]
    created_at: Timestamp
    expires_at: Timestamp


class InvitationWithLink(InvitationItem, frozen=True, kw_only=True):
    """An invitation with a new link."""

    message: ClassVar[str] = "Invitation created. Its link is not shown again."
    link: (
        Annotated[
            str,
            Meta(
                description="Where the account is made. It is shown only once, and omitted when a"
                " request with the same `Idempotency-Key` is repeated.",
                examples=["https://localhost:8443/dashboard/invitation?token=…"],
            ),
        ]
        | UnsetType
    ) = UNSET


class CreateInvitation(msgspec.Struct):
    """The body of POST /invitations."""

    EXAMPLE: ClassVar = {"email": "ada@example.com", "role": "editor", "plan": "pro"}

    email: _Email
    name: Annotated[
        str | None,
        Nullable(Text(users.name, description="Proposed; it can be changed.")),
    ] = None
    role: _Role = "viewer"
    plan: _Plan = "free"


class ListInvitations(ListQuery, frozen=True):
    """The query of GET /invitations."""


class PlanBody(msgspec.Struct, frozen=True):
    """How many requests the accounts of a plan may make."""

    name: Annotated[str, Meta(examples=["pro"])]
    per_minute: Annotated[int, Meta(ge=1, examples=[100])]
    per_day: Annotated[int, Meta(ge=1, examples=[10_000])]
    per_month: Annotated[int | None, Meta(description="null: any number.", examples=[1_000_000])]


def account_item(user: User) -> AccountItem:
    """A user's account as events show it."""
    return AccountItem(
        user.id,
        user.plan,
        user.suspended_at is not None,
        optional_timestamp(user.suspended_at),
        user.external_id,
        Raw(user.metadata),
        optional_timestamp(user.last_login_at),
    )


def account_body(user: User, *, second_factor: bool) -> AccountBody:
    """A user's account as GET /users/{id}/account shows it."""
    return AccountBody(**asdict(account_item(user)), second_factor=second_factor)


def invitation_item(invitation: Invitation) -> InvitationItem:
    """An invitation as it is shown."""
    return InvitationItem(
        invitation.id,
        invitation.email,
        invitation.name or None,
        invitation.role,
        invitation.plan,
        invitation.inviter_id,
        timestamp(invitation.created_at),
        timestamp(invitation.expires_at),
    )
