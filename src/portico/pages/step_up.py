"""Forms that need a fresh proof of who sends them: it is asked for, and the form then goes on."""

from functools import wraps

from portico.domain.errors import Invalid, NotFound, RateLimited, Unavailable
from portico.http.messages import Reply
from portico.http.problems import problem
from portico.pages.site import Handler, Visit
from portico.services.step_up import ask_proof, is_fresh, prove_again

TOKEN = "step_up"  # noqa: S105 - the name of a field
PASSWORD = "current_password"  # noqa: S105 - the name of a field


def fresh(handler: Handler) -> Handler:
    """What a form does, once its sender has proved themselves in the last 15 minutes. Where that is
    longer ago, a page asks for it that carries the form, and carries it out once."""

    @wraps(handler)
    async def proved(visit: Visit) -> Reply:
        return await _question(visit) or await handler(visit)

    return proved


async def _question(visit: Visit) -> Reply | None:
    """The page that asks, unless the proof is fresh, or came with the form."""
    env, by, form = visit.site.accounts.environment, visit.request.by, visit.form
    session = await env.sessions.get(visit.session_id)
    if session is None:
        raise NotFound("This session has ended; sign in again.")
    token = form.text(TOKEN)
    if not token:
        if is_fresh(session, visit.request.now):
            return None
        return _page(visit, await ask_proof(env, session, by), 200)
    try:
        await prove_again(env, visit.user, session, token, form.text(PASSWORD), by)
    except (Invalid, RateLimited, Unavailable) as error:
        form.refuse(error)
        reply = _page(visit, token, problem(error).status)
        reply.headers += [one for one in problem(error).headers if one[0] == "retry-after"]
        return reply
    return None


def _page(visit: Visit, token: str, status: int) -> Reply:
    return visit.page(
        "step_up.html",
        "Is it you?",
        status=status,
        action=visit.request.path,
        token=token,
        fields=visit.form.pairs(but=("csrf", TOKEN, PASSWORD)),
    )
