"""The endpoints of cookie sessions (specification §5.4)."""

from portico.contract.envelope import Created
from portico.contract.sign_in import SessionBody, SignIn, session_body
from portico.domain.caller import Principal
from portico.domain.errors import AuthenticationRequired, PermissionDenied
from portico.http.cookies import session_cookie
from portico.http.messages import BodyRequest, Reply, Request, json_reply
from portico.http.routing import Access, BodyRoute, Route
from portico.services.sessions import Browser, close_session, open_session
from portico.services.sign_in import Attempt, prove


async def create_session(request: BodyRequest[SignIn]) -> Reply:
    """POST /sessions."""
    body, env = request.body, request.environment
    cookie = session_cookie(env.addresses.cookie_domain)
    opened = await open_session(
        env,
        await prove(env, Attempt(body.email, body.password, request.by, body.otp or None)),
        request.by,
        Browser(request.header("user-agent") or "", cookie.read(request.headers)),
    )
    return json_reply(
        201,
        Created(session_body(opened.session, opened.user), SessionBody.message),
        cookie.set(opened.secret),
    )


async def delete_session(request: Request) -> Reply:
    """DELETE /sessions."""
    await close_session(request.environment, request.by)
    cookie = session_cookie(request.environment.addresses.cookie_domain)
    return Reply(204, b"", [cookie.clear()])


def _permit_session(caller: Principal, _id: int) -> None:
    if caller.credential != "session":
        raise PermissionDenied("This only ends sessions; call it with the session cookie.")


ROUTES = (
    BodyRoute(
        method="POST",
        path="/sessions",
        handler=create_session,
        access=Access.ANYONE,
        summary="Sign in with a session cookie",
        description="Sets the cookie. The session lasts 24 hours, but only 30 minutes without a"
        " request. It replaces the session that the request already has, if any.",
        status=201,
        body=SignIn,
        answer=Created[SessionBody],
        errors=(AuthenticationRequired, PermissionDenied),
        same_origin=True,
        no_store=True,
        sets_cookie=True,
    ),
    Route(
        method="DELETE",
        path="/sessions",
        handler=delete_session,
        access=Access.ANY_CALLER,
        permit=_permit_session,
        summary="Sign out",
        description="Ends the session of the cookie, and clears the cookie. Needs the cookie: no"
        " other credential has a session to end.",
        status=204,
        never_refused=True,
        sets_cookie=True,
    ),
)
