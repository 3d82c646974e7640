"""Users of the environment that is shown, for admins: search, create, view, change, sign out,
suspend, delete. A mirror user follows its account, and is changed there."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from portico.core import users
from portico.core.audit import Author
from portico.core.errors import PreconditionFailed
from portico.core.rules import OneOf
from portico.core.users import ROLES, User
from portico.data.listing import Order, Page
from portico.environment import Environment
from portico.features.access.pages.clients import allowed_by
from portico.features.access.pages.keys import shown
from portico.features.access.storage import ApiKeys
from portico.features.people.accounts import resume, suspend
from portico.features.people.recovery import HANDED_HOURS, HandedOver, give_reset
from portico.features.people.storage import SORTS, Invitations, Users
from portico.features.people.users import change_user, create_user, delete_user, read_user
from portico.features.signin.pages.devices import KINDS, agent_words
from portico.features.signin.pages.step_up import fresh
from portico.features.signin.second_factor import reset_factors
from portico.features.signin.service import (
    end_application,
    end_login,
    end_session,
    must_enrol,
    sign_out_everywhere,
)
from portico.features.signin.storage import Devices, FactorStore
from portico.web.messages import Reply
from portico.web.pages.forms import Values, beside, outcome, require_version
from portico.web.pages.html import named
from portico.web.pages.paging import (
    PER_PAGE,
    back_to_list,
    list_of,
    numbered,
    offset_of,
    page_of,
    sort_of,
)
from portico.web.pages.search import Searched
from portico.web.pages.sent_once import fresh_key, sent_once, shown_once
from portico.web.pages.site import Handler, PageRoute, Visit, addressed, see_other

_MAX_SEARCH = 254
_SUSPENDED = {"active": False, "suspended": True}
_FILTERS = ("search", "role", "state", "sort", "order", "page")
_SORTED = {
    "name": "Name",
    "email": "E-mail",
    "role": "Role",
    "last_login_at": "Last sign-in",
    "created_at": "Created",
}


async def show_all(visit: Visit) -> Reply:
    """GET /users. A page beyond the last gives the last."""
    search = visit.sent("search").strip()[:_MAX_SEARCH]
    role = visit.sent("role") if visit.sent("role") in ROLES else None
    state = visit.sent("state") if visit.sent("state") in _SUSPENDED else ""
    users, suspended = visit.env[Users], _SUSPENDED.get(state)
    chosen = sort_of(visit, _SORTED)
    sort, way = chosen or ("created_at", "desc")
    order = Order(
        SORTS.get(sort, sort),
        descending=way == "desc",
        indexed=sort in SORTS,
        nulls=sort == "last_login_at",
    )

    async def on(page: int) -> Page[User]:
        offset = offset_of(page)
        if search or state:
            return await users.search(
                search, role=role, suspended=suspended, order=order, offset=offset, limit=PER_PAGE
            )
        return await users.page(role=role, order=order, offset=offset, limit=PER_PAGE)

    page, found = await page_of(visit, on)
    return visit.page(
        "users.html",
        "Users",
        users=found.rows,
        total=found.total,
        **numbered(
            page,
            found.total,
            search=search,
            role=role or "",
            state=state,
            sort=sort if chosen else "",
            order=way if chosen else "",
        ),
        columns=_SORTED,
        sort=(sort, way),
        search=search,
        role=role,
        roles=ROLES,
        state=state,
        states=_SUSPENDED,
        invited=await visit.env[Invitations].count_pending(visit.request.now),
    )


async def _search(env: Environment, text: str, most: int) -> Sequence[User]:
    return (await env[Users].search(text, role=None, offset=0, limit=most)).rows


SEARCHED = Searched(
    "Users",
    "/users",
    "admin",
    get=lambda env, user_id: env[Users].get(user_id),
    search=_search,
    label=lambda user: f"{named(user.name, user.id)}, {user.email}",
)


def _plans(visit: Visit, own_plan: str) -> dict[str, str]:
    """The plans and their words, including the user's own, which may no longer be configured."""
    plans = {plan: plan.capitalize() for plan in visit.env.settings.plans}
    plans.setdefault(own_plan, f"{own_plan.capitalize()}, no longer configured: limited like Free")
    return plans


