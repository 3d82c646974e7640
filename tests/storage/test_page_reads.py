"""What pages alone read: users by a part of their name or e-mail, the actions of the audit log."""

import pytest

from driving import NOON
from portico.domain.audit import OPERATOR
from portico.domain.users import User
from portico.storage.audit import Audit
from portico.storage.database import Database
from portico.storage.users import Users

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
        for action in ("user.created", "key.created", "user.created", "sign_in", "key.created"):
            await audit.record(tx, OPERATOR, NOON, action)
    assert await audit.actions() == ["key.created", "sign_in", "user.created"]
