"""What people do who cannot sign in, and where the links in mails lead."""

from portico.domain.users import email, password
from portico.http.messages import Reply
from portico.http.routing import Access
from portico.pages.site import PageRoute, Visit
from portico.services.recovery import (
    ask_new_email,
    ask_reset,
    ask_verification,
    reset_password,
    take_new_email,
    verify_email,
)


async def show_forgot(visit: Visit) -> Reply:
    """GET /forgot."""
    has_mail = visit.env.has_mail_server
    return visit.page("forgot.html", "Forgot your password?", has_mail_server=has_mail)


async def forgot(visit: Visit) -> Reply:
    """POST /forgot: one answer, whoever it is."""
    address = visit.form.read("email", str.strip)
    visit.form.check()
    await ask_reset(visit.env, address, visit.request.by)
    return visit.go("/forgot/sent")


async def show_sent(visit: Visit) -> Reply:
    """GET /forgot/sent."""
    has_mail = visit.env.has_mail_server
    title = "Look into your mail" if has_mail else "Ask whoever runs this server"
    return visit.page("sent.html", title, has_mail_server=has_mail)


async def show_reset(visit: Visit) -> Reply:
    """GET /reset."""
    return visit.page(
        "reset.html", "Choose a new password", private_address=True, token=visit.sent("token")
    )


async def reset(visit: Visit) -> Reply:
    """POST /reset."""
    chosen = visit.form.read("password", password)
    visit.form.check()
    await reset_password(visit.env, visit.sent("token"), chosen, visit.request.by)
    return visit.go("/sign-in", done="password-reset")


async def show_verify(visit: Visit) -> Reply:
    """GET /verify: asks first, because programs that look through mail follow links."""
    return visit.page(
        "verify.html", "Verify your address", private_address=True, token=visit.sent("token")
    )


async def verify(visit: Visit) -> Reply:
    """POST /verify."""
    await verify_email(visit.env, visit.sent("token"), visit.request.by)
    return visit.go("/verified")


async def show_verified(visit: Visit) -> Reply:
    """GET /verified."""
    return visit.page("verified.html", "Your address is verified")


async def send_verification(visit: Visit) -> Reply:
    """POST /profile/verification."""
    if visit.user.email_verified_at is None:
        await ask_verification(visit.env, visit.user, visit.request.by)
    return visit.go("/profile", done="verification-sent")


async def show_email(visit: Visit) -> Reply:
    """GET /email."""
    return visit.page("email.html", "Change e-mail")


async def change_email(visit: Visit) -> Reply:
    """POST /email."""
    form = visit.form
    address = form.read("email", lambda text: email(text.strip()))
    current = form.read("current_password", str)
    form.check()
    await ask_new_email(visit.env, visit.user, address, current, visit.request.by)
    return visit.go("/profile", done="email-asked")


async def show_new_email(visit: Visit) -> Reply:
    """GET /new-email: asks first, as `show_verify` does."""
    return visit.page(
        "new_email.html", "Your new address", private_address=True, token=visit.sent("token")
    )


async def new_email(visit: Visit) -> Reply:
    """POST /new-email."""
    await take_new_email(visit.env, visit.sent("token"), visit.request.by)
    return visit.go("/verified")


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
)
