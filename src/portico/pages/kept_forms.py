"""Forms that are sent after their session has ended. They are kept until the sender has signed in
again; the form's page is then shown with the same values, to that sender only.

The form's CSRF token says whose session it belongs to. Passwords and codes are not kept.
"""

from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec

from portico.domain.caller import Principal
from portico.domain.errors import (
    Conflict,
    NotFound,
    PayloadTooLarge,
    Unreadable,
    UnsupportedMediaType,
)
from portico.http.messages import Request
from portico.http.routing import Endpoint, PathMatch
from portico.pages.forms import PASSWORDS, Form, read_form
from portico.pages.site import Site, sender_of
from portico.pages.step_up import PASSKEY, TOKEN
from portico.services.shown_once import keep_form, take_form

KEPT = "kept"
"""The query parameter with the token of the kept form."""

MAX_BYTES = 65_536

_NOT_KEPT = ("csrf", KEPT, "otp", "credential", TOKEN, PASSKEY, *PASSWORDS)
_BACK = "You are signed in again, and nothing was sent yet. Check what you filled in, then send it."
_GONE = (
    "What you filled in before you signed in is no longer available: it is kept for one hour, and"
    " comes back once."
)


class _Kept(msgspec.Struct):
    path: str
    sent: list[tuple[str, str]]
    typed: list[str]


async def keep(
    site: Site, request: Request, match: PathMatch, endpoint: Endpoint, form: Form | None = None
) -> str | None:
    """Store the form of a request without a session, and return the address that shows it again.
    `form` is that form if it was read already. Returns None if it cannot be kept: no page shows it,
    it holds a file, it is too large, or no page of ours sent it."""
    if "GET" not in match.methods or endpoint.route.file_bytes or not site.dashboards:
        return None
    accounts = site.accounts
    try:
        if form is None:
            form = read_form(request.header("content-type"), await request.read_body(MAX_BYTES))
        sender = sender_of(form, accounts)
        if sender is None:
            return None
        kept = _Kept(
            request.path,
            form.pairs(but=_NOT_KEPT),
            [name for name in PASSWORDS if form.text(name)],
        )
        text = msgspec.json.encode(kept)
        if len(text) > MAX_BYTES:
            return None
        token = await keep_form(accounts.environment, sender, text, request.by)
    except (Conflict, NotFound, PayloadTooLarge, Unreadable, UnsupportedMediaType):
        return None
    return f"{request.path}?{urlencode([*_query(request), (KEPT, token)])}"


async def come_back(site: Site, request: Request, caller: Principal) -> Form:
    """The form that a page starts with: the kept one that the query names, or else an empty one."""
    token = dict(parse_qsl(request.query_string)).get(KEPT, "")
    if not token or request.method != "GET":
        return Form()
    env = site.accounts.environment
    text = await take_form(env, caller.user_id, token, request.by)
    kept = None if text is None else msgspec.json.decode(text, type=_Kept)
    if kept is None or kept.path != request.path:
        return Form().say(_GONE)
    sent: dict[str, list[str]] = {}
    for name, value in kept.sent:
        sent.setdefault(name, []).append(value)
    return shown_again(Form(sent | {name: [""] for name in kept.typed}, typed=kept.typed))


def shown_again(form: Form) -> Form:
    """The form, with the message that its sender has signed in again."""
    return form.say(_BACK)


def _query(request: Request) -> list[tuple[Any, Any]]:
    return [(name, value) for name, value in parse_qsl(request.query_string) if name != KEPT]
