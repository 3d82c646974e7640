"""The unit of work: the only way in which a use case changes something.

    async def work(change: Change) -> User:
        user = await env[Users].insert(change.tx, …)
        change.note(UserCreated(user))
        return user

    return await env.change(by, work)

It provides the transaction and the time, and allows rows to be locked in one order only. At the end
it writes the audit log's lines (unless the caller's credential has become invalid meanwhile), the
events, and the answer kept for an `Idempotency-Key`, all in the same transaction. A change without
a note is rolled back. `work` may run more than once: PostgreSQL may require that a transaction be
repeated. The reasons are in docs/decisions/0020.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from portico.core.audit import KEPT_SECONDS, Actor, Answer, Author, Kept, KeyedRequest
from portico.core.caller import Principal
from portico.core.errors import AuthenticationRequired, OutcomeUnknown, Unavailable
from portico.core.events import Event, Published
from portico.core.times import SECOND, Clock
from portico.data.database import Contended, Database, Rank, Signal, Transaction, Undo, acting_for

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)

Tell = Callable[[Event, int], Iterable[Published]]
"""Turns a note into the events that readers get, given the time in epoch milliseconds; none if the
note is not published."""

TRIES = 4
"""How often to try a transaction that conflicts with others."""

_REPEAT = "A repeat with the same Idempotency-Key is safe."
_ENDED = "This credential expired or was revoked during the request; nothing was changed."


class AnsweredBefore(Exception):
    """Another request with the same `Idempotency-Key` was stored; this one was rolled back."""


class Lockable(Protocol[R_co]):
    """A repository whose rows a change can lock."""

    rank: Rank

    async def get(self, row_id: int, tx: Transaction | None = None) -> R_co | None:
        """The row with this id, or None. With `tx` it is locked until the transaction ends."""
        ...


class AuditLog(Protocol):
    """Where notes become lines of the audit log."""

    async def record(
        self,
        tx: Transaction,
        actor: Actor,
        now: int,
        event: Event,
        *,
        still: Principal | None = None,
        ended: Exception | None = None,
    ) -> None:
        """Writes a line; raises `ended` if the credential of `still` is no longer valid."""
        ...


class EventLog(Protocol):
    """Where published notes wait for their readers."""

    async def add(self, tx: Transaction, now: int, event: Published) -> None:
        """Stores an event."""
        ...


class Held(Protocol):
    """The credentials that callers hold."""

    async def holds(self, principal: Principal, now: int, tx: Transaction) -> bool:
        """Whether the caller's credential is valid."""
        ...


_KEPT_ANSWER = """
SELECT body_hash, status, headers, body FROM idempotency_keys
WHERE user_id = :user_id AND route = :route AND key_hash = :key_hash AND created_at > :since"""
# Of concurrent requests with one key exactly one finds no row, or one that has expired.
_KEEP_ANSWER = """
INSERT INTO idempotency_keys (user_id, route, key_hash, body_hash, status, headers, body,
    created_at)
VALUES (:user_id, :route, :key_hash, :body_hash, :status, :headers, :body, :now)
ON CONFLICT (user_id, route, key_hash) DO UPDATE SET body_hash = excluded.body_hash,
    status = excluded.status, headers = excluded.headers, body = excluded.body,
    created_at = excluded.created_at
WHERE idempotency_keys.created_at <= :since RETURNING status"""
_FORGET_ANSWERS = "DELETE FROM idempotency_keys WHERE created_at <= :since"


def _since(now: int) -> int:
    return now - KEPT_SECONDS * SECOND


