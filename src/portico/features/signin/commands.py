"""`portico sessions`: lists and ends sessions and logins."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from portico.cli.arguments import LOGIN, SESSION, Commands, add_sandbox, session_id, text
from portico.cli.lazy import lazy_imports
from portico.cli.listing import ListForm, print_list
from portico.cli.output import CommandError, answer, minute, plain

if TYPE_CHECKING:
    from portico.core.sessions import Session
    from portico.environment import Environment
    from portico.features.access.storage import Grant
    from portico.settings import Settings

with lazy_imports():
    from portico.cli import prepared
    from portico.core import audit
    from portico.core import sessions as domain_sessions
    from portico.features.access import storage as access_storage
    from portico.features.people import accounts
    from portico.features.people import storage as people_storage
    from portico.features.signin import service as signin_service
    from portico.features.signin import storage as signin_storage
    from portico.web import envelope

_DETAILS = """\
A session belongs to a browser (a cookie), a login to a program that signed in with a password (an
access token and a refresh token)."""

_REVOKE = """\
It ends immediately. This cannot be undone. With --all, the account is signed out everywhere:
sessions and logins end, and OAuth clients lose access. API keys keep working."""

R = TypeVar("R", "Session", "Grant")


def add_to(commands: Commands) -> None:
    """Declares `portico sessions …`."""
    sessions = commands.noun("sessions", "list and end sessions and logins")
    listing = sessions.verb("list", run_list, "list who is signed in, newest first", _DETAILS)
    listing.add_argument("--owner", metavar="EMAIL", type=text, help="only this user's")
    add_sandbox(listing)
    revoke = sessions.verb("revoke", run_revoke, "end a session or a login", _REVOKE)
    revoke.add_argument(
        "id",
        metavar="ID",
        nargs="?",
        type=session_id,
        help="session-N or login-N from portico sessions list",
    )
    revoke.add_argument("--all", action="store_true", help="end all sessions and logins of --owner")
    revoke.add_argument(
        "--owner", metavar="EMAIL", type=text, help="user whose access ends, with --all"
    )
    add_sandbox(revoke)


class _SignedIn(NamedTuple):
    """An active session or login. `id` says which of the two."""

    id: str
    owner: str
    address: str
    user_agent: str
    created_at: int
    last_used_at: int
    expires_at: int


def run_list(settings: Settings, chosen: Namespace) -> None:
    print_list(settings, chosen, _LIST, partial(_found, chosen))


async def _found(chosen: Namespace, env: Environment) -> AsyncIterator[list[_SignedIn]]:
    now = env.clock()
    user_id = None if chosen.owner is None else (await accounts.account(env, chosen.owner)).id
    sessions = _owned(env, env[signin_storage.Sessions].batches(now, user_id), _session)
    logins = _owned(env, env[access_storage.Grants].logins(now, user_id), _login)
    async for each in _newest_first(sessions, logins):
        yield [each]


async def _owned(
    env: Environment, batches: AsyncIterator[list[R]], signed_in: Callable[[R, str], _SignedIn]
) -> AsyncIterator[_SignedIn]:
    async for batch in batches:
        emails = await env[people_storage.Users].emails({row.user_id for row in batch})
        for row in batch:
            yield signed_in(row, emails.get(row.user_id, ""))


async def _newest_first(*lists: AsyncIterator[_SignedIn]) -> AsyncIterator[_SignedIn]:
    """Merges lists that are newest first."""
    heads = [(head, rest) for rest in lists if (head := await anext(rest, None))]
    while heads:
        newest = max(heads, key=lambda each: each[0].created_at)
        heads.remove(newest)
        head, rest = newest
        yield head
        if following := await anext(rest, None):
            heads.append((following, rest))


def _session(row: Session, owner: str) -> _SignedIn:
    return _SignedIn(
        f"{SESSION}-{row.id}",
        owner,
        row.address,
        row.user_agent,
        row.created_at,
        row.last_seen_at,
        min(row.expires_at, domain_sessions.idle_end(row.last_seen_at)),
    )


def _login(row: Grant, owner: str) -> _SignedIn:
    return _SignedIn(
        f"{LOGIN}-{row.id}",
        owner,
        row.address,
        row.user_agent,
        row.created_at,
        row.last_used_at,
        row.expires_at,
    )


def _fact(each: _SignedIn) -> dict[str, Any]:
    times = ("created_at", "last_used_at", "expires_at")
    return each._asdict() | {name: envelope.timestamp(getattr(each, name)) for name in times}


def _cells(each: _SignedIn) -> Sequence[str]:
    return (
        each.id,
        plain(each.owner),
        each.address,
        minute(each.created_at),
        minute(each.last_used_at),
        minute(each.expires_at),
        plain(each.user_agent),
    )


_LIST = ListForm(
    _fact,
    ("ID", "OWNER", "ADDRESS", "SINCE", "LAST USED", "UNTIL", "WITH"),
    _cells,
    "Nobody is signed in.",
)


def run_revoke(settings: Settings, chosen: Namespace) -> None:
    if chosen.all:
        if chosen.owner is None or chosen.id is not None:
            raise CommandError("--all takes --owner EMAIL and no ID", 2)
        sessions, grants = prepared.in_environment(
            settings, chosen, lambda env: _end_all(env, chosen)
        )
        answer(
            {"owner": chosen.owner, "sessions": sessions, "grants": grants},
            f"{plain(chosen.owner)} is signed out everywhere.",
            as_json=chosen.json,
        )
        return
    if chosen.id is None or chosen.owner is not None:
        raise CommandError("name one ID, or an account with --all --owner EMAIL", 2)
    kind, row_id = chosen.id
    prepared.in_environment(settings, chosen, lambda env: _end(env, kind, row_id))
    name = f"{kind}-{row_id}"
    answer({"id": name}, f"{name} is ended.", as_json=chosen.json)


async def _end(env: Environment, kind: str, row_id: int) -> None:
    if kind == SESSION:
        await signin_service.end_session(env, row_id, audit.OPERATOR)
        return
    await signin_service.end_login(env, row_id, audit.OPERATOR)


async def _end_all(env: Environment, chosen: Namespace) -> tuple[int, int]:
    owner = await accounts.account(env, chosen.owner)
    return await signin_service.sign_out_everywhere(env, owner.id, audit.OPERATOR)