def _choices(visit: Visit, own_plan: str = "free") -> dict[str, Any]:
    roles = [(role, role.capitalize()) for role in ROLES]
    return {"roles": roles, "plans": list(_plans(visit, own_plan).items())}


async def show_new(visit: Visit) -> Reply:
    return visit.page("user_new.html", "New user", **_choices(visit), once=fresh_key(visit))


async def create(visit: Visit) -> Reply:
    form = visit.form
    values: dict[str, Any] = {
        "name": form.read("name", users.name),
        "email": form.read("email", users.email),
        "role": form.read("role", users.role),
        "plan": form.read("plan", OneOf(tuple(visit.env.settings.plans))),
        "password": form.read("password", users.password),
    }
    form.check()
    return await sent_once(
        visit,
        lambda by: create_user(visit.env, **values, by=by),
        lambda user: visit.go(f"/users/{user.id}", done="user-created"),
    )


async def show(visit: Visit) -> Reply:
    env, now = visit.env, visit.request.now
    person = await read_user(env, visit.request.resource_id)
    devices = await env[Devices].page(person.id, now, session_id=0, offset=0, limit=PER_PAGE)
    applications = await allowed_by(env, person.id, now)
    keys = await env[ApiKeys].usable_first(person.id, now, offset=0, limit=PER_PAGE)
    return visit.page(
        "user.html",
        named(person.name, person.id),
        person=person,
        own=_own(visit, person),
        came_from=list_of(visit, _FILTERS),
        keys=[shown(key, now) for key in keys.rows],
        all_keys=keys.total,
        devices=devices.rows,
        all_devices=devices.total,
        agent_words=agent_words,
        kinds=KINDS,
        applications=applications.rows,
        all_applications=applications.total,
        factors=await env[FactorStore].of_user(person.id),
    )


def _own(visit: Visit, person: User) -> bool:
    """Whether a user is the signed-in account. In the sandbox none is, not even its mirror."""
    return visit.shows_accounts and person.id == visit.user.id


def _values(name: str, email: str, role: str, plan: str) -> dict[str, str]:
    return {"Name": name, "E-mail": email, "Role": role, "Plan": plan}


def _stored(person: User) -> dict[str, str]:
    return _values(person.name, person.email, person.role, person.plan)


async def show_edit(visit: Visit) -> Reply:
    return _form(visit, await read_user(visit.env, visit.request.resource_id))


def _form(visit: Visit, person: User, mine: Values | None = None) -> Reply:
    """The form of a user, with another admin's changes beside `mine` if they conflict."""
    return visit.page(
        "user_edit.html",
        "Edit user",
        person=person,
        editable=person.account_id is None and not _own(visit, person),
        came_from=list_of(visit, _FILTERS),
        **beside(visit.form, _stored(person), mine),
        **_choices(visit, person.plan),
    )


async def edit(visit: Visit) -> Reply:
    form, user_id, by = visit.form, visit.request.resource_id, await visit.by()
    values: dict[str, Any] = {
        "name": form.read("name", users.name),
        "email": form.read("email", users.email),
        "role": form.read("role", users.role),
        "plan": form.text("plan"),
    }

    def check_plan(user: User) -> None:
        form.read("plan", OneOf(tuple(_plans(visit, user.plan))))
        form.check()

    if form.faults:  # a plan that ended meanwhile is no fault, but a change to show
        check_plan(await read_user(visit.env, user_id))

    def check(user: User) -> None:
        require_version(form, _stored(user))
        check_plan(user)

    try:
        caller = msgspec.structs.replace(visit.request.caller, user_id=by.actor.user_id)
        user = await change_user(visit.env, caller, user_id, values, check, by)
    except PreconditionFailed:
        return _form(visit, await read_user(visit.env, user_id), _values(**values))
    return _shown(visit, user_id, outcome(form, _stored(user), "user-changed"))


