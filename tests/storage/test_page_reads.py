"""What pages alone read: users by a part of their name or e-mail, the actions of the audit log."""

import re

import msgspec
import pytest

from driving import NOON
from portico.core.audit import OPERATOR
from portico.core.users import User
from portico.data.database import Database
from portico.features.events.audit import Audit, AuditFilter
from portico.features.people.rules import UserResumed
from portico.features.people.storage import Users
from portico.features.signin.rules import SignedOut, SigningKeyCreated, SignInRefused
from storage.recording import recorded

PEOPLE = (
    ("Ada Lovelace", "ada@example.com", "admin"),
    ("Adam_Smith", "smith@example.com", "editor"),
    ("Ørsted 100%", "hans@example.com", "viewer"),
    ("!Bang", "bang!@example.com", "viewer"),
)


@pytest.fixture
async def users(database: Database) -> Users:
    users = Users(database)
    async with database.transaction() as tx:
        for number, (name, email, role) in enumerate(PEOPLE):
            person = User(
                id=0,
                name=name,
                email=email,
                role=role,
                plan="free",
                avatar_url=None,
                theme="system",
                language="en",
                notifications=True,
                account_id=None,
                password_hash=None,
                last_login_at=None,
                created_at=NOON + number,
                updated_at=NOON,
            )
            await users.insert(tx, person)
    return users


FOUND = [
    ("ADA", None, ["Adam_Smith", "Ada Lovelace"]),
    ("ada", "admin", ["Ada Lovelace"]),
    ("@EXAMPLE.", "viewer", ["!Bang", "Ørsted 100%"]),
    ("øRSTED", None, ["Ørsted 100%"]),
    *((text, None, []) for text in ("a%", "a_a", "\\", "' OR 1=1 --")),
    ("m_s", None, ["Adam_Smith"]),
    ("!", None, ["!Bang"]),
]


async def test_users_are_found_by_any_part_newest_first(users: Users) -> None:
    for text, role, found in FOUND:
        page = await users.search(text, role=role, offset=0, limit=10)
        assert [user.name for user in page.rows] == found, text
        assert page.total == len(found)
    page = await users.search("example", role=None, offset=3, limit=3)
    assert ([user.name for user in page.rows], page.total) == (["Ada Lovelace"], 4)


async def test_every_action_of_the_audit_log_is_named_once(database: Database) -> None:
    audit = Audit(database)
    assert await audit.actions() == []
    async with database.transaction() as tx:
        for event in (
            SignedOut(1),
            SignInRefused(None),
            SignedOut(2),
            SigningKeyCreated("a", at_once=True),
        ):
            await audit.record(tx, OPERATOR.actor, NOON, event)
    assert await audit.actions() == ["sign_in.refused", "sign_out", "signing_key.created"]


RARE = "signing_key.created"
KEY = ("signing_key", "a")
_RANGE_INDICES = """
SELECT CAST(inhrelid::regclass AS TEXT), CAST(inhparent::regclass AS TEXT) FROM pg_inherits
WHERE inhparent IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'audit'::regclass)"""


BY_USER = frozenset({7})
INDICES = [
    (AuditFilter(), "audit_by_time"),
    (AuditFilter(since=NOON, until=NOON + 9), "audit_by_time"),
    (AuditFilter(users=BY_USER), "audit_by_user audit_by_target"),
    (AuditFilter(users=BY_USER, action=RARE), "audit_by_user_action audit_by_target"),
    (AuditFilter(users=BY_USER, target=KEY), "audit_by_ audit_by_target"),
    (AuditFilter(action=RARE, until=NOON + 2_000), "audit_by_action"),
    (AuditFilter(target=KEY), "audit_by_target"),
    (AuditFilter(target=KEY, action=RARE), "audit_by_"),
]


async def test_the_audit_log_is_read_by_the_index_of_the_filter_that_is_set(
    database: Database,
) -> None:
    audit = Audit(database)
    async with database.transaction() as tx:
        for number in range(2_000):
            rare = number % 200 == 0
            who = msgspec.structs.replace(OPERATOR.actor, user_id=7 if rare else number % 5 + 10)
            event = SigningKeyCreated("a", at_once=True) if rare else SignedOut(number)
            await audit.record(tx, who, NOON + number // 500, event)
        await tx.script("ANALYZE")
    asked = recorded(database)
    for chosen, indices in INDICES:
        for before in (None, 1_500):
            found = await audit.page(chosen, before=before, limit=3)
            ids = [entry.id for entry in found]
            assert len(ids) == 3
            assert ids == sorted(ids, reverse=True)
            assert all(each < (before or 2_001) for each in ids)
            assert all(chosen.users is None or entry.user_id in chosen.users for entry in found)
            assert all(entry.action == (chosen.action or entry.action) for entry in found)
            plan = await asked.plan()
            if database.engine == "postgres":
                for of_range, of_log in await database.all(_RANGE_INDICES):
                    plan = plan.replace(of_range, of_log)
            assert all(index in plan for index in indices.split()), plan
            assert not re.search(r"SCAN audit$|Seq Scan on (?!audit_rest)", plan, re.MULTILINE)


async def walked(audit: Audit, chosen: AuditFilter, limit: int) -> list[int]:
    """The ids of all entries of a filter, page by page."""
    ids: list[int] = []
    while found := await audit.page(chosen, before=ids[-1] if ids else None, limit=limit):
        ids += [entry.id for entry in found]
    return ids


async def test_entries_come_by_their_times_once_each_whatever_order_they_were_written_in(
    database: Database,
) -> None:
    audit = Audit(database)
    actor = msgspec.structs.replace(OPERATOR.actor, user_id=7)
    times = [5, 9, 5, 1, 9, 5, 7]
    async with database.transaction() as tx:
        for at in times:
            await audit.record(tx, actor, NOON + at, SignedOut(1))
    newest_first = [5, 2, 7, 6, 3, 1, 4]
    for limit in (1, 2, 7):
        assert await walked(audit, AuditFilter(), limit) == newest_first
        assert await walked(audit, AuditFilter(users=frozenset({7})), limit) == newest_first
        bounded = AuditFilter(since=NOON + 5, until=NOON + 9)
        assert await walked(audit, bounded, limit) == [7, 6, 3, 1]


async def test_what_a_user_did_and_what_was_done_to_them_is_found_once_each(
    database: Database, users: Users
) -> None:
    ada = await users.by_email("ada@example.com")
    smith = await users.by_email("smith@example.com")
    assert ada is not None
    assert smith is not None
    audit = Audit(database)
    by_ada = msgspec.structs.replace(OPERATOR.actor, user_id=ada.id)
    by_smith = msgspec.structs.replace(OPERATOR.actor, user_id=smith.id)
    async with database.transaction() as tx:
        await audit.record(tx, by_ada, NOON, UserResumed(ada, ada))
        await audit.record(tx, by_ada, NOON, UserResumed(smith, smith))
        await audit.record(tx, by_smith, NOON, SignedOut(ada.id))  # a session with the same number
        await audit.record(tx, by_smith, NOON, UserResumed(ada, ada))
    assert await walked(audit, AuditFilter(users=frozenset({ada.id})), 1) == [4, 2, 1]
    assert await walked(
        audit, AuditFilter(users=frozenset({ada.id}), action="user.resumed"), 9
    ) == [4, 2, 1]
    about_smith = AuditFilter(users=frozenset({ada.id}), target=("user", str(smith.id)))
    assert await walked(audit, about_smith, 9) == [2]
    assert await walked(audit, AuditFilter(target=("user", str(ada.id))), 9) == [4, 1]
