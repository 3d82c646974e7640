"""Whom entries name while somebody signs in or comes by a link in a browser in which another
account is signed in: never that account or its session."""

import re
from collections.abc import Awaitable
from dataclasses import replace

import pytest

from audit.conftest import last
from driving import Api
from mail.conftest import Post, words
from owned import sessions_of
from pages.visiting import PASSWORD, Visitor, said, signed_in
from portico.core.audit import OPERATOR
from portico.environment import Environment
from portico.features.events.audit import Audit
from portico.features.people.invitations import invite
from portico.features.people.recovery import ask_new_email, ask_reset, ask_verification
from portico.features.people.storage import Users
from portico.features.people.users import read_user
from second_factor import CODES, KEY, code_of, factored

pytestmark = pytest.mark.one_engine

NOBODY = (None, None)
CHOSEN = "Zanzibar-77x"

Told = tuple[str, int | None, str | None, str, int | None]


async def told(env: Environment, since: int) -> list[Told]:
    """Action and actor of the entries since one, oldest first."""
    page = [entry for entry in await env[Audit].page(limit=100) if entry.id > since]
    return [
        (one.action, one.user_id, one.email, one.credential, one.credential_id)
        for one in reversed(page)
    ]


async def sign_in(browser: Visitor, email: str, password: str = PASSWORD) -> None:
    await browser.send("/sign-in", {"email": email, "password": password})


async def test_a_refused_sign_in_names_nobody(api: Api) -> None:
    _, browser = await signed_in(api, "admin")
    other = await factored(api, password=PASSWORD)
    since = await last(api.live)
    await sign_in(browser, other.email, "Wrong-1")
    await sign_in(browser, "nobody@example.com", "Wrong-1")
    await sign_in(browser, other.email)
    await browser.send("/sign-in/code", {"otp": "000000"})
    assert await told(api.live, since) == [
        ("sign_in.refused", *NOBODY, "password", None),
        ("sign_in.refused", *NOBODY, "password", None),
        ("second_factor.asked", *NOBODY, "password", None),
        ("second_factor.refused", *NOBODY, "password", None),
    ]


async def test_who_signs_in_uses_the_recovery_code_and_ends_the_browsers_session(api: Api) -> None:
    _, browser = await signed_in(api, "admin")
    other = await factored(api, password=PASSWORD)
    await sign_in(browser, other.email)
    since = await last(api.live)
    done = await browser.send("/sign-in/code", {"otp": CODES[0]})
    assert done.status_code == 303, said(done)
    (session,) = await sessions_of(api.live, other.id, api.clock())
    who = (other.id, other.email)
    assert await told(api.live, since) == [
        ("recovery_code.used", *who, "password", None),
        ("session.revoked", *who, "password", None),
        ("sign_in", *who, "session", session.id),
    ]


async def test_who_must_set_up_an_app_to_sign_in_is_named_and_not_told_of_an_administrator(
    api: Api,
) -> None:
    _, browser = await signed_in(api, "admin")
    other = await api.account("viewer", password=PASSWORD)
    api.live.settings = replace(api.live.settings, require_second_factor="all")
    await sign_in(browser, other.email)
    page = await browser.get("/sign-in/code")
    fields = dict(re.findall(r'name="(secret|next)" value="(.*?)"', page.text))
    key = re.search(r"secret=([A-Z2-7]{32})&", page.text)
    assert key
    assert key[1] != KEY
    since = await last(api.live)
    otp = code_of(api, key=key[1])
    done = await browser.send("/sign-in/code", {**fields, "name": "Phone", "otp": otp})
    assert done.status_code == 303, said(done)
    assert (await told(api.live, since))[0] == (
        *("factor.added", other.id, other.email, "password", None),
    )
    mails = [words(message) for message in await Post(api).new() if message["To"] == other.email]
    (text,) = (text for text in mails if "app Phone was added" in text)
    assert "added to your account from the IP address 127.0.0.1" in text


async def test_who_opens_a_link_from_a_mail_is_its_account(api: Api) -> None:
    _, browser = await signed_in(api, "admin")
    other = await api.account("viewer", password=PASSWORD)
    post, since = Post(api), await last(api.live)

    async def opened(path: str, asking: Awaitable[None], **fields: str) -> Told:
        await asking
        token = await post.token()
        done = await browser.send(path, {"token": token, **fields})
        assert done.status_code == 303, done.text
        return (await told(api.live, since))[-1]

    who = (other.id, other.email, "none", None)
    asking = ask_verification(api.live, other, OPERATOR)
    assert await opened("/verify", asking) == ("email.verified", *who)
    asking = ask_reset(api.live, other.email, OPERATOR)
    reset = await opened("/reset", asking, password=CHOSEN)
    assert reset == ("password.reset", *who)
    changed = await read_user(api.live, other.id)
    asking = ask_new_email(api.live, changed, "new@example.com", CHOSEN, OPERATOR)
    assert await opened("/new-email", asking) == ("user.updated", *who)


async def test_who_takes_an_invitation_joins_by_its_link_alone(api: Api) -> None:
    _, browser = await signed_in(api, "admin")
    made = await invite(
        api.live,
        email="grace@example.com",
        role="viewer",
        plan="free",
        handed_over=True,
        by=OPERATOR,
    )
    since = await last(api.live)
    token = made.link.partition("?token=")[2]
    await browser.send("/invitation", {"token": token, "name": "Grace", "password": CHOSEN})
    joined = await api.live[Users].by_email("grace@example.com")
    assert joined is not None
    who = (joined.id, joined.email, "none", None)
    assert await told(api.live, since) == [
        ("invitation.accepted", *who),
        ("user.created", *who),
    ]
