"""Signing in with an identity provider, and linking accounts to providers."""

from functools import partial

from portico.core.errors import (
    AuthenticationRequired,
    Conflict,
    NotFound,
    PermissionDenied,
    PorticoError,
    Unavailable,
)
from portico.core.providers import VISIT_SECONDS, Provider, ProviderLink
from portico.core.times import SECOND
from portico.environment import Environment
from portico.features.signin.openid import ProviderAnswer
from portico.features.signin.pages.sign_in import LINK, enter, local
from portico.features.signin.pages.step_up import fresh
from portico.features.signin.providers import (
    AwaitedLink,
    Known,
    await_link,
    awaited_link,
    begin_visit,
    end_awaited_link,
    end_visit,
    label_of,
    link,
    unlink,
)
from portico.features.signin.sessions import read_session
from portico.features.signin.storage import ProviderStore
from portico.web.cookies import PROVIDER
from portico.web.messages import Reply
from portico.web.pages.site import PageRoute, Visit, see_other
from portico.web.problems import problem
from portico.web.routing import Access


async def begin(provider: Provider, visit: Visit) -> Reply:
    target = local(visit.site, visit.sent("next"))
    return await _leave(visit, provider, target, again=bool(visit.sent("again")))


async def begin_link(visit: Visit) -> Reply:
    provider = visit.site.accounts.environment.sign_in_by.get(visit.form.text("provider"))
    if provider is None:
        raise NotFound("This sign-in provider is no longer available.")
    return await _leave(visit, provider, f"{visit.site.base}/security", user_id=visit.user.id)


async def _leave(
    visit: Visit,
    provider: Provider,
    target: str,
    *,
    user_id: int | None = None,
    again: bool = False,
) -> Reply:
    try:
        gone = await begin_visit(
            visit.site.accounts.environment,
            provider,
            _back(visit, provider),
            target,
            visit.request.by,
            user_id=user_id,
            again=again,
        )
    except Unavailable as error:
        return _refused(visit, error, target)
    # Not a redirect: after a form, our policy allows redirects to this host only.
    reply = visit.page(
        "leave.html", f"Continue to {provider.label}", address=gone.address, to=provider.label
    )
    reply.headers.append(PROVIDER.set(gone.secret))
    return reply


async def come_back(provider: Provider, visit: Visit) -> Reply:
    """GET /sign-in/back/NAME: the redirect URI of a provider."""
    if visit.cookie_kept_back:
        raise AuthenticationRequired("The cookie was withheld. Load the page again.")
    env, by = visit.site.accounts.environment, visit.request.by
    answer = ProviderAnswer(*(visit.sent(name) for name in ProviderAnswer._fields))
    secret = PROVIDER.read(visit.request.headers) or ""
    target = visit.site.home
    try:
        known = await end_visit(env, provider, _back(visit, provider), secret, answer, by)
        target = known.visit.target
        if known.visit.user_id is not None:
            return _left(await _link(visit, provider, known))
        if known.user is not None:
            return _left(await enter(visit, known.user, target, provider.name, again=known.again))
        waits = await await_link(env, provider, known, by)
    except (PermissionDenied, Conflict, AuthenticationRequired, Unavailable) as error:
        return _refused(visit, error, target)
    reply = visit.go("/sign-in", next=target)
    reply.headers.append(PROVIDER.set(waits))
    return reply


async def _link(visit: Visit, provider: Provider, known: Known) -> Reply:
    if not visit.signed_in or visit.user.id != known.visit.user_id:
        raise PermissionDenied(
            "You are no longer signed in to the same account, so nothing was linked. Sign in, then"
            " link it again."
        )
    await link(visit.env, provider, known.person, visit.user.id, visit.request.by)
    return see_other(f"{known.visit.target}?done=provider-linked")


async def ask_link(visit: Visit) -> Reply:
    """GET /sign-in/link: whether to link the account that has just signed in to the one at a
    provider that the user came from."""
    target = local(visit.site, visit.sent("next"))
    waits = await _awaited(visit)
    if waits is None:
        return see_other(target)
    label, email = waits.provider.label, waits.person.email
    return visit.page(
        "link_provider.html",
        f"Link the {label} account {email}?",
        label=label,
        next=target,
        path=LINK,
    )


