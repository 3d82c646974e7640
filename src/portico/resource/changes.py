"""The use cases of records, and the rules that run in them.

A rule runs in the transaction of the change, sees no other environment, and has two seconds, with
all other rules of that change; what it changes has its own rules, event and audit entry.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from portico.change import Change
from portico.core.audit import SYSTEM, Author
from portico.core.errors import (
    Conflict,
    Duplicate,
    Fault,
    Invalid,
    NotFound,
    PermissionDenied,
    PorticoError,
    Unavailable,
    invalid,
)
from portico.data.database import UniqueViolation
from portico.environment import Environment
from portico.resource import declared
from portico.resource.compiled import Compiled
from portico.resource.declared import AfterCommit, Record
from portico.resource.fields import MOMENT, ReferenceField, described
from portico.resource.store import Records, exists
from portico.web.reading import Faults

log = logging.getLogger(__name__)

RULE_SECONDS = 2.0

Check = Callable[[Any], None]
"""Checks the conditions of a request against the stored row. Raises `PreconditionFailed`."""


def unchecked(_row: Any) -> None:
    """No condition."""


async def create_record(
    env: Environment, kind: Compiled, values: dict[str, Any], by: Author
) -> Any:
    """Creates a record of these stored values by field; returns its row. Raises `Invalid`,
    `Duplicate`, and what rules refuse by."""

    return await carry_out(env, by, lambda changing: changing.create(kind, values))


async def change_record(
    env: Environment, kind: Compiled, row_id: int, values: dict[str, Any], check: Check, by: Author
) -> Any:
    """Changes values of a record; returns its row. Raises as `create_record`, `NotFound` and
    `PreconditionFailed`."""

    return await carry_out(env, by, lambda changing: changing.update(kind, row_id, values, check))


async def delete_record(
    env: Environment, kind: Compiled, row_id: int, check: Check, by: Author
) -> None:
    """Deletes a record. Raises `NotFound`, `PreconditionFailed`, `Conflict`, and what rules refuse
    by."""

    await carry_out(env, by, lambda changing: changing.delete(kind, row_id, check))


async def carry_out(
    env: Environment, by: Author, work: Callable[["Changing"], Awaitable[Any]]
) -> Any:
    """Runs a change of records, then what follows it; a unique value that is taken becomes
    `Duplicate`."""
    tried: list[tuple[Records, Any]] = []
    made: list[Changing] = []

    async def traced(change: Change) -> Any:
        tried.clear()
        change.tried = tried
        made[:] = [Changing(env, change)]
        return await work(made[0])

    try:
        result = await env.change(by, traced)
    except UniqueViolation as error:
        for records, row in tried:
            if field := await records.taken(row):
                raise taken(records.kind, field.name) from error
        raise Duplicate("A value that must be unique is taken.") from error
    follow(env, made[0].followed)
    return result


def taken(kind: Compiled, field: str) -> Duplicate:
    """The error for a unique value that another record has."""
    return Duplicate(
        f"There is already one of the {kind.many} with this {field}.",
        [Fault(field, "is taken")],
    )


class RulesTooSlow(Unavailable):
    """The rules of a change took longer than `RULE_SECONDS`."""


class Changing:
    """The change of one or several records in one transaction."""

    def __init__(self, env: Environment, change: Change) -> None:
        self.env = env
        self.change = change
        self.followed: list[tuple[Compiled, Any, Any]] = []
        """The changes of records that others follow: their kind, rows before and after."""
        self.in_bulk = False
        """Whether unique values are looked up before they are stored: then it is known which of
        many records is refused, and a transaction of PostgreSQL goes on after that."""
        self._ends: float | None = None
        """When the time of the rules is over, once the first has begun."""

    def begin(self) -> None:
        """Begins another item of several: its rules have the whole time."""
        self._ends = None

    async def create(self, kind: Compiled, values: Mapping[str, Any], *, noted: bool = True) -> Any:
        """Creates a record of these stored values. Unless `noted`, the caller notes that."""
        row = kind.new(values, self.change.now)
        if kind.kind.rules:
            row = await self._ruled(kind, None, row)
        if kind.references:
            await self._check_references(kind, None, row)
        records: Records = kind.store(self.env)
        if kind.unique:
            await self._try(records, row)
        row = await records.insert(self.change.tx, row)
        self._note(kind, None, row, noted=noted)
        return row

    async def update(
        self,
        kind: Compiled,
        row_id: int,
        values: Mapping[str, Any],
        check: Check = unchecked,
        *,
        noted: bool = True,
        given: bool = True,
    ) -> Any:
        """Changes stored values of a record. Nothing is noted where nothing changes; then what
        `check` got is returned. Unless `noted`, the caller notes the change. Only what is `given`
        is held against what may change."""
        before = await self._locked(kind, row_id, check)
        if given and (faults := change_faults(kind, before, values)):
            raise invalid(*faults)
        after = kind.changed(before, values)
        if after == before:
            return before
        if kind.kind.rules:
            after = await self._ruled(kind, before, after)
            if after == before:
                return before
        if kind.references:
            await self._check_references(kind, before, after)
        after = msgspec.structs.replace(after, updated_at=self.change.now)
        records: Records = kind.store(self.env)
        if kind.unique:
            await self._try(records, after)
        await records.update(self.change.tx, before, after)
        self._note(kind, before, after, noted=noted)
        return after

    async def delete(self, kind: Compiled, row_id: int, check: Check = unchecked) -> None:
        """Deletes a record, and what is to go with it."""
        before = await self._locked(kind, row_id, check)
        if kind.kind.rules:
            await self._ruled(kind, before, None)
        await self.release(kind.many, row_id)
        await kind.store(self.env).delete(self.change.tx, before)
        self._note(kind, before, None)

    def _note(self, kind: Compiled, before: Any, after: Any, *, noted: bool = True) -> None:
        if not noted:
            pass
        elif before is None:
            self.change.note(kind.created(after))
        elif after is None:
            self.change.note(kind.deleted(before))
        else:
            self.change.note(kind.updated(after, before))
        if kind.kind.followers:
            self.followed.append((kind, before, after))

    async def release(self, many: str, row_id: int) -> None:
        """Clears or deletes what refers to a record that is to be deleted. Raises `Conflict` where
        a reference forbids it."""
        for records in self.env.records:
            for field in records.kind.references:
                if field.to == many:
                    await self._release(records, field, row_id)

    async def _release(self, records: Records, field: ReferenceField, row_id: int) -> None:
        kind = records.kind
        while rows := await records.referring(self.change.tx, field, row_id, AT_ONCE):
            if field.on_delete is None:
                raise Conflict(
                    f"One of the {kind.many} refers to it ({field.name} of {rows[0].id}): change or"
                    " delete that first."
                )
            for row in rows:
                if field.on_delete == "clear":
                    await self.update(kind, row.id, {field.name: None}, given=False)
                else:
                    await self.delete(kind, row.id)

    async def _locked(self, kind: Compiled, row_id: int, check: Check) -> Any:
        row = await self.change.lock(kind.store(self.env), row_id)
        if row is None:
            raise NotFound(f"There is no {kind.words} {row_id}.")
        check(row)
        return row

    async def _try(self, records: Records, row: Any) -> None:
        self.change.tried.append((records, row))
        if self.in_bulk and (field := await records.taken(row, self.change.tx)):
            raise taken(records.kind, field.name)

    async def _check_references(self, kind: Compiled, before: Any, after: Any) -> None:
        """Raises `Invalid` for a reference to what does not exist, or may not be read."""
        faults = []
        for field in kind.references:
            name = kind.column(field.name)
            to_id = getattr(after, name)
            if to_id is None or (before is not None and getattr(before, name) == to_id):
                continue
            table = self.env.stores[field.to].kind.table_name
            may = self.change.by.may(f"read:{field.to}")
            if not may or not await exists(self.change.tx, self.env.db.engine, table, to_id):
                faults.append(Fault(field.name, f"must be the id of one of the {field.to}"))
        if faults:
            raise invalid(*faults)

    async def _ruled(self, kind: Compiled, before: Any, after: Any) -> Any:
        """The row after a change as the kind's rules leave it."""
        old = None if before is None else kind.record(before)
        new = None if after is None else kind.record(after)
        rules, loop = RuleChange(self), asyncio.get_running_loop()
        if self._ends is None:
            self._ends = loop.time() + RULE_SECONDS
        try:
            async with asyncio.timeout_at(self._ends):
                for rule in kind.kind.rules:
                    given = await rule(rules, old, new)
                    if given is not None and new is not None:
                        new = given
        except TimeoutError as error:
            raise RulesTooSlow(
                f"The rules of {kind.many} took longer than {RULE_SECONDS:g} seconds; nothing was"
                " changed."
            ) from error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise RuleError(f"a rule of {kind.many} awaited what it had cancelled") from error
        except (declared.Refused, declared.Conflict, declared.Forbidden) as error:
            raise _refusal(error) from error
        return after if new is None else _row_of(kind, after, new)