class IdempotencyKeys:
    """The answers of one environment that are stored together with their effect, for requests that
    are repeated."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def get(self, request: KeyedRequest, now: int) -> Kept | None:
        """The answer to an earlier request with the same key in the last 24 hours, if any."""
        values = {**msgspec.structs.asdict(request), "since": _since(now)}
        row = await self._db.one(_KEPT_ANSWER, values)
        if row is None:
            return None
        headers = msgspec.json.decode(row[2], type=list[tuple[str, str]])
        return Kept(row[0], Answer(row[1], headers, row[3]))

    async def keep(
        self,
        tx: Transaction,
        request: KeyedRequest,
        now: int,
        answer: Answer,
        otherwise: Exception,
    ) -> None:
        """Keeps the answer to a request. Raises `otherwise` if another request with the same key
        came first."""
        values = {
            **msgspec.structs.asdict(request),
            "status": answer.status,
            "headers": msgspec.json.encode(answer.headers).decode(),
            "body": answer.body,
            "now": now,
            "since": _since(now),
        }
        await tx.conclude(_KEEP_ANSWER, values, otherwise)

    async def forget(self, tx: Transaction, now: int) -> None:
        """Removes answers older than 24 hours."""
        await tx.run(_FORGET_ANSWERS, {"since": _since(now)})


class ChangeStores(NamedTuple):
    """What every change writes and checks."""

    audit: AuditLog
    events: EventLog
    answers: IdempotencyKeys
    credentials: Held


class Change:
    """A change in progress, which `work` receives. `now` is in epoch milliseconds."""

    def __init__(
        self, records: ChangeStores, tell: Tell, tx: Transaction, by: Author, now: int
    ) -> None:
        self._records = records
        self._tell = tell
        self.tx = tx
        self.by = by
        self.now = now
        self.notes: list[tuple[Author, Event]] = []
        self.published = False
        """Whether `finish` has stored events."""
        self.posted = False
        """Whether mails or logouts were stored that their jobs must send after the commit."""
        self.tried: list[Any] = []
        """The records whose unique values this change stores, for the error if one is taken."""
        self._noted_elsewhere = False
        self.checked = by.principal is None
        """Whether the caller's credential is known to be valid, or there is no caller."""
        self._rank = Rank.USER

    def note(self, event: Event, by: Author | None = None) -> None:
        """Records an event. `by` is the actor, where it is known only inside the change."""
        self.notes.append((by or self.by, event))

    def noted_elsewhere(self) -> None:
        """Allows the change to be stored without a note, because it is part of, or follows from,
        another change that is noted."""
        self._noted_elsewhere = True

    @property
    def noted(self) -> bool:
        """Whether the change may be committed."""
        return bool(self.notes) or self._noted_elsewhere

    async def lock(self, rows: Lockable[T], row_id: int) -> T | None:
        """The row with this id, locked until the change ends, or None.

        Lock users before clients before grants before everything else, so that no two changes
        deadlock; any other order raises `RuntimeError`. Before inserting a row that refers to
        another row, lock that row.
        """
        if rows.rank < self._rank:
            raise RuntimeError(f"{rows.rank.name} must be locked before {self._rank.name}")
        self._rank = rows.rank
        return await rows.get(row_id, self.tx)

    async def check(self) -> None:
        """Raises `AuthenticationRequired` if the caller's credential is no longer valid.

        Call it only in a change that may end the caller's own credential, before doing so. All
        others are checked when they finish.
        """
        principal, credentials = self.by.principal, self._records.credentials
        if principal is not None and not await credentials.holds(principal, self.now, self.tx):
            raise ended(principal)
        self.checked = True

    async def finish(self, result: object) -> None:
        """Writes audit lines, events and the kept answer. `result` is what `work` returned."""
        for number, (by, event) in enumerate(self.notes, 1):
            if acting_for.get() is None:
                # Signing in: from now on the user must see their own writes.
                acting_for.set(by.actor.user_id)
            # The last line's statement also checks the credential, which saves a round trip.
            still = None if self.checked or number < len(self.notes) else self.by.principal
            over = ended(still) if still is not None else None
            await self._records.audit.record(
                self.tx, by.actor, self.now, event, still=still, ended=over
            )
        for published in self._all_published():
            await self._records.events.add(self.tx, self.now, published)
            self.published = True
        # After the audit line: an invalid credential takes precedence over an answer already kept.
        if self.by.request is not None and self.by.answer is not None:
            await self._records.answers.keep(
                self.tx, self.by.request, self.now, self.by.answer(result), AnsweredBefore()
            )

    def _all_published(self) -> Iterable[Published]:
        """The events to publish: two notes that give the same event are published once."""
        first: dict[tuple[str, str], Published] = {}
        for _, event in self.notes:
            for published in self._tell(event, self.now):
                first.setdefault((published.type, published.data), published)
        return first.values()


def ended(principal: Principal) -> AuthenticationRequired:
    """The error for a change whose credential became invalid while it was in progress."""
    is_token = principal.credential != "session"
    return AuthenticationRequired(_ENDED, error="invalid_token" if is_token else None)


class Changes:
    """Runs the changes of one environment. It is `env.change`."""

    def __init__(
        self, db: Database, records: ChangeStores, clock: Clock, tell: Tell, mails_bell: Signal
    ) -> None:
        """`mails_bell` is rung after a change that stored mails or logouts."""
        self._db = db
        self._records = records
        self._tell = tell
        self._clock = clock
        self._mails_bell = mails_bell

    async def __call__(self, by: Author, work: Callable[[Change], Awaitable[T]]) -> T:
        """Runs `work` in one transaction on behalf of `by`. Returns its result once it is on disk.

        If `work` raises, everything is rolled back and the exception is passed on. Also raises
        `AuthenticationRequired` if the caller's credential is no longer valid, `UniqueViolation`,
        `AnsweredBefore`, `Unavailable`, and `OutcomeUnknown` if it is not known whether the change
        was stored.
        """
        for left in reversed(range(TRIES)):
            try:
                return await self._once(by, work)
            except OutcomeUnknown as error:
                if by.request is None:
                    raise
                raise OutcomeUnknown(_REPEAT) from error
            except Contended as error:
                if not left:
                    raise Unavailable("The database is busy; nothing was changed.", 2) from error
        raise AssertionError  # the last try has returned or raised

    async def note(self, by: Author, event: Event) -> None:
        """Records an event; nothing else changes. Raises what every change raises."""

        async def work(change: Change) -> None:
            change.note(event)

        await self(by, work)

    async def keep_refusal(self, by: Author, refusal: Answer) -> None:
        """Keeps a refusal as the answer to a request with an `Idempotency-Key`, in a separate
        change. Raises what every change raises."""

        async def work(change: Change) -> None:
            await change.check()
            change.noted_elsewhere()

        await self(msgspec.structs.replace(by, answer=lambda _: refusal), work)

    async def _once(self, by: Author, work: Callable[[Change], Awaitable[T]]) -> T:
        try:
            async with self._db.transaction() as tx:
                change = Change(self._records, self._tell, tx, by, self._clock())
                result = await work(change)
                if not change.noted:
                    raise Undo  # noqa: TRY301 - an exception is how a transaction is rolled back
                await change.finish(result)
        except Undo:
            return result
        if change.published:
            self._db.signal.notify()
        if change.posted:
            self._mails_bell.notify()
        return result
