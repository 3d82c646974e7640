"""The endpoints of users and invitations."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from portico.core.errors import (
    Conflict,
    Duplicate,
    Fault,
    Invalid,
    NotFound,
    PermissionDenied,
    PreconditionFailed,
    invalid,
)
from portico.core.users import User
from portico.data.listing import Order, Page
from portico.environment import Environment
from portico.features.people import accounts, invitations, users
from portico.features.people.accounts import has_second_factor, plan_faults
from portico.features.people.invitations import MadeInvitation
from portico.features.people.schemas import (
    AccountBody,
    ChangeAccount,
    ChangeUser,
    CreateInvitation,
    CreateUser,
    InvitationItem,
    InvitationWithLink,
    ListInvitations,
    ListUsers,
    PlanBody,
    UserBody,
    UserItem,
    account_body,
    invitation_item,
    user_body,
    user_item,
)
from portico.features.people.storage import SORTS, Invitations, Users
from portico.web.conditions import etag_header, precondition
from portico.web.envelope import Created, Listed, Single
from portico.web.lists import list_reply, start_of
from portico.web.messages import BodyRequest, QueryRequest, Reply, Request, json_reply
from portico.web.reading import sent
from portico.web.routing import Access, BodyRoute, QueryRoute, Route


async def list_users(request: QueryRequest[ListUsers]) -> Reply:
    query, start = request.query, start_of(request)
    if query.external_id is not None:
        return await _list_one(request, query.external_id)
    page = await request.environment[Users].page(
        role=query.role,
        order=Order(SORTS[query.sort], descending=query.order == "desc"),
        offset=start.offset,
        limit=query.limit,
        behind=start.behind,
    )
    return list_reply(request, "/users", start, page, [user_item(user) for user in page.rows])


async def _list_one(request: QueryRequest[ListUsers], external_id: str) -> Reply:
    accounts.permit_account(request.caller)
    user = await request.environment[Users].by_external_id(external_id)
    found = [] if user is None or request.query.role not in (None, user.role) else [user]
    start = start_of(request)
    shown = [user_item(user) for user in found[start.offset :]]
    return list_reply(request, "/users", start, Page(found, len(found)), shown)


async def read_user(request: Request) -> Reply:
    user = await users.read_user(request.environment, request.resource_id)
    return json_reply(200, Single(user_body(user)))


async def read_me(request: Request) -> Reply:
    user = await users.read_user(request.environment, request.caller.user_id)
    return json_reply(200, Single(user_body(user)))


async def create_user(request: BodyRequest[CreateUser]) -> Reply:
    body = request.body
    base = request.environment.addresses.base

    def reply(user: User) -> Reply:
        location = ("location", f"{base}/users/{user.id}")
        tag = etag_header(user_body(user))
        return json_reply(201, Created(user_item(user), UserItem.message), location, tag)

    user = await users.create_user(
        request.environment,
        name=body.name,
        email=body.email,
        password=body.password,
        role=body.role,
        by=request.answering(reply),
    )
    return reply(user)


async def change_user(request: BodyRequest[ChangeUser]) -> Reply:
    return await _change(request, request.resource_id)


async def change_me(request: BodyRequest[ChangeUser]) -> Reply:
    return await _change(request, request.caller.user_id)


async def _change(request: BodyRequest[ChangeUser], user_id: int) -> Reply:
    user = await users.change_user(
        request.environment,
        request.caller,
        user_id,
        sent(request.body),
        precondition(request, user_body),
        request.by,
    )
    body = user_body(user)
    return json_reply(200, Single(body), etag_header(body))


async def delete_user(request: Request) -> Reply:
    await users.delete_user(
        request.environment, request.resource_id, precondition(request, user_body), request.by
    )
    return Reply(204)


async def read_account(request: Request) -> Reply:
    env, user_id = request.environment, request.resource_id
    user = await users.read_user(env, user_id)
    second_factor = await has_second_factor(env, user_id)
    return json_reply(200, Single(account_body(user, second_factor=second_factor)))


async def change_account(request: BodyRequest[ChangeAccount]) -> Reply:
    env, user_id = request.environment, request.resource_id
    shown = partial(account_body, second_factor=await has_second_factor(env, user_id))
    check = precondition(request, shown)
    user = await accounts.change_account(env, user_id, sent(request.body), request.by, check)
    return json_reply(200, Single(shown(user)), etag_header(shown(user)))


async def list_plans(request: Request) -> Reply:
    plans = request.environment.settings.plans.values()
    return json_reply(200, Single([PlanBody(**asdict(plan)) for plan in plans]))


async def _plan_faults(request: Request, values: Mapping[str, Any]) -> list[Fault]:
    return accounts.plan_faults(request.environment, values)


async def _proof_faults(request: Request, values: Mapping[str, Any]) -> list[Fault]:
    env, caller = request.environment, request.caller
    return await users.proof_faults(env, caller, request.resource_id or caller.user_id, values)


ROUTES = (
    QueryRoute(
        method="GET",
        path="/users",
        handler=list_users,
        access="read:users",
        summary="List users",
        query=ListUsers,
        answer=Listed[UserItem],
        errors=(PermissionDenied,),
    ),
    Route(
        method="GET",
        path="/users/me",
        handler=read_me,
        access=Access.ANY_CALLER,
        summary="Read the calling user",
        answer=Single[UserBody],
    ),
    BodyRoute(
        method="PATCH",
        path="/users/me",
        handler=change_me,
        access=Access.ANY_CALLER,
        permit=lambda caller, _: users.permit(caller, caller.user_id),
        summary="Change the calling user",
        description="Users may change their own name, avatar, preferences and, with"
        " `current_password`, password; an OAuth token, or a key limited to some scopes, needs"
        " `write:users` for that. Changing their own e-mail needs `write:users` and"
        " `current_password`. Users cannot change their own role or plan. Changing an administrator"
        " needs the scope `admin`.",
        body=ChangeUser,
        further_faults=_proof_faults,
        answer=Single[UserBody],
        errors=(Conflict, Duplicate, PreconditionFailed, Invalid),
        conditional=True,
    ),
    Route(
        method="GET",
        path="/users/{id}",
        handler=read_user,
        access="read:users",
        summary="Read a user",
        answer=Single[UserBody],
        errors=(NotFound,),
    ),
    BodyRoute(
        method="POST",
        path="/users",
        handler=create_user,
        permit_body=lambda caller, body: users.permit_role(caller, body.role),
        access="write:users",
        summary="Create a user",
        status=201,
        body=CreateUser,
        answer=Created[UserItem],
        errors=(Duplicate, Invalid),
        location=True,
        repeatable=True,
    ),
    BodyRoute(
        method="PATCH",
        path="/users/{id}",
        handler=change_user,
        access=Access.ANY_CALLER,
        permit=users.permit,
        summary="Change a user",
        description="Users may change and read themselves as at `/users/me`; other users and other"
        " fields need `write:users`. Users cannot change their own role or plan. Changing an"
        " administrator needs the scope `admin`.",
        body=ChangeUser,
        further_faults=_proof_faults,
        answer=Single[UserBody],
        errors=(NotFound, Conflict, Duplicate, PreconditionFailed, Invalid),
        conditional=True,
    ),
    Route(
        method="DELETE",
        path="/users/{id}",
        handler=delete_user,
        access="write:users",
        summary="Delete a user",
        status=204,
        errors=(NotFound, Conflict, PreconditionFailed),
        conditional=True,
    ),
    Route(
        method="GET",
        path="/users/{id}/account",
        handler=read_account,
        access=Access.ANY_CALLER,
        permit=accounts.permit_account,
        summary="Read an account",
        description="Users may read their own; others' need the scope `admin`.",
        answer=Single[AccountBody],
        errors=(NotFound,),
    ),
    BodyRoute(
        method="PATCH",
        path="/users/{id}/account",
        handler=change_account,
        access="admin",
        summary="Change an account",
        description="A suspended account's sessions, logins and consents end for good; its API"
        " keys fail until it is resumed. Nobody can suspend themselves or change their own plan,"
        " and the last administrator cannot be suspended.",
        body=ChangeAccount,
        further_faults=_plan_faults,
        answer=Single[AccountBody],
        errors=(NotFound, Conflict, Duplicate, PreconditionFailed, Invalid),
        conditional=True,
    ),
    Route(
        method="GET",
        path="/plans",
        handler=list_plans,
        access="admin",
        summary="List plans",
        answer=Single[list[PlanBody]],
    ),
)


async def list_invitations(request: QueryRequest[ListInvitations]) -> Reply:
    start = start_of(request)
    page = await request.environment[Invitations].by_admins(
        offset=start.offset, limit=request.query.limit, behind=start.behind
    )
    items = [invitation_item(one) for one in page.rows]
    return list_reply(request, "/invitations", start, page, items)


async def read_invitation(request: Request) -> Reply:
    found = await invitations.read(request.environment, request.resource_id)
    return json_reply(200, Single(invitation_item(found)))


async def create_invitation(request: BodyRequest[CreateInvitation]) -> Reply:
    env, body = request.environment, request.body
    _require_people(env)
    if faults := plan_faults(env, {"plan": body.plan}):
        raise invalid(*faults)
    reply = partial(_made, request, InvitationWithLink.message)
    made = await invitations.invite(
        env,
        email=body.email,
        name=body.name or "",
        role=body.role,
        plan=body.plan,
        handed_over=True,
        by=request.answering(reply),
    )
    return reply(made, made.link)


async def renew_invitation(request: Request) -> Reply:
    env = request.environment
    _require_people(env)
    reply = partial(_made, request, "Invitation renewed. The old link no longer works.")
    by = request.answering(reply)
    made = await invitations.renew(env, request.resource_id, handed_over=True, by=by)
    return reply(made, made.link)


async def revoke_invitation(request: Request) -> Reply:
    check = precondition(request, invitation_item)
    await invitations.revoke(request.environment, request.resource_id, request.by, check)
    return Reply(204)


def _made(
    request: Request, message: str, made: MadeInvitation, link: str | UnsetType = UNSET
) -> Reply:
    """The reply with a new link; the one that is kept for replays is made without it."""
    invitation = made.invitation
    location = f"{request.environment.addresses.base}/invitations/{invitation.id}"
    item = invitation_item(invitation)
    body = Created(InvitationWithLink(**asdict(item), link=link), message)
    return json_reply(201, body, ("location", location), etag_header(item))


def _require_people(env: Environment) -> None:
    """Raises `Conflict` in the environment of mirror users, where nobody creates an account."""
    if env.mirror is None:
        raise Conflict("The sandbox invites nobody to an account: do it in live.")


INVITATION_ROUTES = (
    QueryRoute(
        method="GET",
        path="/invitations",
        handler=list_invitations,
        access="admin",
        summary="List invitations",
        description="Those that were not accepted, newest first, expired ones too: they stay for"
        " thirty days.",
        query=ListInvitations,
        answer=Listed[InvitationItem],
    ),
    BodyRoute(
        method="POST",
        path="/invitations",
        handler=create_invitation,
        access="admin",
        summary="Invite somebody",
        description="The link is mailed, where there is a mail server, and shown once. It works"
        " once, for seven days. A new invitation replaces an earlier one to the same e-mail."
        " In live only.",
        status=201,
        body=CreateInvitation,
        further_faults=_plan_faults,
        answer=Created[InvitationWithLink],
        errors=(Conflict, Duplicate, Invalid),
        location=True,
        repeatable=True,
        no_store=True,
    ),
    Route(
        method="GET",
        path="/invitations/{id}",
        handler=read_invitation,
        access="admin",
        summary="Read an invitation",
        answer=Single[InvitationItem],
    ),
    Route(
        method="DELETE",
        path="/invitations/{id}",
        handler=revoke_invitation,
        access="admin",
        summary="Revoke an invitation",
        description="Its link stops working.",
        status=204,
        conditional=True,
    ),
    Route(
        method="POST",
        path="/invitations/{id}/renew",
        handler=renew_invitation,
        access="admin",
        summary="Renew an invitation",
        description="Another link, valid for seven days, replaces the present one; also of an"
        " expired invitation. In live only.",
        status=201,
        answer=Created[InvitationWithLink],
        errors=(Conflict, Duplicate, NotFound),
        location=True,
        repeatable=True,
        no_store=True,
    ),
)
