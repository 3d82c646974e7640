"""What holds for every link that is mailed or handed over: its life, one use, and its kind."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest

from driving import Api
from mail.conftest import Post
from portico.core.audit import OPERATOR, Actor, Author
from portico.core.errors import Invalid
from portico.core.times import DAY, HOUR
from portico.features.events.audit import Audit, AuditFilter
from portico.features.people.invitations import accept, ask_sign_up, invite
from portico.features.people.passwords import Passwords
from portico.features.people.recovery import (
    ask_new_email,
    ask_reset,
    ask_verification,
    give_reset,
    reset_password,
    take_new_email,
    verify_email,
)
from portico.features.people.storage import Users
from signing_in import PASSWORD

BY = Author(Actor(address="192.0.2.7", request_id="req_1"))
CHOSEN = "Chang3dWord"


async def mailed_reset(api: Api, post: Post, email: str) -> str:
    await api.account(email=email)
    await ask_reset(api.live, email, BY)
    return await post.token()


async def handed_over_reset(api: Api, _post: Post, email: str) -> str:
    user = await api.account(email=email)
    return (await give_reset(api.live, user.id, OPERATOR)).link.partition("?token=")[2]


async def verification(api: Api, post: Post, email: str) -> str:
    await ask_verification(api.live, await api.account(email=email), BY)
    return await post.token()


async def new_email(api: Api, post: Post, email: str) -> str:
    user = await api.account(password=PASSWORD)
    await ask_new_email(api.live, user, email, PASSWORD, BY)
    return await post.token()


async def sign_up(api: Api, post: Post, email: str) -> str:
    await ask_sign_up(api.live, email, BY)
    return await post.token()


async def invitation(api: Api, _post: Post, email: str) -> str:
    made = await invite(
        api.live, email=email, role="editor", plan="pro", handed_over=True, by=OPERATOR
    )
    return made.link.partition("?token=")[2]


async def use_reset(api: Api, token: str, password: str) -> None:
    await reset_password(api.live, token, password, BY)


async def use_verification(api: Api, token: str, _password: str) -> None:
    await verify_email(api.live, token, BY)


async def use_new_email(api: Api, token: str, _password: str) -> None:
    await take_new_email(api.live, token, BY)


async def use_invitation(api: Api, token: str, password: str) -> None:
    await accept(api.live, token, name="Ada King", password=password, by=BY)


Use = Callable[[Api, str, str], Awaitable[None]]


class Kind(NamedTuple):
    """How a link of a kind is asked for and used, how long it holds, and what its use notes."""

    ask: Callable[[Api, Post, str], Awaitable[str]]
    use: Use
    life: int
    action: str


KINDS = [
    Kind(mailed_reset, use_reset, HOUR, "password.reset"),
    Kind(handed_over_reset, use_reset, DAY, "password.reset"),
    Kind(verification, use_verification, DAY, "email.verified"),
    Kind(new_email, use_new_email, DAY, "user.updated"),
    Kind(sign_up, use_invitation, DAY, "invitation.accepted"),
    Kind(invitation, use_invitation, 7 * DAY, "invitation.accepted"),
]
USES: set[Use] = {kind.use for kind in KINDS}

kinds = pytest.mark.parametrize("kind", KINDS, ids=[kind.ask.__name__ for kind in KINDS])


@pytest.fixture(autouse=True)
def open_to_all(api: Api) -> None:
    api.live.sign_up_role = "viewer"


async def assert_useless(api: Api, use: Use, token: str) -> None:
    """Asserts that a link is refused and changes nothing."""
    async with api.unchanged():
        with pytest.raises(Invalid, match="ask for a new one"):
            await use(api, token, CHOSEN)


async def uses(api: Api, kind: Kind) -> int:
    """How many uses of links the audit log has."""
    return len(await api.live[Audit].page(AuditFilter(action=kind.action), limit=100))


@pytest.mark.one_engine
@kinds
async def test_link_holds_for_its_life_and_not_longer(api: Api, post: Post, kind: Kind) -> None:
    early = await kind.ask(api, post, "early@example.com")
    late = await kind.ask(api, post, "late@example.com")
    api.clock.advance(milliseconds=kind.life - 1)
    await kind.use(api, early, CHOSEN)
    assert await uses(api, kind) == 1
    api.clock.advance(milliseconds=1)
    await api.portico.passwords.close()  # what has expired, or never was, is not even hashed
    for token in (late, "", "t" * 43, "ü" * 43):
        await assert_useless(api, kind.use, token)


@pytest.mark.one_engine
@kinds
async def test_token_of_a_link_is_stored_and_logged_nowhere_in_clear(
    api: Api, post: Post, caplog: pytest.LogCaptureFixture, kind: Kind
) -> None:
    caplog.set_level(logging.DEBUG)
    token = await kind.ask(api, post, "ada@example.com")
    assert len(token) == 43
    held = str(await api.state())
    await kind.use(api, token, CHOSEN)
    held += str(await api.state()) + caplog.text
    for secret in (token, token[:20], CHOSEN):
        assert secret not in held


@kinds
async def test_link_of_many_uses_at_once_works_once(
    api: Api, post: Post, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.leave_turns(monkeypatch)
    token = await kind.ask(api, post, "ada@example.com")
    passwords = [f"Chang3dWord{number}" for number in range(12)]
    results = await asyncio.gather(
        *(kind.use(api, token, password) for password in passwords), return_exceptions=True
    )
    (won,) = [number for number, result in enumerate(results) if result is None]
    assert sum(isinstance(result, Invalid) for result in results) == 11
    assert await uses(api, kind) == 1
    user = await api.live[Users].by_email("ada@example.com")
    assert user is not None
    if kind.use in (use_reset, use_invitation):
        assert user.password_hash is not None
        assert await api.live[Passwords].verify(passwords[won], user.password_hash)
    await assert_useless(api, kind.use, token)


@pytest.mark.one_engine
@kinds
async def test_link_of_another_kind_is_refused(api: Api, post: Post, kind: Kind) -> None:
    token = await kind.ask(api, post, "ada@example.com")
    for use in USES - {kind.use}:
        await assert_useless(api, use, token)
    await kind.use(api, token, CHOSEN)
