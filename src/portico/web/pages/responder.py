"""How pages answer: session → throttle → permission → same origin → form → handler, all as HTML.

A visitor without a session is sent to sign in. A refused form is shown again with its values.
"""

from collections.abc import Sequence
from typing import cast
from urllib.parse import urlencode, urljoin

from portico.core.caller import Principal, require
from portico.core.errors import (
    AuthenticationRequired,
    Conflict,
    Duplicate,
    Gone,
    Invalid,
    PayloadTooLarge,
    PermissionDenied,
    PorticoError,
    RateLimited,
    Unavailable,
)
from portico.core.plans import Plan
from portico.core.scopes import ROLE_SCOPES
from portico.core.users import User
from portico.data.database import acting_for
from portico.features.people.storage import Users
from portico.limits.protocol import ACCOUNT_PAGES
from portico.web import throttle
from portico.web.api_responder import no_endpoint
from portico.web.messages import BodyRequest, Reply, Request
from portico.web.pages.forms import AROUND_BYTES, BODY_LIMIT, Form, read_file_form, read_form
from portico.web.pages.forms import CONTENT_TYPE as MULTIPART
from portico.web.pages.site import (
    Site,
    Visit,
    check_token,
    cookie_kept_back,
    html,
    is_of_session,
    see_other,
    sender_of,
)
from portico.web.problems import problem
from portico.web.routing import PUBLIC_BODY_LIMIT, Access, Endpoint, PathMatch

LOOKING = Plan("looking at pages", 300, 20_000)
"""The limits of pages, apart from those of the API, so that the dashboard uses up no plan."""

FILE_SECONDS = 1_000.0
"""How long an upload may take: 100 MiB at one megabit a second."""

TITLES = {
    400: "Invalid request",
    403: "Access denied",
    404: "Page not found",
    405: "Not possible here",
    408: "The request took too long",
    409: "Not possible right now",
    410: "No longer available",
    413: "Too large",
    415: "Unsupported format",
    429: "Too many requests",
    500: "Something went wrong",
    503: "Temporarily unavailable",
}

_PASSING = {408, 429, 500, 503}
"""Statuses that may be gone when the page is loaded again."""

_BACK = "You are signed in again, and nothing was sent yet. Check what you filled in, then send it."

_REFUSALS = (Invalid, Duplicate, Conflict, Gone, AuthenticationRequired, RateLimited, Unavailable)
"""Errors for which the form is shown again."""