def _refusal(error: Exception) -> PorticoError:
    """The error of a change that a rule refuses."""
    refusal: PorticoError
    if isinstance(error, declared.Refused):
        faults = [Fault(*pair) for pair in error.fields.items()]
        refusal = Invalid("The change was refused.", faults)
    elif isinstance(error, declared.Conflict):
        refusal = Conflict(str(error))
    else:
        refusal = PermissionDenied(str(error))
    refusal.by_rule = True
    return refusal


AT_ONCE = 100
"""How many referring records are looked up at a time."""


class RuleError(Exception):
    """A rule has a fault of its own: 500, with this in the log."""


def _row_of(kind: Compiled, row: Any, record: Any) -> Any:
    """The row of the record that a rule returned."""
    if type(record) is not kind.kind.record:
        raise RuleError(f"a rule of {kind.many} returned {record!r}, which is none of its records")
    values: dict[str, Any] = {}
    faults = Faults()
    for field in kind.fields:
        value = getattr(record, field.name)
        sent = None if value is None else field.sent(value)
        values[field.name] = kind.readers[field.name].read(sent, field.name, faults)
    found = [*faults.unreadable, *faults.broken]
    if found:
        broken = "; ".join(f"{fault.field} {fault.message}" for fault in found)
        raise RuleError(f"a rule of {kind.many} returned a record that breaks its rules: {broken}")
    return kind.changed(row, values)


