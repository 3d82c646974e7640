"""The audit log, for admins."""

from urllib.parse import urlencode

from portico.http.messages import Reply
from portico.pages.site import PageRoute, Visit

_PER_PAGE = 50
_NOBODY = -1


async def named_user(visit: Visit, who: str) -> int | None:
    """The number of the user whom an e-mail or a number names; None where nobody has that
    e-mail."""
    if who.isascii() and who.isdigit() and len(who) < 19:
        return int(who)
    user = await visit.env.users.by_email(who)
    return user.id if user else None


async def _user_id(visit: Visit, who: str) -> int | None:
    """As `named_user`, with a number that nobody has for others; None where none is asked for."""
    if not who:
        return None
    number = await named_user(visit, who)
    return _NOBODY if number is None else number


async def show(visit: Visit) -> Reply:
    """GET /audit: the newest entries, or those older than `before`."""
    who, action = (visit.sent(name).strip() for name in ("user", "action"))
    before = visit.sent_number("before")
    entries = await visit.env.audit.page(
        before=before,
        user_id=await _user_id(visit, who),
        action=action or None,
        limit=_PER_PAGE + 1,
    )
    chosen = {"user": who, "action": action}
    shown = entries[:_PER_PAGE]
    older = urlencode({**chosen, "before": shown[-1].id}) if len(entries) > _PER_PAGE else ""
    return visit.page(
        "audit.html",
        "Audit log",
        entries=shown,
        who=who,
        action=action,
        actions=await visit.env.audit.actions(),
        before=before,
        newest=urlencode(chosen),
        older=older,
    )


PAGES = (PageRoute("GET", "/audit", show, "admin"),)
