"""What every host answers outside the mounts: `/` and `/favicon.ico`."""

from functools import partial

from portico.domain.errors import NotFound
from portico.http.messages import Reply, Request
from portico.http.routing import Access, Route
from portico.pages.files import REVALIDATED, asset, file_route
from portico.pages.site import see_other


def entrance_routes(dashboard: str, api: str) -> tuple[Route, ...]:
    """`/`, which redirects browsers to `dashboard` and tells other clients the address `api`, and
    `/favicon.ico`."""

    async def enter(request: Request) -> Reply:
        if "text/html" not in (request.listed("accept") or ""):
            raise NotFound(
                f"There is nothing at this path. The API begins at {api}; {api}/docs describes it."
            )
        reply = see_other(dashboard)
        reply.headers.append(("vary", "Accept"))
        return reply

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
        file_route("favicon.ico", icon),
    )