def change_faults(kind: Compiled, before: Any, values: Mapping[str, Any]) -> list[Fault]:
    """The faults of a change that depend on what is stored."""
    faults = []
    for field in kind.states:
        new = values.get(field.name)
        if new is not None and (refusal := field.follow(kind.stored(before, field), new)):
            faults.append(Fault(field.name, refusal))
    return faults + [
        Fault(field.name, "cannot be changed")
        for field in kind.fixed
        if field.name in values and values[field.name] != kind.stored(before, field)
    ]


def releasing(env: Environment) -> Callable[[Change, str, int], Awaitable[None]]:
    """`Environment.release` of an environment with kinds."""

    async def release(change: Change, many: str, row_id: int) -> None:
        changing = Changing(env, change)
        await changing.release(many, row_id)

    return release


_under_way: set[asyncio.Task[None]] = set()
"""The followers that have not ended."""


def follow(env: Environment, changes: Sequence[tuple[Compiled, Any, Any]]) -> None:
    """Begins what follows stored changes."""
    for kind, before, after in changes:
        old = None if before is None else kind.record(before)
        new = None if after is None else kind.record(after)
        for follower in kind.kind.followers:
            task = asyncio.ensure_future(_followed(env, kind, follower, old, new))
            _under_way.add(task)
            task.add_done_callback(_under_way.discard)


async def _followed(
    env: Environment, kind: Compiled, follower: AfterCommit, before: Any, after: Any
) -> None:
    try:
        await follower(CommitHook(env), before, after)
    except Exception:
        log.exception("What follows a change of %s failed.", kind.many)


MOST_UNDER_WAY = 1_000
"""With how many followers under way an import waits before its next batch."""


async def followers_behind() -> None:
    """Gives followers a second to end where there are many. Not longer: some may never end."""
    if len(_under_way) > MOST_UNDER_WAY:
        await asyncio.wait(_under_way, timeout=1)


