"""Connects commands to an installation that `portico init` or `portico serve` has prepared."""

import asyncio
import os
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from portico.app import Portico
from portico.cli.lock import holder
from portico.cli.output import CommandError
from portico.cli.stopping import ENDING_SECONDS, shielded
from portico.core.errors import Unavailable
from portico.data.migrate import pending, shipped
from portico.environment import Environment
from portico.features.access.signing import opens, wrong_secret
from portico.features.access.storage import SigningKey, SigningKeys
from portico.features.events.storage import Events
from portico.features.mail.sending import SendMails
from portico.features.mail.storage import Mails
from portico.lost import is_prepared
from portico.secret_file import Secrets, found_secrets, has_secret_file, installation_secrets
from portico.settings import Settings

T = TypeVar("T")


@asynccontextmanager
async def prepared(settings: Settings, *, any_secret: bool = False) -> AsyncIterator[Portico]:
    """Both environments, connected. Creates and migrates nothing.

    Raises `CommandError` if nothing is prepared, or migrations are pending. Unless `any_secret`,
    encrypting something raises `Unavailable` if the signing keys are under another secret.
    """
    if not is_prepared(settings):
        raise unprepared(settings)
    keys: list[SigningKey] = []
    secrets = None if any_secret else partial(_secrets, settings, keys)
    portico = Portico(settings, secrets=secrets)
    await portico.connect()
    try:
        for env in portico.environments:
            due = await pending(env.db)
            if len(due) == len(shipped(env.db.engine)):
                raise unprepared(settings)
            if due:
                raise CommandError(
                    "The database is older than this program: run portico migrate first."
                )
        keys += await portico.live[SigningKeys].all()
        heard = {env: env[Mails].signal.listener() for env in portico.environments}
        yield portico
        # The work is stored. A running server sends the mails within seconds. Only without one are
        # they sent here: a slow mail server could hold this up until the user interrupts it, and
        # then the mail would be sent twice.
        with suppress(Unavailable):
            for env, signal in heard.items():
                if await signal.wait(0) and holder(settings.data) is None:
                    await SendMails(env).flush()
            for env in portico.environments:
                await env[Events].number()
    finally:
        await portico.close()


@asynccontextmanager
async def environment(settings: Settings, chosen: Namespace) -> AsyncIterator[Environment]:
    """The environment that a command works on: the sandbox with `--sandbox`, otherwise live. Raises
    `CommandError` as `prepared` does."""
    async with prepared(settings) as portico:
        yield portico.sandbox if chosen.sandbox else portico.live


def in_environment(
    settings: Settings,
    chosen: Namespace,
    work: Callable[[Environment], Coroutine[Any, Any, T]],
    *,
    seconds: float = ENDING_SECONDS,
) -> T:
    """Runs `work` on the chosen environment and returns its result. After a signal it still returns
    the result, which may hold a secret that is shown once, if `work` ends within `seconds`."""
    made: list[T] = []

    async def act() -> None:
        async with environment(settings, chosen) as env:
            await shielded(work(env), made, seconds=seconds)

    try:
        asyncio.run(act())
    except KeyboardInterrupt:
        if not made:
            raise
    return made[0]


def interruptible(
    settings: Settings, chosen: Namespace, work: Callable[[Environment], Coroutine[Any, Any, T]]
) -> T:
    """As `in_environment`, but a signal ends `work` at once."""

    async def act() -> T:
        async with environment(settings, chosen) as env:
            return await work(env)

    return asyncio.run(act())


def in_both(
    settings: Settings,
    work: Callable[[Portico], Coroutine[Any, Any, T]],
    *,
    any_secret: bool = False,
) -> T:
    """Runs `work` on both environments and returns its result; `any_secret` as in `prepared`."""

    async def act() -> T:
        async with prepared(settings, any_secret=any_secret) as portico:
            return await work(portico)

    return asyncio.run(act())


def _secrets(settings: Settings, keys: list[SigningKey]) -> Secrets:
    """The installation's secrets. Raises `Unavailable` if none of them decrypts the private keys:
    no server could read what a command encrypts with another secret. Raises `CommandError` if this
    host has no secret, other hosts that share the database may have one, and none of them has
    created a key yet."""
    secrets = found_secrets(settings)
    if not keys:
        if secrets is None and settings.database_url is not None:
            raise unprepared(settings)
        return installation_secrets(settings, os.urandom)
    if secrets is None or not opens(secrets, keys):
        raise wrong_secret()
    return secrets


def unprepared(settings: Settings) -> CommandError:
    """The error for settings that lead to no prepared databases."""
    if settings.database_url is not None:
        return CommandError("The database is not prepared: run portico init or portico serve.")
    is_lost = has_secret_file(settings)
    then = "If it is lost, restore a backup." if is_lost else "To create one, run portico init."
    return CommandError(
        f"There is no Portico in {settings.data}: run this with its server's settings (portico.toml"
        f" and PORTICO_ variables), or if it has none, name its directory with --data. {then}"
    )
