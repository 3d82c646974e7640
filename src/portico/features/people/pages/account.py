"""An account's own pages: profile, password and e-mail, and those that mailed links open."""

from functools import partial
from typing import Any

from portico.core import users
from portico.core.errors import Invalid, PreconditionFailed
from portico.core.users import User, email, password
from portico.features.people.passwords import chosen
from portico.features.people.recovery import (
    NEW_EMAIL,
    RESET,
    VERIFY,
    Link,
    another_email,
    ask_new_email,
    ask_reset,
    ask_verification,
    find_link,
    reset_password,
    take_new_email,
    verify_email,
)
from portico.features.people.storage import Users
from portico.features.people.users import Check, change_user, read_user
from portico.features.signin.pages.step_up import question
from portico.web.messages import Reply
from portico.web.pages.forms import Values, beside, outcome, require_version
from portico.web.pages.site import PageRoute, Visit
from portico.web.routing import Access

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
    return visit.page("own_change.html", "Change password", what="password")


async def change_password(visit: Visit) -> Reply:
    rule = partial(chosen, name=visit.user.name, email=visit.user.email)
    values = {
        "current_password": visit.form.read("current_password", str),
        "password": visit.form.read("password", rule),
    }
    visit.form.check()
    await _change(visit, values)
    return visit.go("/profile", done="password-changed")


async def show_forgot(visit: Visit) -> Reply:
    return visit.page("forgot.html", "Forgot your password?")


async def forgot(visit: Visit) -> Reply:
    """POST /forgot. The answer does not tell whether there is an account."""
    address = visit.form.read("email", lambda text: email(text.strip()))
    visit.form.check()
    await ask_reset(visit.env, address, visit.request.by)
    return visit.go("/forgot/sent")


def sent_page(visit: Visit, mailed: tuple[str, str], written: str) -> Reply:
    """The page after a link was requested: check your mail, or ask for the link, which was
    `written` to a file."""
    has_mail_server = visit.env.has_mail_server
    title = "Check your e-mail" if has_mail_server else "Ask the server operator"
    return visit.page(
        "told.html", title, lines=mailed if has_mail_server else [written], is_done=False
    )


async def show_sent(visit: Visit) -> Reply:
    return sent_page(
        visit,
        (
            "If an account has this address, we have sent it a link. The link works for one hour.",
            "No e-mail? Check your spam folder. Your account may use another address.",
        ),
        "This server does not send e-mail. If an account has this address, a link was written to a"
        " file on the server: ask the server operator for it. It works for one hour.",
    )


async def _of_link(visit: Visit, title: str, link: Link) -> Reply:
    """The page that a link of this kind opens. It does not use up the link: mail scanners open
    links too."""
    token, address = visit.sent("token"), ""
    try:
        found = await find_link(visit.env, token, link)
        # A link that an admin passes on was not mailed, so it has no address.
        owner = await visit.env[Users].get(found.user_id) if link is RESET else None
        address = owner.email if owner else found.email
    except Invalid as refusal:
        visit.form.refuse(refusal)
    useless = bool(visit.form.fault("token"))
    return visit.page(
        "link.html",
        title,
        purpose=link.purpose,
        status=410 if useless else 200,
        private_address=True,
        token=token,
        address=address,
        useless=useless,
    )


async def show_reset(visit: Visit) -> Reply:
    return await _of_link(visit, "Choose a new password", RESET)


async def reset(visit: Visit) -> Reply:
    chosen = visit.form.read("password", password)
    visit.form.check()
    await reset_password(visit.env, visit.sent("token"), chosen, visit.request.by)
    return visit.go("/sign-in", done="password-reset")


async def show_verify(visit: Visit) -> Reply:
    """GET /verify: asks for confirmation."""
    return await _of_link(visit, "Verify your e-mail", VERIFY)


async def verify(visit: Visit) -> Reply:
    await verify_email(visit.env, visit.sent("token"), visit.request.by)
    return visit.go("/verified")


def _done(visit: Visit, title: str) -> Reply:
    lines = ["Thank you. There is nothing more to do."]
    return visit.page("told.html", title, lines=lines, is_done=True)


async def show_verified(visit: Visit) -> Reply:
    return _done(visit, "Your e-mail is verified")


def _link_made(visit: Visit, sent: str) -> str:
    """The notice `sent`, or that the link is on the server if it sends no mail."""
    return sent if visit.env.has_mail_server else "link-written"


async def send_verification(visit: Visit) -> Reply:
    if visit.user.email_verified_at is not None:  # verified in another window
        return visit.go("/profile", done="verified-before")
    await ask_verification(visit.env, visit.user, visit.request.by)
    return visit.go("/profile", done=_link_made(visit, "verification-sent"))


async def show_email(visit: Visit) -> Reply:
    return visit.page("own_change.html", "Change e-mail", what="email")


async def change_email(visit: Visit) -> Reply:
    form = visit.form
    address = form.read("email", lambda text: another_email(visit.user, text.strip()))
    current = form.read("current_password", str)
    form.check()
    await ask_new_email(visit.env, visit.user, address, current, visit.request.by)
    return visit.go("/profile", done=_link_made(visit, "email-asked"))


async def show_new_email(visit: Visit) -> Reply:
    """GET /new-email: asks for confirmation."""
    return await _of_link(visit, "Confirm your new e-mail", NEW_EMAIL)


async def new_email(visit: Visit) -> Reply:
    is_verified = await take_new_email(visit.env, visit.sent("token"), visit.request.by)
    return visit.go("/verified" if is_verified else "/new-email/taken")


async def show_taken(visit: Visit) -> Reply:
    """GET /new-email/taken. It names no address, since no link proves whose it is."""
    return _done(visit, "Your e-mail has changed")


PAGES = (
    PageRoute("GET", "/forgot", show_forgot, Access.ANYONE),
    PageRoute("POST", "/forgot", forgot, Access.ANYONE),
    PageRoute("GET", "/forgot/sent", show_sent, Access.ANYONE),
    PageRoute("GET", "/reset", show_reset, Access.ANYONE),
    PageRoute("POST", "/reset", reset, Access.ANYONE),
    PageRoute("GET", "/verify", show_verify, Access.ANYONE),
    PageRoute("POST", "/verify", verify, Access.ANYONE),
    PageRoute("GET", "/verified", show_verified, Access.ANYONE),
    PageRoute("POST", "/profile/verification", send_verification),
    PageRoute("GET", "/email", show_email),
    PageRoute("POST", "/email", change_email),
    PageRoute("GET", "/new-email", show_new_email, Access.ANYONE),
    PageRoute("POST", "/new-email", new_email, Access.ANYONE),
    PageRoute("GET", "/new-email/taken", show_taken, Access.ANYONE),
    PageRoute("GET", "/profile", show),
    PageRoute("POST", "/profile", change),
    PageRoute("GET", "/password", show_password),
    PageRoute("POST", "/password", change_password),
)
