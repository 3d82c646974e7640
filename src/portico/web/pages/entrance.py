"""What every host answers outside the mounts: `/`, `/favicon.ico` and where to change passwords."""

from functools import partial

from portico.web.api_responder import nothing_here
from portico.web.messages import Reply, Request
from portico.web.pages.files import REVALIDATED, asset, file_route
from portico.web.pages.site import see_other
from portico.web.routing import Access, Route


def entrance_routes(dashboard: str, api: str) -> tuple[Route, ...]:
    """`/`, which redirects browsers to `dashboard` and tells other clients the address `api`,
    `/favicon.ico`, and the address that password managers know (W3C, A Well-Known URL for Changing
    Passwords)."""

    async def enter(request: Request) -> Reply:
        if "text/html" not in (request.listed("accept") or ""):
            raise nothing_here(api)
        reply = see_other(dashboard)
        reply.headers.append(("vary", "Accept"))
        return reply

    async def change_password(_: Request) -> Reply:
        return see_other(f"{dashboard}/password")

    # Pages link to their icon; browsers ask for this one beside other documents, such as JSON.
    icon = partial(asset, "icon.svg", REVALIDATED)
    return (
        Route(
            method="GET",
            path="/",
            handler=enter,
            access=Access.ANYONE,
            summary="The way to the dashboard",
        ),
        Route(
            method="GET",
            path="/.well-known/change-password",
            handler=change_password,
            access=Access.ANYONE,
            summary="The way to the page that changes a password",
        ),
        file_route("favicon.ico", icon),
    )
