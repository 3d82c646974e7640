"""Finds the users whom an operator or a filter names by e-mail or id."""

from portico.domain.ids import whole_number
from portico.domain.users import typed_email
from portico.services.environment import Environment
from portico.storage.audit import Audit
from portico.storage.users import Users


async def named_user(env: Environment, who: str) -> int | None:
    """The id that `who` is, or that of the user with the e-mail `who`; None if nobody has it."""
    if (number := whole_number(who)) is not None:
        return number
    user = await env[Users].by_email(typed_email(who))
    return user.id if user else None


async def accounts_named(env: Environment, who: str) -> frozenset[int]:
    """The ids of all users who have or had this e-mail, including deleted ones, or the id itself.
    Empty if nobody ever had it."""
    user_id = await named_user(env, who)
    now = frozenset() if user_id is None else frozenset({user_id})
    email = typed_email(who)
    return now | await env[Audit].had_email(email) if "@" in email else now