async def decide_link(visit: Visit) -> Reply:
    """POST /sign-in/link: the user's decision."""
    env, by = visit.site.accounts.environment, visit.request.by
    if visit.form.text("decision") == "link":
        waits = await _awaited(visit)
        if waits is None:
            raise NotFound(
                "Nothing was linked: that is possible for ten minutes. Sign in with the provider"
                " again, or link it under Sign-in security."
            )
        await link(env, waits.provider, waits.person, visit.user.id, by)
    await end_awaited_link(env, PROVIDER.read(visit.request.headers) or "", by)
    return _left(see_other(local(visit.site, visit.sent("next"))))


async def _awaited(visit: Visit) -> AwaitedLink | None:
    """The person to whom the signed-in account may be linked. None if it signed in too long ago: it
    must do so anew, which a session that was left open does not prove."""
    env = visit.site.accounts.environment
    waits = await awaited_link(env, PROVIDER.read(visit.request.headers))
    session = await read_session(env, visit.session_id)
    is_new = visit.request.now - session.created_at < VISIT_SECONDS * SECOND
    return waits if waits is not None and is_new and waits.fits(visit.user) else None


def _left(reply: Reply) -> Reply:
    reply.headers.append(PROVIDER.clear())
    return reply


def _refused(visit: Visit, error: PorticoError, target: str) -> Reply:
    shown = problem(error)
    reply = visit.page(
        "provider_refused.html",
        "Sign-in failed",
        # 401 would ask for a header that no browser sends here.
        status=403 if shown.status == 401 else shown.status,
        message=error.message,
        next=target,
        private_address=True,
    )
    reply.headers += [field for field in shown.headers if field[0] == "retry-after"]
    return reply


def _back(visit: Visit, provider: Provider) -> str:
    """The redirect URI of a provider. Each has its own, which prevents mix-up attacks (RFC 9700
    §4.4)."""
    return f"{visit.site.origin}{visit.site.sign_in}/sign-in/back/{provider.name}"


async def _own(visit: Visit) -> ProviderLink:
    """The link that the form or the query names. Raises `NotFound`."""
    links = await visit.env[ProviderStore].links_of(visit.user.id)
    found = next((one for one in links if one.id == visit.sent_id()), None)
    if found is None:
        raise NotFound("This provider is no longer linked.")
    return found


async def ask_unlink(visit: Visit) -> Reply:
    found = await _own(visit)
    return visit.asks(
        f"Unlink {label_of(visit.env, found) or found.issuer}?",
        f"{found.email or found.subject} can then no longer sign you in.",
        words="Unlink",
        danger=True,
        action="/security/unlink",
        back=("/security", "Sign-in security"),
        id=found.id,
    )


async def remove_link(visit: Visit) -> Reply:
    found = await _own(visit)
    await unlink(visit.env, visit.user.id, found.id, visit.request.by)
    return visit.go("/security", done="provider-unlinked")


async def linked(visit: Visit) -> list[tuple[ProviderLink, str]]:
    """An account's links, each with the label of its provider."""
    links = await visit.env[ProviderStore].links_of(visit.user.id)
    return [(one, label_of(visit.env, one) or one.issuer) for one in links]


def provider_pages(env: Environment) -> tuple[PageRoute, ...]:
    """The pages that lead to the providers of an environment and back."""
    linking = (PageRoute("GET", LINK, ask_link), PageRoute("POST", LINK, decide_link))
    return (linking if env.sign_in_by else ()) + tuple(
        page
        for name, provider in env.sign_in_by.items()
        for page in (
            PageRoute("POST", f"/sign-in/with/{name}", partial(begin, provider), Access.ANYONE),
            PageRoute("GET", f"/sign-in/back/{name}", partial(come_back, provider), Access.ANYONE),
        )
    )


LINKING = (
    PageRoute("POST", "/security/link", fresh(begin_link)),
    PageRoute("GET", "/security/unlink", ask_unlink),
    PageRoute("POST", "/security/unlink", fresh(remove_link)),
)