async def followers_ended(seconds: float) -> None:
    """Waits for followers that are under way, at most so long; ends those that take longer."""
    if _under_way:
        _, late = await asyncio.wait(_under_way, timeout=seconds)
        for task in late:
            task.cancel()


class CommitHook:
    """Portico as a follower of changes sees it. Each call is a change of its own."""

    def __init__(self, env: Environment) -> None:
        self._env = env

    @property
    def environment(self) -> str:
        """`live` or `sandbox`."""
        return self._env.name

    async def read(self, kind: str, record_id: int) -> Record | None:
        """The record with this id, or None."""
        return await self._change(lambda rules: rules.read(kind, record_id))

    async def update(self, kind: str, record_id: int, **values: Any) -> Record:
        """As `RuleChange.update`."""
        changed = await self._change(lambda rules: rules.update(kind, record_id, **values))
        assert changed is not None  # noqa: S101 - for mypy
        return changed

    async def create(self, kind: str, **values: Any) -> Record:
        """As `RuleChange.create`."""
        created = await self._change(lambda rules: rules.create(kind, **values))
        assert created is not None  # noqa: S101 - for mypy
        return created

    async def _change(
        self, act: Callable[["RuleChange"], Awaitable[Record | None]]
    ) -> Record | None:
        async def work(changing: Changing) -> Record | None:
            return await act(RuleChange(changing))

        record: Record | None = await carry_out(self._env, SYSTEM, work)
        return record


class Caller(msgspec.Struct, frozen=True):
    """Who asks for a change."""

    id: int
    email: str
    role: str
    scopes: frozenset[str]


class RuleChange:
    """A change as a rule sees it."""

    def __init__(self, changing: Changing) -> None:
        self._changing = changing

    @property
    def caller(self) -> Caller | None:
        """Who asks; None for commands."""
        principal = self._changing.change.by.principal
        if principal is None:
            return None
        return Caller(principal.user_id, principal.email, principal.role, principal.scopes)

    @property
    def now(self) -> Any:
        """The time of the change (`datetime`, UTC)."""
        return MOMENT.given(self._changing.change.now)

    async def read(self, kind: str, record_id: int) -> Record | None:
        """The record with this id, locked until the change ends, or None."""
        env, change = self._changing.env, self._changing.change
        store = env.stores.get(kind)
        if store is None:
            raise LookupError(f"There is no kind {kind!r} that a rule can read.")
        row = await store.seen(change, record_id)
        found: Record | None = None if row is None else store.kind.record(row)
        return found

    async def update(self, kind: str, record_id: int, **values: Any) -> Record:
        """Changes fields of a record in the same transaction, with its own rules, event and audit
        entry. Values that break rules refuse the whole change (422). Raises `LookupError` if there
        is no such record."""
        try:
            compiled = self._kind(kind)
            row = await self._changing.update(compiled, record_id, _stored(compiled, values))
        except NotFound as error:
            raise LookupError(error.message) from error
        return compiled.record(row)

    async def create(self, kind: str, **values: Any) -> Record:
        """Creates a record in the same transaction, as `update` changes one."""
        compiled = self._kind(kind)
        stored = _stored(compiled, values)
        missing = [
            Fault(field.name, "is required")
            for field in compiled.fields
            if field.required and field.name not in stored
        ]
        if missing:
            raise invalid(*missing)
        return compiled.record(await self._changing.create(compiled, stored))

    def _kind(self, many: str) -> Compiled:
        store = self._changing.env.stores.get(many)
        if store is None or not isinstance(store.kind, Compiled):
            raise LookupError(f"There is no kind {many!r} that a rule can change.")
        return store.kind


def _stored(kind: Compiled, values: Mapping[str, Any]) -> dict[str, Any]:
    """The stored forms of what a rule gives. Raises `Invalid`."""
    faults = Faults()
    stored: dict[str, Any] = {}
    for name, value in values.items():
        field = kind.by_name.get(name)
        if field is None or field.derived:
            raise LookupError(f"{kind.many} have no field {name!r}.")
        sent = None if value is None else field.sent(value)
        stored[name] = described(field).read(sent, name, faults)
    if found := [*faults.unreadable, *faults.broken]:
        raise invalid(*found)
    return stored
