"""The pages at one address, and one visit to one of them."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from hmac import compare_digest, digest
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from portico.domain.audit import By
from portico.domain.errors import NotFound, PermissionDenied
from portico.domain.ids import parse_id
from portico.domain.secrets import mint
from portico.domain.text import text_fault
from portico.domain.users import User
from portico.http.cookies import Origins, SecretCookie
from portico.http.messages import BodyRequest, Headers, Reply, Request
from portico.http.routing import Access, AnyRoute, FormRoute
from portico.pages.files import HTML
from portico.pages.forms import Form
from portico.pages.html import template
from portico.pages.notices import notice
from portico.services.credentials import Credentials
from portico.services.environment import Environment
from portico.services.mirrors import mirror_user
from portico.services.shown_once import keep_page

_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)

ONCE = "once"
"""The field with the key of a form that does once what it does."""
ONCE_PATH = "/once"
"""Where what is shown once is seen."""

Handler = Callable[["Visit"], Awaitable[Reply]]


class Accounts(NamedTuple):
    """Who may sign in, and by which cookie."""

    environment: Environment
    credentials: Credentials
    cookie: SecretCookie
    origins: Origins


class Dashboard(NamedTuple):
    """A dashboard to switch to: its name and the path where it begins."""

    name: str
    base: str


class Site(NamedTuple):
    """Pages that begin at one path. They show an environment to accounts that may be another's."""

    environment: Environment
    accounts: Accounts
    origin: str
    """The public address up to the path."""
    base: str
    home: str
    """Where the dashboard of the accounts themselves begins; people sign in at `sign_in`."""
    sign_in: str
    forgot: str
    """Where those go who forgot their password; empty where there is no such place."""
    sign_up: str
    """Where those go who have no account; empty where nobody makes their own."""
    dashboards: Sequence[Dashboard]
    of_accounts: bool = False
    """Whether its pages are those of the accounts themselves, wherever they are come to from."""

    @property
    def beginning(self) -> str:
        """Where those go who want nothing in particular."""
        return self.base if self.dashboards else self.home

    @property
    def elsewhere(self) -> str:
        """The origin of `home` where that is on another host, else empty: whoever has signed in
        for nothing in particular goes there."""
        at = urlsplit(self.home)
        origin = f"{at.scheme}://{at.netloc}"
        return origin if at.netloc and origin != self.origin else ""


class PageRoute(NamedTuple):
    """One page, or what one of its forms does."""

    method: str
    path: str
    handler: Handler
    access: str | Access = Access.ANY_CALLER
    never_refused: bool = False
    on_address: bool = False
    file_bytes: int = 0
    """These three: see `Route`."""


def routes(site: Site, pages: Sequence[PageRoute]) -> tuple[AnyRoute, ...]:
    """Pages as the routes of a mount."""
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
        user = await site.accounts.environment.users.get(request.caller.user_id)
    return await handler(Visit(site, request, user))


def cookie_kept_back(request: Request, cookie: str | None) -> bool:
    """Whether a browser may have a cookie that it did not send: strict ones are kept back where
    another site's link leads here. In another site's frame they always are."""
    from_elsewhere = request.header("sec-fetch-site") == "cross-site"
    return cookie is None and from_elsewhere and request.header("sec-fetch-dest") != "iframe"


def csrf_token(cookie: str) -> str:
    """What every form of a session carries: made of the cookie, which other sites cannot read."""
    return digest(cookie.encode(), b"form", "sha256").hex()[:32]


def form_token(accounts: Accounts, cookie: str, user: User | None) -> str:
    """The session's token, and whose session it is, by a code that none but this server makes: for
    when it has ended."""
    session = csrf_token(cookie)
    if user is None:
        return session
    return f"{session}_{user.id}_{_codes(accounts, session, user.id)[0]}"


def is_of_session(form: Form, cookie: str | None) -> bool:
    """Whether a page of this session has sent a form."""
    sent = form.text("csrf").partition("_")[0]
    return compare_digest(sent.encode(), csrf_token(cookie or "").encode())


def check_token(form: Form, cookie: str | None) -> None:
    """Raises `PermissionDenied` for a form that no page of this session has sent."""
    if not is_of_session(form, cookie):
        raise PermissionDenied("This form does not belong to your session. Load the page again.")


def sender_of(form: Form, accounts: Accounts) -> int | None:
    """The account whose session a form is from, ended or not; None where it is from no page of
    ours."""
    session, _, named = form.text("csrf").partition("_")
    number, _, code = named.partition("_")
    user_id = _number(number)
    if user_id is None:
        return None
    known = _codes(accounts, session, user_id)
    return user_id if any(compare_digest(code.encode(), one.encode()) for one in known) else None


