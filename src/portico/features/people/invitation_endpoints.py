"""The endpoints of invitations."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec import UNSET, UnsetType

from portico.core.errors import Conflict, Duplicate, Fault, Invalid, NotFound, invalid
from portico.environment import Environment
from portico.features.people import invitations
from portico.features.people.accounts import plan_faults
from portico.features.people.invitations import MadeInvitation
from portico.features.people.schemas import (
    CreateInvitation,
    InvitationItem,
    InvitationWithLink,
    ListInvitations,
    invitation_item,
    invitation_with_link,
)
from portico.features.people.storage import Invitations
from portico.web.conditions import etag_header, precondition
from portico.web.envelope import Created, Listed, Single
from portico.web.lists import list_reply, start_of
from portico.web.messages import BodyRequest, QueryRequest, Reply, Request, json_reply
from portico.web.routing import BodyRoute, QueryRoute, Route


async def list_invitations(request: QueryRequest[ListInvitations]) -> Reply:
    """GET /invitations."""
    start = start_of(request)
    page = await request.environment[Invitations].by_admins(
        offset=start.offset, limit=request.query.limit, behind=start.behind
    )
    items = [invitation_item(one) for one in page.rows]
    return list_reply(request, "/invitations", start, page, items)


async def read_invitation(request: Request) -> Reply:
    """GET /invitations/{id}."""
    found = await invitations.read(request.environment, request.resource_id)
    return json_reply(200, Single(invitation_item(found)))


async def create_invitation(request: BodyRequest[CreateInvitation]) -> Reply:
    """POST /invitations."""
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
    """POST /invitations/{id}/renew."""
    env = request.environment
    _require_people(env)
    reply = partial(_made, request, "Invitation renewed. The old link no longer works.")
    by = request.answering(reply)
    made = await invitations.renew(env, request.resource_id, handed_over=True, by=by)
    return reply(made, made.link)


async def revoke_invitation(request: Request) -> Reply:
    """DELETE /invitations/{id}."""
    check = precondition(request, invitation_item)
    await invitations.revoke(request.environment, request.resource_id, request.by, check)
    return Reply(204)


def _made(
    request: Request, message: str, made: MadeInvitation, link: str | UnsetType = UNSET
) -> Reply:
    """The reply with a new link; the one that is kept for replays is made without it."""
    invitation = made.invitation
    location = f"{request.environment.addresses.base}/invitations/{invitation.id}"
    body = Created(invitation_with_link(invitation, link), message)
    tag = etag_header(invitation_item(invitation))
    return json_reply(201, body, ("location", location), tag)


def _require_people(env: Environment) -> None:
    """Raises `Conflict` in the environment of mirror users, where nobody creates an account."""
    if env.mirror is None:
        raise Conflict("The sandbox invites nobody to an account: do it in live.")


async def _plan_faults(request: Request, values: Mapping[str, Any]) -> list[Fault]:
    return plan_faults(request.environment, values)


ROUTES = (
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