def _about(visit: Visit, person: User) -> dict[str, Any]:
    """What `Visit.asks` needs about a user: the way back to their page, their id, and the list that
    the admin came from."""
    came_from = list_of(visit, _FILTERS)
    back = addressed(f"/users/{person.id}", came_from), named(person.name, person.id)
    return {"back": back, "id": person.id, **came_from}


def _shown(visit: Visit, user_id: int, done: str) -> Reply:
    """Redirect to the page of a user after an action, with its notice."""
    return visit.go(f"/users/{user_id}", **list_of(visit, _FILTERS), done=done)


async def _asked(visit: Visit) -> User:
    return await read_user(visit.env, visit.sent_id())


async def ask_end(visit: Visit) -> Reply:
    person = await _asked(visit)
    return visit.asks(
        f"End this access to the account of {named(person.name, person.id)}?",
        "Only this device or application loses access. The account itself stays active.",
        words="End access",
        danger=True,
        action="/users/end",
        **_about(visit, person),
        kind=visit.sent("kind"),
        row=visit.sent("row"),
    )


async def end(visit: Visit) -> Reply:
    person = await _asked(visit)
    row_id, by = visit.sent_number("row") or 0, await visit.by()
    if visit.sent("kind") == "application":
        await end_application(visit.env, row_id, person.id, by)
    else:
        ends = end_session if visit.sent("kind") == "session" else end_login
        await ends(visit.env, row_id, by, of_user=person.id)
    return _shown(visit, person.id, "access-ended")


async def reset_password(visit: Visit) -> Reply:

    def page(given: HandedOver) -> Reply:
        return visit.page(
            "link_made.html",
            f"Password link for {named(given.user.name, given.user.id)}",
            link=given.link,
            expires_at=given.expires_at,
            back=f"/users/{given.user.id}",
            back_to=named(given.user.name, given.user.id),
        )

    return await shown_once(visit, lambda by: give_reset(visit.env, visit.sent_id(), by), page)


class Deed(NamedTuple):
    """Something that is done to a user once a question was answered."""

    title: str
    says: Callable[[Visit, User], str]
    words: str
    act: Callable[[Environment, int, Author], Awaitable[Any]] | None
    """None where it needs more than the user."""
    done: str = ""
    danger: bool = True


def _suspends(visit: Visit, _person: User) -> str:
    sandbox = " or the sandbox" if visit.shows_accounts else ""
    return (
        f"They can no longer sign in or use the API{sandbox}. Their sessions end, and programs and"
        " applications lose access. API keys work again when you resume the user. Nothing is"
        " deleted."
    )


def _resets_factors(visit: Visit, person: User) -> str:
    after = "Their password alone will be enough to sign in."
    if person.password_hash is None:
        after = (
            "The account has no password: send a link to choose one, unless they use a provider."
        )
    elif must_enrol(visit.env, person):
        after = "They must set up an authenticator app at the next sign-in."
    return (
        "Do this if they have lost it. Their app, passkeys and recovery codes stop working."
        f" {after}"
    )


SIGN_OUT = Deed(
    "Sign out {} everywhere?",
    lambda *_: (
        "All sessions end, and programs and applications lose access. API keys keep working."
    ),
    "Sign out everywhere",
    sign_out_everywhere,
    "user-signed-out",
)
SUSPEND = Deed("Suspend {}?", _suspends, "Suspend user", suspend, "user-suspended")
RESUME = Deed(
    "Resume {}?",
    lambda *_: "They can sign in again, and their API keys work again.",
    "Resume user",
    resume,
    "user-resumed",
    danger=False,
)
RESET_FACTORS = Deed(
    "Reset the second factor of {}?",
    _resets_factors,
    "Reset second factor",
    reset_factors,
    "factors-reset",
)
RESET_PASSWORD = Deed(
    "Reset the password of {}?",
    lambda *_: (
        "You get a link to pass on, which lets them choose a new password. It works once, within"
        f" {HANDED_HOURS} hours. Until then the old password keeps working."
    ),
    "Create link",
    None,
    danger=False,
)


