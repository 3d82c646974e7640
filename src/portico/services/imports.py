"""Storing very many products beside a running server.

Products go in by batches, each in a transaction short enough that a server's own writes hardly
wait for it, and the writer is free while the next batch is made. All or nothing is another matter:
it takes one long transaction, for which other writers wait.
"""

import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from portico.domain.audit import By
from portico.domain.events.products import ProductsImported
from portico.domain.products import Product
from portico.domain.times import SECOND
from portico.services.change import Change
from portico.services.environment import Environment
from portico.services.products import new_product
from portico.storage.imports import UntoldImport

BATCH_ROWS = 2_000
BATCH_BYTES = 4 * 1024 * 1024
"""Of text, so that memory is bounded whatever the rows are like."""

IDLE_SECONDS = 60
"""After how long others tell of what an import has stored."""

IDLE_PERIOD = 10.0
"""How often they look."""

_EVER = 2**63 - 1


async def insert_in_batches(
    env: Environment, products: Iterable[dict[str, Any]], by: By
) -> AsyncGenerator[int, None]:
    """Stores products, given as values that their rules have passed; yields the size of every batch
    once it is on disk. What was yielded stays, whatever happens afterwards, and is noted at the
    end; where the process is killed before, `tell_of_idle` does it."""
    name = env.random(16).hex()
    now = env.clock()
    stored = False
    try:
        for batch in _batches(new_product(values, now) for values in products):
            await env.change(by, partial(_insert_part, env, name, batch))
            stored = True
            yield len(batch)
    finally:
        if stored:
            await env.change(by, partial(_tell, env, name, _EVER))


async def tell_of_idle(env: Environment) -> None:
    """Notes what imports have stored that stored nothing for a while: because they were killed, or
    wait for more. What these store later is noted by itself. Raises `Unavailable`."""
    at = env.clock() - IDLE_SECONDS * SECOND
    for idle in await env.imports.idle_since(at):
        await env.change(By(idle.actor), partial(_tell, env, idle.name, at))


async def _insert_part(env: Environment, name: str, batch: list[Product], change: Change) -> None:
    change.told_elsewhere()
    ids = await env.products.insert_many(change.tx, batch)
    actor = change.by.actor
    stored = UntoldImport(name, actor, change.now, len(batch), ids[0], ids[-1])
    await env.imports.add(change.tx, stored)


async def _tell(env: Environment, name: str, at: int, change: Change) -> None:
    """Notes what an import has stored that has stored nothing since then."""
    stored = await env.imports.take(change.tx, name, at)
    if stored is not None:
        change.note(ProductsImported(stored.inserted, stored.first_id, stored.last_id))


async def insert_at_once(
    env: Environment, spool: "Spool", by: By, progress: Callable[[int], None]
) -> None:
    """Stores all products or none. `progress` is told the size of every batch that the transaction
    holds; what it raises undoes all of them."""

    async def work(change: Change) -> None:
        first = last = 0
        for batch in _batches(spool):
            ids = await env.products.insert_many(change.tx, batch)
            first, last = first or ids[0], ids[-1]
            progress(len(batch))
        if spool.size:
            change.note(ProductsImported(spool.size, first, last))

    await env.change(by, work)


class Spool:
    """Products on disk, ready to be stored: the transaction that takes them has nothing to check,
    so it is as short as can be. Gone when left."""

    def __init__(self, directory: Path | None) -> None:
        """`directory` must have room for as much as the file that is imported; None: the system's
        place for temporary files."""
        self._file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 - closed by __exit__
        self.size = 0
        """How many products it holds."""
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(Product)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, product: Product) -> None:
        """Appends a product."""
        self._file.write(self._encoder.encode(product) + b"\n")
        self.size += 1

    def __iter__(self) -> Iterator[Product]:
        """Every product, from the first."""
        self._file.seek(0)
        return map(self._decoder.decode, self._file)


def _batches(products: Iterable[Product]) -> Iterator[list[Product]]:
    batch: list[Product] = []
    size = 0
    for product in products:
        batch.append(product)
        size += len(product.description) + len(product.images) + len(product.metadata)
        if len(batch) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
