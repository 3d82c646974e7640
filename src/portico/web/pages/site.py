"""A site, which is a set of pages at one address, and a visit, which is one request for a page."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from hmac import compare_digest, digest
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from portico.core.audit import Author
from portico.core.errors import NotFound, PermissionDenied
from portico.core.ids import parse_id, whole_number
from portico.core.scopes import of_role
from portico.core.text import text_fault
from portico.core.users import User
from portico.data.vault import Vault
from portico.environment import Environment
from portico.features.access.credentials import Credentials
from portico.features.people.mirrors import mirror_user
from portico.features.people.storage import Users
from portico.web.cookies import Origins, SecretCookie
from portico.web.messages import JSON, BodyRequest, Headers, Reply, Request
from portico.web.pages.files import HTML
from portico.web.pages.forms import Form
from portico.web.pages.html import template
from portico.web.pages.notices import notice
from portico.web.routing import Access, AnyRoute, FormRoute

_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)

ONCE = "once"
"""The form field with the idempotency key of a form."""
ONCE_PATH = "/once"
"""The path of pages that are shown once."""

Handler = Callable[["Visit"], Awaitable[Reply]]


class Section(NamedTuple):
    """A section: its name, its icon, and the scope that opens it, empty for everybody's."""

    name: str
    icon: str
    scope: str = ""


_ENVIRONMENT = {
    "": Section("Overview", "overview"),
    "/products": Section("Products", "product", "read:products"),
    "/users": Section("Users", "users", "admin"),
    "/keys": Section("API keys", "key"),
    "/applications": Section("Applications", "applications"),
    "/requests": Section("Requests", "requests"),
    "/events": Section("Events", "events"),
    "/clients": Section("OAuth clients", "client", "admin"),
    "/webhooks": Section("Webhooks", "webhook", "admin"),
    "/audit": Section("Audit log", "audit", "admin"),
}
_ACCOUNT = {
    "/profile": Section("Profile", "profile"),
    "/security": Section("Sign-in security", "security"),
    "/devices": Section("Devices", "devices"),
}


def _kinds(records: Any) -> Iterator[tuple[str, Section]]:
    for one in records:
        kind = one.kind
        yield kind.path, Section(kind.kind.title, "record", kind.reads)


def sections_of(env: Environment, user: User | None) -> Mapping[str, Mapping[str, Section]]:
    """The sections that a user may open, by path: those of the environment, of the installation's
    own kinds (`records`), and of the account."""
    scopes = {"", *of_role(user.role)} if user else {""}
    groups = {
        "environment": _ENVIRONMENT,
        "records": dict(_kinds(env.records)),
        "account": _ACCOUNT,
    }
    return {
        group: {path: one for path, one in sections.items() if one.scope in scopes}
        for group, sections in groups.items()
    }


class Accounts(NamedTuple):
    """The accounts that may sign in, and the cookie of their sessions."""

    environment: Environment
    credentials: Credentials
    cookie: SecretCookie
    origins: Origins


class Dashboard(NamedTuple):
    """A dashboard that the menu offers: its name and its path."""

    name: str
    base: str


class Site(NamedTuple):
    """Pages below one path. They show one environment; the accounts may belong to another."""

    environment: Environment
    accounts: Accounts
    origin: str
    """The public address up to the path."""
    base: str
    home: str
    """The accounts' own dashboard: its path, or its whole address for the authorization server;
    sign-in is at `sign_in`."""
    sign_in: str
    forgot: str
    """The page for a forgotten password; empty if there is none."""
    sign_up: str
    """The sign-up page; empty if sign-up is off."""
    dashboards: Sequence[Dashboard]
    of_accounts: bool = False
    """Whether the pages show the accounts' environment, whichever dashboard links to them."""

    @property
    def beginning(self) -> str:
        """The page to open when the user asked for no other."""
        return self.base if self.dashboards else self.home

    @property
    def elsewhere(self) -> str:
        """The origin of `home` if it is on another host, else empty. A user who has signed in
        without asking for a page is sent there."""
        at = urlsplit(self.home)
        origin = f"{at.scheme}://{at.netloc}"
        return origin if at.netloc and origin != self.origin else ""


class PageRoute(NamedTuple):
    """One page, or the action of one of its forms."""

    method: str
    path: str
    handler: Handler
    access: str | Access = Access.ANY_CALLER
    never_refused: bool = False
    on_address: bool = False
    file_bytes: int = 0
    """For this and the two fields above, see `Route`."""


def routes(site: Site, pages: Sequence[PageRoute]) -> tuple[AnyRoute, ...]:
    """The routes of a mount for these pages."""
    return tuple(
        FormRoute(
            method=page.method,
            path=page.path,
            handler=partial(_visit, site, page.handler),
            access=page.access,
            summary="A page",
            form=Form,
            never_refused=page.never_refused,
            on_address=page.on_address,
            file_bytes=page.file_bytes,
        )
        for page in pages
    )


