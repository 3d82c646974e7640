"""Pages that set up an authenticator app, during sign-in or later: QR code and recovery codes."""

from typing import Any
from urllib.parse import urlsplit

import segno

from portico.domain.factors import app_address
from portico.domain.users import User
from portico.http.messages import Reply
from portico.pages.site import Visit
from portico.services.second_factor import offer_authenticator


def enrolment_page(visit: Visit, user: User, template_name: str, **context: Any) -> Reply:
    """The page where a user sets up an app. Shown again, it offers the same secret."""
    env = visit.site.accounts.environment
    offer = offer_authenticator(env, user.id, visit.form.text("secret"))
    address = app_address(offer.secret, user.email, env.settings.site_name)
    at = 4
    return visit.page(
        template_name,
        "Set up an authenticator app",
        sealed=offer.sealed,
        key=[offer.secret[i : i + at] for i in range(0, len(offer.secret), at)],
        address=address,
        image=_qr_code(address),
        **context,
    )


def recovery_codes_page(visit: Visit, user: User, codes: tuple[str, ...], target: str) -> Reply:
    """A user's new recovery codes, with a link on to `target`. Without codes, it says that the
    existing ones stay valid."""
    return visit.page(
        "recovery_codes.html",
        "Your recovery codes" if codes else "Your app is set up",
        email=user.email,
        host=urlsplit(visit.site.origin).netloc,
        codes=codes,
        target=target,
    )


def _qr_code(text: str) -> str:
    """A QR code as inline SVG."""
    return str(segno.make(text, error="m").svg_inline(scale=4, dark="#000", light="#fff"))