_AGAIN = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Loading</title>
<meta http-equiv="refresh" content="0"></head><body></body></html>
"""


class PageResponder:
    """Answers every request for a page of one site."""

    public_body_limit = PUBLIC_BODY_LIMIT

    def __init__(self, site: Site) -> None:
        self._site = site
        self._accounts = site.accounts

    def serves(self, access: str | Access) -> bool:
        """All but OAuth clients that authenticate as themselves."""
        return access is not Access.CLIENT

    async def answer(
        self, request: Request, match: PathMatch, endpoint: Endpoint | None, id_texts: Sequence[str]
    ) -> Reply:
        """Everything between the route and the reply. A signed-in user sees an error within the
        dashboard's frame, unless the store does not answer."""
        try:
            return await self._answer(request, match, endpoint, id_texts)
        except PorticoError as error:
            caller = request.caller
            if caller is None or not self._site.dashboards or isinstance(error, Unavailable):
                raise
            user = await self._accounts.environment[Users].get(caller.user_id)
            request.error_code = error.code
            return self._problem(request, error, user)

    async def _answer(
        self, request: Request, match: PathMatch, endpoint: Endpoint | None, id_texts: Sequence[str]
    ) -> Reply:
        cookie = self._accounts.cookie.read(request.headers)
        caller = await self._caller(cookie, request.now)
        await self._count(request, caller, endpoint)
        if caller is not None:
            request.caller = caller
            acting_for.set(caller.user_id)
        if endpoint is None:
            raise no_endpoint(request, match)
        if not endpoint.public:
            if caller is None:
                return await self._sign_in_first(request, match, cookie)
            require(caller, endpoint.scope, request.method)
        if id_texts:
            request.identify(id_texts)
        if request.method == "POST":
            return await self._receive(request, match, endpoint, cookie)
        request.body = Form()
        try:
            return await endpoint.handler(request)
        except AuthenticationRequired:
            return self._to_sign_in(request, match, cookie)

    async def _receive(
        self, request: Request, match: PathMatch, endpoint: Endpoint, cookie: str | None
    ) -> Reply:
        """The reply to a submitted form."""
        self._accounts.origins.check(request.headers)
        limit = self.public_body_limit if request.caller is None else BODY_LIMIT
        form = await _form(request, endpoint, limit)
        if not endpoint.public:
            # The session may have ended or the role changed while the form came in.
            caller = await self._caller(cookie, self._accounts.environment.clock())
            if caller is None:
                return await self._sign_in_first(request, match, cookie)
            require(caller, endpoint.scope, request.method)
            request.caller = caller
            acting_for.set(caller.user_id)
            page = match.methods.get("GET")
            is_own = sender_of(form, self._accounts) == caller.user_id
            if page is not None and is_own and not is_of_session(form, cookie):
                # The sender has signed in again in another window.
                request.body = form.say(_BACK)
                reply = await page.handler(request)
                reply.status = 409
                return reply
            check_token(form, cookie)
        request.body = form
        return await self._submit(request, match, endpoint, form)

    def problem(self, request: Request, error: PorticoError) -> Reply:
        """An error as a page, rendered without the store."""
        return self._problem(request, error, None)

    def _problem(self, request: Request, error: PorticoError, user: User | None) -> Reply:
        shown = problem(error)
        path = request.path.removeprefix(self._site.base)
        section = f"/{path[1:].partition('/')[0]}"
        request.body = Form()
        visit = Visit(self._site, cast("BodyRequest[Form]", request), user)
        open_to_user = {at: one.name for its in visit.menu.values() for at, one in its.items()}
        reply = visit.page(
            "problem.html",
            TITLES.get(shown.status, "Something went wrong"),
            status=shown.status,
            code=shown.status,
            message=_explanation(error),
            retry_after=getattr(error, "retry_after", 0),
            passing=request.method == "GET" and shown.status in _PASSING,
            section=section,
            back=open_to_user.get(section, "") if section != path else "",
            # The configured address: sign-in does not work at any other.
            dashboard=urljoin(self._site.origin, self._site.beginning or "/"),
        )
        reply.headers += [field for field in shown.headers if field[0] in ("allow", "retry-after")]
        return reply

    async def _caller(self, cookie: str | None, now: int) -> Principal | None:
        if cookie is None:
            return None
        credentials = self._accounts.credentials
        known = credentials.known_session(cookie, now)
        if known is not None:
            return known
        try:
            return await credentials.look_up_session(cookie, now)
        except AuthenticationRequired:
            return None

    async def _count(
        self, request: Request, caller: Principal | None, endpoint: Endpoint | None
    ) -> None:
        if endpoint is not None and endpoint.route.on_address:
            await throttle.address(request)
            return
        never_refused = endpoint is not None and endpoint.never_refused
        if caller is None:
            await throttle.visitor(request, LOOKING, never_refused=never_refused)
        else:
            # Counted in the accounts' environment: pages may show another, with its own accounts.
            env, who = self._accounts.environment, (ACCOUNT_PAGES, caller.user_id)
            await throttle.caller(request, env, who, LOOKING, never_refused=never_refused)

    async def _sign_in_first(
        self,
        request: Request,
        match: PathMatch,
        cookie: str | None,
    ) -> Reply:
        """Redirect to sign-in; a form that was sent is lost, which the page says."""
        if request.method != "POST" or cookie_kept_back(request, cookie):
            return self._to_sign_in(request, match, cookie)
        self._accounts.origins.check(request.headers)
        lost = "form-lost" if self._site.dashboards else "not-decided"
        return self._to_sign_in(request, match, cookie, lost)

    def _to_sign_in(
        self,
        request: Request,
        match: PathMatch,
        cookie: str | None,
        notice: str = "",
    ) -> Reply:
        """Redirect to sign-in, and from there back to the page that was asked for."""
        if cookie_kept_back(request, cookie):
            return html(_AGAIN, 200)  # loaded again by our own page, so with the strict cookie
        target = self._site.beginning
        if "GET" in match.methods:
            target = request.path
            if request.query_string:
                target += f"?{request.query_string}"
        query = {"next": target} | ({"done": notice} if notice else {})
        where = f"{self._site.sign_in}/sign-in?{urlencode(query)}"
        if request.header("hx-request"):
            return Reply(204, b"", [("hx-redirect", where), ("cache-control", "no-store")])
        return see_other(where)

    async def _submit(
        self, request: Request, match: PathMatch, endpoint: Endpoint, form: Form
    ) -> Reply:
        """Handle a form; if it is refused, its page is shown again and says why."""
        try:
            return await endpoint.handler(request)
        except _REFUSALS as error:
            page = match.methods.get("GET")
            if page is None:
                raise
            form.refuse(error)
            reply = await page.handler(request)
            shown = problem(error)
            # 401 would ask for a header that no form can send.
            reply.status = 422 if shown.status == 401 else shown.status
            reply.headers += [field for field in shown.headers if field[0] == "retry-after"]
            return reply


def _explanation(error: PorticoError) -> str:
    """The message that users read. It names the roles that may open the page, where the API names
    the scope."""
    if not isinstance(error, PermissionDenied):
        return error.message
    roles = [f"{role}s" for role, scopes in ROLE_SCOPES.items() if error.scope in scopes]
    return f"Only {' and '.join(roles)} can open this page." if roles else error.message


async def _form(request: Request, endpoint: Endpoint, limit: int) -> Form:
    """The submitted form, of at most `limit` bytes. With a file, only the fields before it are
    read."""
    content_type, file_bytes = request.header("content-type"), endpoint.route.file_bytes
    if file_bytes and (content_type or "").lower().startswith(MULTIPART):
        body = request.stream_body(file_bytes + AROUND_BYTES, FILE_SECONDS)
        try:
            return await read_file_form(content_type, body)
        except PayloadTooLarge:  # "body" means nothing to users
            raise PayloadTooLarge(f"The file is larger than {file_bytes >> 20} MiB.") from None
    return read_form(content_type, await request.read_body(limit))