async def _visit(site: Site, handler: Handler, request: BodyRequest[Form]) -> Reply:
    user = None
    if request.caller is not None:
        user = await site.accounts.environment[Users].get(request.caller.user_id)
    return await handler(Visit(site, request, user))


def cookie_kept_back(request: Request, cookie: str | None) -> bool:
    """Whether the browser may have a cookie that it did not send: it withholds `SameSite=Strict`
    cookies when the user follows a link from another site. In another site's frame it always does,
    so loading the page again would not help."""
    from_elsewhere = request.header("sec-fetch-site") == "cross-site"
    return cookie is None and from_elsewhere and request.header("sec-fetch-dest") != "iframe"


def csrf_token(cookie: str) -> str:
    """The CSRF token of a session, derived from its cookie, which other sites cannot read."""
    return digest(cookie.encode(), b"form", "sha256").hex()[:32]


def form_token(accounts: Accounts, cookie: str, user: User | None) -> str:
    """The CSRF token of a form: that of the session, and the user's id with a code that only this
    server can make. The id tells whose form it is after the session has ended."""
    session = csrf_token(cookie)
    if user is None:
        return session
    return f"{session}_{user.id}_{_codes(accounts, session, user.id)[0]}"


def is_of_session(form: Form, cookie: str | None) -> bool:
    """Whether the form was sent by a page of this session."""
    sent = form.text("csrf").partition("_")[0]
    return compare_digest(sent.encode(), csrf_token(cookie or "").encode())


def check_token(form: Form, cookie: str | None) -> None:
    """Raises `PermissionDenied` unless the form was sent by a page of this session."""
    if not is_of_session(form, cookie):
        raise PermissionDenied("This form does not belong to your session. Load the page again.")


def sender_of(form: Form, accounts: Accounts) -> int | None:
    """The id of the account whose session the form belongs to, even after that session has ended;
    None if no page of ours sent it."""
    session, _, named = form.text("csrf").partition("_")
    number, _, code = named.partition("_")
    user_id = whole_number(number)
    if user_id is None:
        return None
    known = _codes(accounts, session, user_id)
    return user_id if any(compare_digest(code.encode(), one.encode()) for one in known) else None


def _codes(accounts: Accounts, session: str, user_id: int) -> list[str]:
    """The valid codes, the current one first."""
    env = accounts.environment
    text = f"{env.name} form of session {session} of user {user_id}"
    return [code.hex()[:32] for code in env[Vault].codes(text.encode())]


