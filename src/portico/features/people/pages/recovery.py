"""Pages for users who cannot sign in, and those that mailed links open."""

from portico.core.errors import Invalid
from portico.core.users import email, password
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
from portico.web.messages import Reply
from portico.web.pages.site import PageRoute, Visit
from portico.web.routing import Access


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
    return visit.page("email.html", "Change e-mail")


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
)
