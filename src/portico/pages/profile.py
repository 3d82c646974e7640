"""The account itself: name, preferences, e-mail, password."""

from functools import partial
from typing import Any

from portico.domain import users
from portico.http.messages import Reply
from portico.pages.site import PageRoute, Visit
from portico.services.chosen_passwords import chosen
from portico.services.users import change_user

_MAILS = (
    ("sign-ins", "Somebody signs in to my account on a new device", ""),
    ("keys", "A new API key is made for my account", ""),
    ("expiring-keys", "One of my API keys ends within seven days", ""),
    ("roles", "My account has a new role", ""),
)
_THEMES = (("system", "As the system"), ("light", "Light"), ("dark", "Dark"))


async def show(visit: Visit) -> Reply:
    """GET /profile."""
    wanted = [mail for mail in users.MAILS if visit.user.wants(mail)]
    return visit.page("profile.html", "Profile", themes=_THEMES, mails=_MAILS, wanted=wanted)


async def _change(visit: Visit, values: dict[str, Any]) -> None:
    caller = visit.request.caller
    await change_user(
        visit.env, caller, visit.user.id, values, lambda _user: None, visit.request.by
    )


async def change(visit: Visit) -> Reply:
    """POST /profile."""
    form = visit.form
    wanted = form.several("mails", users.MAILS)
    # Where all are off, no kind is remembered as muted: the API's one switch brings them all back.
    muted = [mail for mail in users.MAILS if mail not in wanted] if wanted else []
    values = {
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
    await _change(visit, values)
    return visit.go("/profile", done="profile-saved")


async def show_password(visit: Visit) -> Reply:
    """GET /password."""
    return visit.page("password.html", "Change password")


async def change_password(visit: Visit) -> Reply:
    """POST /password."""
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
