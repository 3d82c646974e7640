"""The profile of the account: name, preferences, e-mail, password."""

from functools import partial
from typing import Any

from portico.core import users
from portico.core.errors import PreconditionFailed
from portico.core.users import User
from portico.features.people.passwords import chosen
from portico.features.people.users import Check, change_user, read_user
from portico.features.signin.pages.step_up import question
from portico.web.messages import Reply
from portico.web.pages.forms import Values, beside, outcome, require_version
from portico.web.pages.site import PageRoute, Visit

_MAILS = (
    ("sign-ins", "Someone signs in to my account on a new device", ""),
    ("keys", "An API key is created for my account", ""),
    ("expiring-keys", "One of my API keys expires within seven days", ""),
    ("roles", "My role changes", ""),
)
_THEMES = (("system", "Same as system"), ("light", "Light"), ("dark", "Dark"))


async def show(visit: Visit) -> Reply:
    return _page(visit, visit.user)


def _values(
    name: str, avatar_url: str | None, language: str, theme: str, mails: list[str]
) -> Values:
    words = {name: text for name, text, _ in _MAILS}
    return {
        "Name": name,
        "Picture": avatar_url or "",
        "Language": language,
        "Theme": dict(_THEMES)[theme],
        "Mails": "\n".join(words[mail] for mail in users.MAILS if mail in mails),
    }


def _stored(user: User) -> Values:
    return _values(user.name, user.avatar_url, user.language, user.theme, user.mails)


def _page(visit: Visit, user: User, mine: Values | None = None) -> Reply:
    """The profile, with changes made elsewhere beside `mine` if they conflict."""
    stored = _stored(user)
    return visit.page(
        "profile.html",
        "Profile",
        **beside(visit.form, stored, mine),
        themes=_THEMES,
        mails=_MAILS,
        wanted=user.mails,
    )


async def _change(visit: Visit, values: dict[str, Any], check: Check = lambda _: None) -> User:
    caller = visit.request.caller
    return await change_user(visit.env, caller, visit.user.id, values, check, visit.request.by)


async def change(visit: Visit) -> Reply:
    form = visit.form
    wanted = form.several("mails", users.MAILS)
    # If all are off, no kind is stored as muted, so that the API's one switch turns all on again.
    muted = [mail for mail in users.MAILS if mail not in wanted] if wanted else []
    values: dict[str, Any] = {
        "name": form.read("name", users.name),
        "avatar_url": form.optional("avatar_url", users.avatar_url),
        "preferences": {
            "language": form.read("language", users.language),
            "theme": form.read("theme", users.theme),
            "notifications": bool(wanted),
            "muted": " ".join(muted),
        },
    }
    form.check()
    # Otherwise whoever has a stolen session could hide what they do next.
    if not set(visit.user.mails) <= set(wanted) and (asked := await question(visit)):
        return asked

    def check(user: User) -> None:
        require_version(form, _stored(user))

    try:
        user = await _change(visit, values, check)
    except PreconditionFailed:
        name, picture = values["name"], values["avatar_url"]
        chosen = values["preferences"]
        mine = _values(name, picture, chosen["language"], chosen["theme"], wanted)
        return _page(visit, await read_user(visit.env, visit.user.id), mine)
    return visit.go("/profile", done=outcome(form, _stored(user), "profile-saved"))


async def show_password(visit: Visit) -> Reply:
    return visit.page("password.html", "Change password")


async def change_password(visit: Visit) -> Reply:
    rule = partial(chosen, name=visit.user.name, email=visit.user.email)
    values = {
        "current_password": visit.form.read("current_password", str),
        "password": visit.form.read("password", rule),
    }
    visit.form.check()
    await _change(visit, values)
    return visit.go("/profile", done="password-changed")


PAGES = (
    PageRoute("GET", "/profile", show),
    PageRoute("POST", "/profile", change),
    PageRoute("GET", "/password", show_password),
    PageRoute("POST", "/password", change_password),
)
