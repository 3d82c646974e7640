"""Everything in the database that is encrypted under the installation's secret, and reencrypting it
after the secret was replaced."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, NamedTuple

from portico.domain.audit import By
from portico.domain.events.signing_in import Reencrypted
from portico.services import post, second_factor, webhooks
from portico.services.change import Change
from portico.services.environment import Environment
from portico.services.vault import Vault
from portico.storage.database import Database
from portico.storage.sealed import COLUMNS, Column, batches, replace

_SEALED_AS: Mapping[str, Callable[[Any], str]] = {
    "signing_keys": str,
    "webhooks": lambda _: webhooks.SEALED_AS,
    "authenticators": second_factor.sealed_as,
    "mails": lambda _: post.SEALED_AS,
}
"""For each table, the name that its values are sealed under."""


class Sealed(NamedTuple):
    """A row's sealed value, and the same under the present secret; None if no secret of this host
    can decrypt it."""

    id: int
    before: bytes
    sealed: bytes | None

    @property
    def is_behind(self) -> bool:
        """Whether a former secret has sealed it."""
        return self.sealed not in (None, self.before)


async def sealed_in(db: Database, vault: Vault, where: Column) -> AsyncIterator[list[Sealed]]:
    """All values of a column, oldest first, in batches."""
    sealed_as = _SEALED_AS[where.table]
    async for rows in batches(db, where):
        yield [
            Sealed(row_id, sealed, vault.reseal(sealed, sealed_as(named_by)))
            for row_id, named_by, sealed in rows
        ]


async def reencrypt(
    env: Environment, by: By, passed: Callable[[int], object]
) -> tuple[dict[str, int], int]:
    """Encrypts under the present secret what is encrypted under a former one. Servers may keep
    running; it can be interrupted at any time and run again. Calls `passed` with the number of
    values of each batch. Returns how many of each table it reencrypted, and how many no secret of
    this host can decrypt. Raises `Unavailable`."""
    done = dict.fromkeys(_SEALED_AS, 0)
    undecryptable = 0
    for where in COLUMNS:
        async for found in sealed_in(env.db, env[Vault], where):
            behind = [one._asdict() for one in found if one.is_behind]
            if behind:
                await _store(env, by, where, behind)
            done[where.table] += len(behind)
            undecryptable += sum(one.sealed is None for one in found)
            passed(len(found))
    return done, undecryptable


async def _store(env: Environment, by: By, where: Column, behind: list[dict[str, Any]]) -> None:
    async def work(change: Change) -> None:
        await replace(change.tx, where, behind)
        change.note(Reencrypted({where.table: len(behind)}))

    await env.change(by, work)
