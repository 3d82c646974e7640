"""The unit of work: the one way in which a use case changes something.

    async def work(change: Change) -> Product:
        product = await env.products.insert(change.tx, …)
        change.note(ProductCreated(product))
        return product

    return await env.change(by, work)

It gives the transaction and the time, sees that the caller's credential still holds, takes locks in
one order, and writes with the change what it leaves behind: the audit log's lines, the events, and
the answer that is kept for an `Idempotency-Key`. Without a note nothing is stored. `work` may run
more than once: PostgreSQL may ask for a transaction to be repeated.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol, TypeVar

import msgspec

from portico.domain.audit import By
from portico.domain.caller import Principal
from portico.domain.errors import AuthenticationRequired, Unavailable, Unknown
from portico.domain.events.base import Event
from portico.domain.idempotency import Answer
from portico.domain.published import Published
from portico.domain.times import Clock
from portico.storage.bell import Bell
from portico.storage.database import Contended, Database, Rank, Transaction, Undo, acting_for
from portico.storage.stores import Stores

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)

Tell = Callable[[Event, int], Published | None]
"""What readers of events are told of a note, by a time in epoch milliseconds."""

TRIES = 4
"""How often a transaction is tried that others get in the way of."""

_REPEAT = "A repeat with the same Idempotency-Key is safe."
_ENDED = "This credential ended while the request was under way; nothing was changed."


class AnsweredBefore(Exception):
    """Another request with the same `Idempotency-Key` has had its effect; this one had none."""


class Lockable(Protocol[R_co]):
    """A repository whose rows a change can lock."""

    rank: Rank

    async def get(self, row_id: int, tx: Transaction | None = None) -> R_co | None:
        """The row with this id; with `tx`, nobody else changes it until that ends."""
        ...


class Change:
    """A change under way. `now` is in epoch milliseconds."""

    def __init__(self, stores: Stores, tell: Tell, tx: Transaction, by: By, now: int) -> None:
        self._stores = stores
        self._tell = tell
        self.tx = tx
        self.by = by
        self.now = now
        self.notes: list[tuple[By, Event]] = []
        self.published = False
        """Whether readers of events are told something, once it has finished."""
        self.posted = False
        """Whether mails wait to be sent, once it has finished."""
        self._told_elsewhere = False
        self.checked = by.principal is None
        """Whether the caller's credential is known to hold."""
        self._rank = Rank.USER

    def note(self, event: Event, by: By | None = None) -> None:
        """What the change tells. `by` is who did it, where that is known only by now."""
        self.notes.append((by or self.by, event))

    def told_elsewhere(self) -> None:
        """Lets the change be stored without a note of its own: a part of a larger one, or what
        follows of one that was noted."""
        self._told_elsewhere = True

    @property
    def noted(self) -> bool:
        """Whether the change may be stored."""
        return bool(self.notes) or self._told_elsewhere

    async def lock(self, rows: Lockable[T], row_id: int) -> T | None:
        """A row that nobody else changes until this has ended, None where it is not there.

        In one order, so that of two changes none waits for the other in a ring: users before
        clients before grants before all else. A row that refers to another is inserted with that
        other locked.
        """
        if rows.rank < self._rank:
            raise RuntimeError(f"{rows.rank.name} must be locked before {self._rank.name}")
        self._rank = rows.rank
        return await rows.get(row_id, self.tx)

    async def check(self) -> None:
        """Raises `AuthenticationRequired` where the caller's credential has ended.

        Every change is checked at its very end; one that ends its own credential does it first.
        """
        principal, credentials = self.by.principal, self._stores.live_credentials
        if principal is not None and not await credentials.holds(principal, self.now, self.tx):
            raise ended(principal)
        self.checked = True

    async def finish(self, result: object) -> None:
        """Writes what the change leaves behind."""
        for number, (by, event) in enumerate(self.notes, 1):
            if acting_for.get() is None:  # as who signs in: they find it in lists as others do
                acting_for.set(by.actor.user_id)
            # The last line is written only where the credential holds: one statement for both.
            still = None if self.checked or number < len(self.notes) else self.by.principal
            over = ended(still) if still is not None else None
            await self._stores.audit.record(
                self.tx, by.actor, self.now, event, still=still, ended=over
            )
        for told in self._told():
            await self._stores.events.add(self.tx, self.now, told)
            self.published = True
        # After the line: that the caller is not there any more goes before what it was answered.
        if self.by.request is not None and self.by.answer is not None:
            await self._stores.idempotency_keys.keep(
                self.tx, self.by.request, self.now, self.by.answer(result), AnsweredBefore()
            )

    def _told(self) -> Iterable[Published]:
        """What readers of events are told: of one resource in one state, once."""
        told: dict[tuple[str, str], Published] = {}
        for _, event in self.notes:
            if (published := self._tell(event, self.now)) is not None:
                told.setdefault((published.type, published.data), published)
        return told.values()


def ended(principal: Principal) -> AuthenticationRequired:
    """Why nobody may change anything by a credential that has ended."""
    is_token = principal.credential != "session"
    return AuthenticationRequired(_ENDED, error="invalid_token" if is_token else None)


class Changes:
    """Carries out the changes of one environment."""

    def __init__(
        self, db: Database, stores: Stores, clock: Clock, tell: Tell, mails_bell: Bell
    ) -> None:
        """`tell` says what readers of events are told of a note, if anything; `mails_bell` rings
        where mails wait to be sent."""
        self._db = db
        self._stores = stores
        self._tell = tell
        self._clock = clock
        self._mails_bell = mails_bell

    async def __call__(self, by: By, work: Callable[[Change], Awaitable[T]]) -> T:
        """Changes something on behalf of `by`: does `work` in one transaction, with what it leaves
        behind. Returns what `work` returned, once that is on disk.

        Raises what `work` raises, after undoing all of it; `AuthenticationRequired` where the
        caller's credential has ended, `UniqueViolation`, `AnsweredBefore`, and `Unavailable`.
        """
        for left in reversed(range(TRIES)):
            try:
                return await self._once(by, work)
            except Unknown as error:
                if by.request is None:
                    raise
                raise Unknown(_REPEAT) from error
            except Contended as error:
                if not left:
                    raise Unavailable("The database is busy; nothing was changed.", 2) from error
        raise AssertionError  # the last try has returned or raised

    async def keep_refusal(self, by: By, refusal: Answer) -> None:
        """Keeps the answer to the request of `by` where that is a refusal, which has no effect to
        be kept with. Raises `AnsweredBefore`, and as a change does."""

        async def work(change: Change) -> None:
            await change.check()
            change.told_elsewhere()

        await self(msgspec.structs.replace(by, answer=lambda _: refusal), work)

    async def _once(self, by: By, work: Callable[[Change], Awaitable[T]]) -> T:
        try:
            async with self._db.transaction() as tx:
                change = Change(self._stores, self._tell, tx, by, self._clock())
                result = await work(change)
                if not change.noted:
                    raise Undo  # noqa: TRY301 - undoing is what a transaction does with an exception
                await change.finish(result)
        except Undo:
            return result
        if change.published:
            self._db.bell.ring()
        if change.posted:
            self._mails_bell.ring()
        return result
