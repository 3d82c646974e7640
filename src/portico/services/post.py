"""Mails that wait in the database until they are sent.

A mail is stored in the transaction of the change that it reports, so that neither exists without
the other. It may contain a link that gives access to an account, so it is encrypted under the
installation's secret. Where an answer must not reveal whether an account exists, a request for the
mail (`Ask`) is stored first, and the mail is written later.
"""

from typing import Literal

import msgspec

from portico.domain.audit import Actor, By
from portico.domain.errors import Conflict, Unavailable
from portico.mail.protocol import Letter
from portico.services.allowances import MAILS, take_hourly
from portico.services.change import Change
from portico.services.environment import Environment
from portico.services.vault import Vault
from portico.state.callers import Caller
from portico.storage.mails import Mail, Mails

QUEUE = 10_000
"""How many mails of an environment may wait at once."""

SEALED_AS = "mail"


class TooMany(Unavailable):
    """Too many mails wait."""

    def __init__(self) -> None:
        super().__init__("Too many mails are waiting to be sent.", retry_after=60)


class WrittenBefore(Conflict):
    """Another process has already written the letter that was asked for."""

    def __init__(self) -> None:
        super().__init__("This letter was written before.")


class Ask(msgspec.Struct, frozen=True):
    """A request for a mail to an address. Whether and what is written depends on its account, and
    is decided later. `language` is the language tag of the request's sender."""

    purpose: Literal["reset", "sign-up"]
    email: str
    by: Actor
    language: str = ""


class WaitingMail(msgspec.Struct, frozen=True):
    """A waiting row: a letter, or a request for one. `purpose` names it in the log. `until` is when
    the link in the letter expires (epoch milliseconds)."""

    purpose: str
    letter: Letter | None = None
    ask: Ask | None = None
    until: int | None = None


async def admit(env: Environment, whose: Caller, place: Mail | None) -> None:
    """Counts a mail that was asked for against the hourly limit. Of the `Ask` in this `place` only
    the first attempt counts, so that a retry is not refused. Raises `RateLimited` and
    `Unavailable`."""
    if place is None or place.attempts <= 1:
        await take_hourly(env, whose, MAILS, "mails")


async def post(
    env: Environment, change: Change, waiting: WaitingMail, place: Mail | None = None
) -> None:
    """Stores a mail, to be sent once the change is committed; it replaces the `Ask` in this
    `place`, if given. Raises `TooMany` and `WrittenBefore`."""
    sealed = env[Vault].seal(msgspec.json.encode(waiting), SEALED_AS)
    if place is not None:
        if not await env[Mails].remove(change.tx, place.id):
            raise WrittenBefore
    elif await env[Mails].count(change.tx, QUEUE) >= QUEUE:
        raise TooMany
    await env[Mails].add(change.tx, sealed, change.now)
    change.posted = True


async def ask(env: Environment, asked: Ask) -> None:
    """Stores a request for a mail. Raises `TooMany`."""

    async def work(change: Change) -> None:
        await post(env, change, WaitingMail(asked.purpose, ask=asked))
        change.noted_elsewhere()  # when the mail is written

    await env.change(By(asked.by), work)


def decrypted(env: Environment, sealed: bytes) -> WaitingMail | None:
    """A waiting row's content; None if another secret sealed it or a newer release wrote it."""
    content = env[Vault].open(sealed, SEALED_AS)
    try:
        return None if content is None else msgspec.json.decode(content, type=WaitingMail)
    except msgspec.ValidationError:
        return None