def _number(text: str) -> int | None:
    """A number as forms and addresses have it; None for what is none, or too large for any id."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _codes(accounts: Accounts, session: str, user_id: int) -> list[str]:
    """The codes that count, the one to send first."""
    env = accounts.environment
    text = f"{env.name} form of session {session} of user {user_id}"
    return [code.hex()[:32] for code in env.vault.codes(text.encode())]


class Visit:
    """One request for a page."""

    def __init__(self, site: Site, request: BodyRequest[Form], user: User | None) -> None:
        """`user` is the account that is signed in."""
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
        """The account that is signed in. Raises `NotFound` where it is gone."""
        if self._user is None:
            raise NotFound("This account no longer exists.")
        return self._user

    @property
    def signed_in(self) -> bool:
        """Whether somebody is."""
        return self._user is not None

    @property
    def cookie_kept_back(self) -> bool:
        """Whether somebody may be signed in without this visit saying so: let it be loaded again,
        by `AuthenticationRequired`."""
        cookie = self.site.accounts.cookie.read(self.request.headers)
        return cookie_kept_back(self.request, cookie)

    @property
    def session_id(self) -> int:
        """The session that this visit belongs to."""
        return self.request.caller.credential_id

    async def owner(self) -> User | None:
        """Whoever the account is in the environment that is shown: itself, or its mirror user,
        which may not be there yet."""
        if self.env is self.site.accounts.environment:
            return self.user
        return await self.env.users.by_account(self.user.id)

    async def made_owner(self) -> User:
        """As `owner`, for what changes something: the mirror user is made where there is none."""
        known = await self.owner()
        if known is not None:
            return known
        return await mirror_user(self.site.accounts.environment, self.user, self.request.by)

    async def by(self) -> By:
        """The account as the audit log of the environment that is shown names it, for a change."""
        by = self.request.by
        if self.env is self.site.accounts.environment:
            return by
        owner = await self.made_owner()
        # The session is the accounts' environment's: where it is shown, nobody knows of it.
        return By(by.named(user_id=owner.id).actor)

    def sent(self, name: str) -> str:
        """A value from the form, or else from the address; empty where there is none."""
        return self.form.text(name) or self._query.get(name, "")

    def sent_all(self, name: str) -> list[str]:
        """Every value of this name in the address."""
        return [value for key, value in self._pairs if key == name]

    def sent_number(self, name: str) -> int | None:
        """A number from the form or the address; None where there is none."""
        return _number(self.sent(name))

    def sent_id(self) -> int:
        """The `id` from the form or the address. Raises `NotFound`."""
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
        """A page. With `leads_anywhere` its forms may lead to other hosts; with `private_address`
        no other page learns this one's address."""
        site, user = self.site, self._user
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
            of_accounts=site.of_accounts,
            environment=self.env.name,
            api=site.environment.addresses.base,
            auth=self.env.addresses.auth,
            has_mail_server=site.accounts.environment.has_mail_server,
            curl=self.env.addresses.curl,
            theme=user.theme if user else "system",
            user=user,
            csrf=form_token(site.accounts, cookie, user) if cookie else "",
            form=self.form,
            done=notice(self._query.get("done", ""), self.sent_number("count")),
            now=self.request.now,
            request_id=self.request.id,
            **context,
        )
        # Chromium holds every redirect that follows a form to the policy of the form's page.
        leads_to = None if leads_anywhere else f"'self' {site.elsewhere}".strip()
        return html(text, status, form_action=leads_to, private_address=private_address)

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

    async def once(self, page: Reply, user: User) -> Reply:
        """Sends the browser to a page that is shown once, to this user, because it holds a secret:
        to load it again makes no second one."""
        accounts = self.site.accounts.environment
        token = mint("", accounts.random)
        await keep_page(accounts, user.id, token, page.body, self.request.by)
        return self.go(ONCE_PATH, page=token)

    def go(self, path: str, **query: str) -> Reply:
        """Sends the browser to another page of this site (303), with a `done` of `NOTICES`."""
        return see_other(self.site.base + path + (f"?{urlencode(query)}" if query else ""))


def see_other(location: str) -> Reply:
    """Sends the browser elsewhere, to read there what came of it."""
    return Reply(303, b"", [("location", location or "/"), ("cache-control", "no-store")])


def html(
    text: str, status: int, *, form_action: str | None = "'self'", private_address: bool = False
) -> Reply:
    """A page's text with the headers of all pages. `form_action` is where its forms may lead, None
    for anywhere."""
    policy = _POLICY if form_action is None else f"{_POLICY}; form-action {form_action}"
    headers: Headers = [
        ("content-type", HTML),
        ("cache-control", "no-store"),
        ("content-security-policy", policy),
        # A browser then begins a process for the page once its headers are there, which is a third
        # of the time of a first view: that is what keeps the windows that open it out of it.
        ("cross-origin-opener-policy", "same-origin"),
        # Without a referrer, browsers send forms from an origin that they call null.
        ("referrer-policy", "no-referrer" if private_address else "same-origin"),
    ]
    return Reply(status, text.encode(), headers)
