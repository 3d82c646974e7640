"""What pages alone read: users by a part of their name or e-mail, the actions of the audit log."""

import msgspec
import pytest

from driving import NOON
from portico.domain.audit import OPERATOR
from portico.domain.events.signing_in import SignedOut, SigningKeyCreated, SignInRefused
from portico.domain.users import User
from portico.storage.audit import Audit
from portico.storage.database import Database
from portico.storage.users import Users
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


@pytest.mark.parametrize(
    ("text", "role", "found"),
    [
        ("ADA", None, ["Adam_Smith", "Ada Lovelace"]),
        ("ada", "admin", ["Ada Lovelace"]),
        ("@EXAMPLE.", "viewer", ["!Bang", "Ørsted 100%"]),
        ("øRSTED", None, ["Ørsted 100%"]),
        ("0%", None, ["Ørsted 100%"]),
        ("a%", None, []),
        ("m_s", None, ["Adam_Smith"]),
        ("a_a", None, []),
        ("!", None, ["!Bang"]),
        ("\\", None, []),
        ("' OR 1=1 --", None, []),
    ],
)
async def test_users_are_found_by_any_part_newest_first(
    users: Users, text: str, role: str | None, found: list[str]
) -> None:
    page = await users.search(text, role=role, offset=0, limit=10)
    assert [user.name for user in page.rows] == found
    assert page.total == len(found)


async def test_found_users_come_in_pages_with_the_total_of_all(users: Users) -> None:
    pages = [await users.search("example", role=None, offset=at, limit=3) for at in (0, 3)]
    assert [[user.name for user in page.rows] for page in pages] == [
        ["!Bang", "Ørsted 100%", "Adam_Smith"],
        ["Ada Lovelace"],
    ]
    assert [page.total for page in pages] == [4, 4]


async def test_every_action_of_the_audit_log_is_named_once(database: Database) -> None:
    audit = Audit(database)
    assert await audit.actions() == []
    async with database.transaction() as tx:
        for event in (SignedOut(1), SignInRefused(None), SignedOut(2), SigningKeyCreated("a")):
            await audit.record(tx, OPERATOR.actor, NOON, event)
    assert await audit.actions() == ["sign_in.refused", "sign_out", "signing_key.created"]


@pytest.mark.parametrize(
    ("user_id", "action", "index"),
    [
        (None, None, None),
        (7, None, "audit_by_user"),
        (None, "signing_key.created", "audit_by_action"),
        (7, "signing_key.created", "audit_by_"),
    ],
)
async def test_the_audit_log_is_read_by_the_index_of_the_filter_that_is_set(
    database: Database, user_id: int | None, action: str | None, index: str | None
) -> None:
    audit = Audit(database)
    async with database.transaction() as tx:
        for number in range(2_000):
            rare = number % 500 == 0
            who = msgspec.structs.replace(OPERATOR.actor, user_id=7 if rare else number % 5 + 10)
            await audit.record(tx, who, NOON, SigningKeyCreated("a") if rare else SignedOut(1))
        await tx.script("ANALYZE")
    asked = recorded(database)
    found = await audit.page(user_id=user_id, action=action, limit=3)
    assert len(found) == 3
    assert [entry.id for entry in found] == sorted((entry.id for entry in found), reverse=True)
    assert all(entry.user_id == (user_id or entry.user_id) for entry in found)
    assert all(entry.action == (action or entry.action) for entry in found)
    plan = await asked.plan()
    assert index in plan if index else "audit_by_" not in plan, plan
