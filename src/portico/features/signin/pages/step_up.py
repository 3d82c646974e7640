"""Step-up: forms that need a recent proof of identity. A page asks for it and resumes the form."""

from functools import wraps

from portico.core.errors import AuthenticationRequired, Conflict, Invalid, RateLimited, Unavailable
from portico.features.signin.passkeys import request_options
from portico.features.signin.sessions import (
    ask_proof,
    is_fresh,
    prove_by_passkey,
    prove_by_password,
    read_session,
)
from portico.features.signin.storage import FactorStore, Sessions
from portico.web.messages import Reply
from portico.web.pages.site import ONCE, Handler, Visit
from portico.web.problems import problem

TOKEN = "step_up"  # noqa: S105 - the name of a field
PASSWORD = "current_password"  # noqa: S105 - the name of a field
CANCEL = "step_up_cancel"
PASSKEY = "step_up_passkey"
"""Not `credential`: the form that waits may have a field of that name."""


def fresh(handler: Handler) -> Handler:
    """Run a handler only if the user has proved their identity in the last 15 minutes. Otherwise
    a page that carries the form asks for the proof, and the form is then handled once."""

    @wraps(handler)
    async def proved(visit: Visit) -> Reply:
        return await question(visit) or await handler(visit)

    return proved


async def question(visit: Visit) -> Reply | None:
    """The page that asks for the proof; None if it is recent or came with the form. Raises
    `Conflict` if the user cancels, so that the form's page is shown again."""
    env, by, form = visit.site.accounts.environment, visit.request.by, visit.form
    session = await read_session(env, visit.session_id)
    token = form.text(TOKEN)
    if form.has(CANCEL):
        raise Conflict("You cancelled, so nothing was changed.")
    if not token:
        if is_fresh(session, visit.request.now):
            return None
        return await _page(visit, await ask_proof(env, session, by), 200)
    answer = form.text(PASSKEY)
    try:
        if answer:
            await prove_by_passkey(env, visit.user, session, token, answer, by)
        else:
            await prove_by_password(env, visit.user, session, token, form.text(PASSWORD), by)
    except Conflict:
        # The same form was sent before, perhaps while this one was under way. A form with a key
        # goes on, and gets the reply of the first.
        present = await env[Sessions].get(visit.session_id)
        if not form.text(ONCE) or present is None or not is_fresh(present, env.clock()):
            raise
    except (Invalid, AuthenticationRequired, RateLimited, Unavailable) as error:
        form.refuse(error)
        status = problem(error).status
        reply = await _page(visit, token, 422 if status == 401 else status)
        reply.headers += [one for one in problem(error).headers if one[0] == "retry-after"]
        return reply
    return None


async def _page(visit: Visit, token: str, status: int) -> Reply:
    env = visit.site.accounts.environment
    factors = await env[FactorStore].of_user(visit.user.id)
    return visit.page(
        "step_up.html",
        "Confirm that it is you",
        status=status,
        action=visit.request.path,
        token=token,
        passkey_options=request_options(env, visit.site.origin) if factors.passkeys else "",
        fields=visit.form.pairs(but=("csrf", TOKEN, PASSWORD, PASSKEY, CANCEL)),
    )
