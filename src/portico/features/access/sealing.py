"""Everything in the database that is encrypted under the installation's secret, and reencrypting it
after the secret was replaced."""

from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

from portico.change import Change
from portico.core.audit import Author
from portico.data.database import Database
from portico.data.vault import Vault
from portico.environment import Environment
from portico.features.events import webhooks
from portico.features.mail import letters
from portico.features.signin import second_factor
from portico.features.signin.rules import Reencrypted

BATCH = 500


class Column(NamedTuple):
    """An encrypted column; `sealed_as` makes the seal's name from the value in the column
    `named_by`."""

    table: str
    column: str
    sealed_as: Callable[[Any], str]
    named_by: str = "id"


COLUMNS = (
    Column("signing_keys", "private_key", str, named_by="kid"),
    Column("webhooks", "secret", lambda _: webhooks.SEALED_AS),
    Column("webhooks", "former_secret", lambda _: webhooks.SEALED_AS),
    Column("authenticators", "secret", second_factor.sealed_as, named_by="user_id"),
    Column("mails", "content", lambda _: letters.SEALED_AS),
)


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
    """All values of a column, oldest first, at most `BATCH` at a time."""
    sql = f"""
SELECT id, {where.named_by}, {where.column} FROM {where.table}
WHERE id > :after AND {where.column} IS NOT NULL ORDER BY id LIMIT {BATCH}"""
    after = 0
    while rows := await db.slow.all(sql, {"after": after}):
        yield [
            Sealed(row_id, sealed, vault.reseal(sealed, where.sealed_as(named_by)))
            for row_id, named_by, sealed in rows
        ]
        after = rows[-1][0]


async def reencrypt(
    env: Environment, by: Author, passed: Callable[[int], object]
) -> tuple[dict[str, int], int]:
    """Encrypts under the present secret what is encrypted under a former one. Servers may keep
    running; it can be interrupted at any time and run again. Calls `passed` with the number of
    values of each batch. Returns how many of each table it reencrypted, and how many no secret of
    this host can decrypt. Raises `Unavailable`."""
    done = dict.fromkeys((where.table for where in COLUMNS), 0)
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


async def _store(env: Environment, by: Author, where: Column, behind: list[dict[str, Any]]) -> None:
    """Replaces `before` by `sealed` in the row with this `id`, unless the value was changed or
    removed meanwhile."""
    sql = f"""
UPDATE {where.table} SET {where.column} = :sealed WHERE id = :id AND {where.column} = :before"""

    async def work(change: Change) -> None:
        await change.tx.run_many(sql, behind)
        change.note(Reencrypted({where.table: len(behind)}))

    await env.change(by, work)