class Visit:
    """One request for a page."""

    def __init__(self, site: Site, request: BodyRequest[Form], user: User | None) -> None:
        """`user` is the signed-in account, None if there is none."""
        self.site = site
        self.request = request
        self.env = site.accounts.environment if site.of_accounts else site.environment
        self.form = request.body
        self._user = user
        pairs = parse_qsl(request.query_string)
        self._pairs = [(name, value) for name, value in pairs if not text_fault(value)]
        self._query = dict(self._pairs)

    @property
    def user(self) -> User:
        """The signed-in account. Raises `NotFound` if it was deleted."""
        if self._user is None:
            raise NotFound("This account no longer exists.")
        return self._user

    @property
    def signed_in(self) -> bool:
        """Whether an account is signed in."""
        return self._user is not None

    @property
    def shows_accounts(self) -> bool:
        """Whether the environment that is shown is the accounts' own."""
        return self.env is self.site.accounts.environment

    @property
    def cookie_kept_back(self) -> bool:
        """Whether the browser may have withheld its session cookie. Raise
        `AuthenticationRequired` then: that loads the page again."""
        cookie = self.site.accounts.cookie.read(self.request.headers)
        return cookie_kept_back(self.request, cookie)

    @property
    def session_id(self) -> int:
        """The id of the visit's session."""
        return self.request.caller.credential_id

    async def owner(self) -> User | None:
        """The account's user in the environment that is shown: the account itself, or its mirror
        user, which may not exist yet."""
        if self.shows_accounts:
            return self.user
        return await self.env[Users].by_account(self.user.id)

    async def made_owner(self) -> User:
        """As `owner`, for a change: creates the mirror user if there is none."""
        known = await self.owner()
        if known is not None:
            return known
        return await mirror_user(self.site.accounts.environment, self.user, self.request.by)

    async def by(self) -> Author:
        """On whose behalf a change is made, as the audit log of the shown environment names it."""
        by = self.request.by
        if self.shows_accounts:
            return by
        owner = await self.made_owner()
        # The session belongs to the accounts' environment and means nothing in this one.
        return Author(by.named(user_id=owner.id).actor)

    def sent(self, name: str) -> str:
        """A value from the form, or else from the query; empty if there is none."""
        return self.form.text(name) or self._query.get(name, "")

    def sent_all(self, name: str) -> list[str]:
        """Every value of this name in the query."""
        return [value for key, value in self._pairs if key == name]

    def sent_number(self, name: str) -> int | None:
        """A number from the form or the query; None if there is none."""
        return whole_number(self.sent(name))

    def sent_id(self) -> int:
        """The `id` from the form or the query. Raises `NotFound` if it is not an id."""
        return parse_id(self.sent("id"))

    def page(
        self,
        template_name: str,
        title: str,
        *,
        status: int = 200,
        leads_anywhere: bool = False,
        private_address: bool = False,
        **context: Any,
    ) -> Reply:
        """Render a page. With `leads_anywhere`, its forms may lead to other hosts; with
        `private_address`, the browser sends no referrer from it."""
        site, user = self.site, self._user
        addresses = self.env.addresses.read(here=self.request.is_local)
        cookie = site.accounts.cookie.read(self.request.headers)
        text = template(template_name).render(
            title=title,
            status=status,
            base=site.base,
            home=site.home,
            sign_in=site.sign_in,
            forgot=site.forgot,
            sign_up=site.sign_up,
            here=self.request.path.removeprefix(site.base).removesuffix("/"),
            places=site.dashboards,
            menu=self.menu,
            of_accounts=site.of_accounts,
            site_name=self.env.settings.site_name,
            environment=self.env.name,
            api=site.environment.addresses.base,
            auth=addresses.auth,
            has_mail_server=site.accounts.environment.has_mail_server,
            curl=addresses.curl,
            needs_copy=addresses.needs_copy,
            theme=user.theme if user else "system",
            user=user,
            csrf=form_token(site.accounts, cookie, user) if cookie else "",
            form=self.form,
            sent=self.request.method == "POST",
            done=notice(self._query.get("done", ""), self.sent_number("count")),
            now=self.request.now,
            request_id=self.request.id,
            **context,
        )
        # Chromium applies form-action to each redirect that follows a form too, and a sign-in leads
        # to an application that was allowed before.
        onward = str(context.get("next", "")).startswith(f"{site.base}/authorize?")
        leads_to = None if leads_anywhere or onward else f"'self' {site.elsewhere}".strip()
        return html(text, status, form_action=leads_to, private_address=private_address)

    @property
    def menu(self) -> Mapping[str, Mapping[str, Section]]:
        """The sections that the user may open (`sections_of`)."""
        return sections_of(self.site.environment, self._user)

    def asks(
        self,
        title: str,
        *lines: str,
        words: str,
        action: str,
        back: tuple[str, str],
        danger: bool = False,
        **fields: object,
    ) -> Reply:
        """A page that asks for confirmation. Its button says `words` and sends `fields` to the path
        `action`; `back` is the path to give up to, and its name."""
        return self.page(
            "confirm.html",
            title,
            lines=lines,
            words=words,
            action=action,
            back=back[0],
            back_to=back[1],
            danger=danger,
            fields=fields,
        )

    def go(self, path: str, **query: str) -> Reply:
        """Redirect to another page of this site (303). `done` in the query names a notice."""
        return see_other(addressed(self.site.base + path, query))


def addressed(path: str, query: Mapping[str, object]) -> str:
    """A path with its query, if there is any."""
    return f"{path}?{urlencode(query)}" if query else path


def see_other(location: str) -> Reply:
    """A redirect (303) to a page that shows the outcome."""
    return Reply(303, b"", [("location", location or "/"), ("cache-control", "no-store")])


def options_reply(options: str) -> Reply:
    """The options of a passkey (see `features.signin.passkeys`), for a page that has been open for
    long."""
    return Reply(200, options.encode(), [("content-type", JSON), ("cache-control", "no-store")])


def html(
    text: str, status: int, *, form_action: str | None = "'self'", private_address: bool = False
) -> Reply:
    """A page with the headers that all pages have. `form_action` says where its forms may lead;
    None is anywhere."""
    policy = _POLICY if form_action is None else f"{_POLICY}; form-action {form_action}"
    headers: Headers = [
        ("content-type", HTML),
        ("cache-control", "no-store"),
        ("content-security-policy", policy),
        # Keeps pages that open this one in a window from reaching into it. Browsers start a new
        # process for it, which is a third of the time of a first view.
        ("cross-origin-opener-policy", "same-origin"),
        # Without a referrer, browsers send forms with the origin `null`.
        ("referrer-policy", "no-referrer" if private_address else "same-origin"),
    ]
    return Reply(status, text.encode(), headers)