def _asks(deed: Deed) -> Handler:
    async def ask(visit: Visit) -> Reply:
        person = await _asked(visit)
        key: dict[str, Any] = {} if deed.act else {"once": fresh_key(visit)}
        return visit.asks(
            deed.title.format(named(person.name, person.id)),
            deed.says(visit, person),
            words=deed.words,
            danger=deed.danger,
            action=visit.request.path.removeprefix(visit.site.base),
            **_about(visit, person),
            **key,
        )

    return ask


def _does(deed: Deed) -> Handler:
    async def do(visit: Visit) -> Reply:
        assert deed.act is not None  # noqa: S101 - of those that have one
        person = await _asked(visit)
        await deed.act(visit.env, person.id, await visit.by())
        return _shown(visit, person.id, deed.done)

    return do


async def ask_delete(visit: Visit) -> Reply:
    person = await _asked(visit)
    own = _own(visit, person)
    sandbox = ", in the sandbox too," if visit.shows_accounts else ""
    return visit.asks(
        "Delete your own account?" if own else f"Delete {named(person.name, person.id)}?",
        f"This deletes {person.email} with its keys, sessions and applications{sandbox} and cannot"
        " be undone.",
        *(["You are signed out, and your keys stop working."] if own else []),
        words="Delete my account" if own else "Delete user",
        danger=True,
        action="/users/delete",
        **_about(visit, person),
    )


async def delete(visit: Visit) -> Reply:
    person = await _asked(visit)
    await delete_user(visit.env, person.id, lambda _user: None, await visit.by())
    if _own(visit, person):
        reply = see_other(f"{visit.site.sign_in}/sign-in?done=account-deleted")
        reply.headers.append(visit.site.accounts.cookie.clear())
        return reply
    return visit.go("/users", **back_to_list(visit, _FILTERS), done="user-deleted")


PAGES = (
    PageRoute("GET", "/users", show_all, "admin"),
    PageRoute("GET", "/users/new", show_new, "admin"),
    PageRoute("POST", "/users/new", fresh(create), "admin"),
    PageRoute("GET", "/users/{id}", show, "admin"),
    PageRoute("GET", "/users/{id}/edit", show_edit, "admin"),
    PageRoute("POST", "/users/{id}/edit", fresh(edit), "admin"),
    PageRoute("GET", "/users/sign-out", _asks(SIGN_OUT), "admin"),
    PageRoute("POST", "/users/sign-out", _does(SIGN_OUT), "admin"),
    PageRoute("GET", "/users/end", ask_end, "admin"),
    PageRoute("POST", "/users/end", end, "admin"),
    PageRoute("GET", "/users/suspend", _asks(SUSPEND), "admin"),
    PageRoute("POST", "/users/suspend", fresh(_does(SUSPEND)), "admin"),
    PageRoute("GET", "/users/resume", _asks(RESUME), "admin"),
    PageRoute("POST", "/users/resume", _does(RESUME), "admin"),
    PageRoute("GET", "/users/delete", ask_delete, "admin"),
    PageRoute("POST", "/users/delete", fresh(delete), "admin"),
)

RECOVERY = (
    PageRoute("GET", "/users/reset-password", _asks(RESET_PASSWORD), "admin"),
    PageRoute("POST", "/users/reset-password", fresh(reset_password), "admin"),
    PageRoute("GET", "/users/reset-second-factor", _asks(RESET_FACTORS), "admin"),
    PageRoute("POST", "/users/reset-second-factor", fresh(_does(RESET_FACTORS)), "admin"),
)
"""Ways back in to an account. Users of the sandbox have none: only accounts sign in on pages."""
